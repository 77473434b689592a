"""What torch.export suggests for dynamic dimensions, as a relation between them and as flags of the command line.

```
attention_mask_1 = input_ids_1      two dimensions are one: unified where both were asked for with equal bounds
y_0 = 2*x_0                         --dynamic y:0=2*x_0
batch = 2*_batch                    --dynamic x:0=2*_batch=1..4
mel_2 = 101                         one size only: share it with inputs of that size, or leave the flag out
n = Dim('n', max=5)                 --dynamic x:0=n=2..5
```
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from edgex.export.capture.dimensions.dynamic import Asked
    from edgex.export.source.leaves import Leaf

_LINE = re.compile(r"^\s*(\w+) = (.+?)\s*$")
_LINEAR = re.compile(r"^(?:(\d+)\*)?([A-Za-z_]\w*)(?: ?([+-]) ?(\d+))?$")
_ONE_SIZE = re.compile(r"You marked (.+?) as dynamic but your code specialized it to be a constant \((\d+)\)")
_BOUND = re.compile(r"(min|max)=(\d+)")


@dataclass(frozen=True)
class Suggestion:
    """One line of torch's: `name = text`."""

    name: str
    text: str

    @property
    def linear(self) -> tuple[int, str, int] | None:
        """Factor, other dimension and offset, where the text is such a form."""
        match = _LINEAR.match(self.text)
        if match is None:
            return None
        return int(match[1] or 1), match[2], int(f"{match[3]}{match[4]}") if match[3] else 0


def read_suggestions(message: str) -> tuple[Suggestion, ...]:
    """The suggested fixes in an error of torch.export."""
    found = re.search(r"Suggested fixes:\n((?: +.+\n?)+)", message)
    lines = found[1].splitlines() if found else []
    return tuple(Suggestion(match[1], match[2]) for line in lines if (match := _LINE.match(line)))


def unify(asked: Sequence[Asked], suggestions: Sequence[Suggestion]) -> tuple[list[Asked], tuple[str, ...]]:
    """Let dimensions share one Dim where torch.export demands that they are equal, and their bounds are.

    Returns:
        What is asked for then, and the names of what was unified, `a = b`; none where nothing could be.
    """
    dims = {item.name: item.dim for item in asked if isinstance(item.dim, torch.export.Dim)}
    same: dict[str, str] = {}
    for suggestion in suggestions:
        linear = suggestion.linear
        if linear is None or linear[0] != 1 or linear[2] != 0:
            continue
        one, other = dims.get(suggestion.name), dims.get(linear[1])
        # A derived Dim has a root of its own: what it follows is what the user said.
        if one is None or other is None or hasattr(one, "root") or hasattr(other, "root"):
            continue
        if (one.min, one.max) == (other.min, other.max):
            same[suggestion.name] = same.get(linear[1], linear[1])
    unified = [replace(item, dim=dims[same[item.name]]) if item.name in same else item for item in asked]
    return unified, tuple(f"{name} = {other}" for name, other in same.items())


def explain_in_flags(message: str, asked: Sequence[Asked], leaves: Sequence[Leaf]) -> str | None:
    """What to do about an error of torch.export that is about sizes, in flags; None for any other error.

    Args:
        message: Of torch.export.
        asked: What is dynamic.
        leaves: The example inputs.
    """
    found = _ONE_SIZE.findall(message)
    if found and found[0][1] not in ("0", "1"):
        number = found[0][1]
        items = [item for item in asked if any(size == number and _is_named(item, name) for name, size in found)]
        if items:
            flags = " ".join(f"--dynamic {item.input}:{item.axis}" for item in items)
            otherwise = f"leave {flags} out, or take sizes from the input (x.shape[0]) instead of the number {number}"
            shared = _share_size(items, int(number), asked, leaves)
            return f"{shared}; otherwise {otherwise}" if shared else otherwise
    return flags_for(read_suggestions(message), asked)


def _is_named(item: Asked, name: str) -> bool:
    """Whether torch means this dimension: by its name, or by `L['x'].size()[0]`."""
    return name in (item.name, f"L['{item.input}'].size()[{item.axis}]")


def _share_size(items: Sequence[Asked], size: int, asked: Sequence[Asked], leaves: Sequence[Leaf]) -> str | None:
    """Flags that let dimensions of the same size vary together with `items`; None where there are no others.

    Dimensions of other inputs come first: only where there are none, the other axes of the same input are meant.
    """
    dynamic = {(item.input, item.axis) for item in asked}
    fixed = [
        (leaf.name, axis)
        for leaf in leaves
        if leaf.is_tensor
        for axis, length in enumerate(leaf.value.shape)
        if length == size and (leaf.name, axis) not in dynamic
    ]
    own = {item.input for item in items}
    others = [place for place in fixed if place[0] not in own] or fixed
    dims = [item.dim for item in items]
    if not others or any(hasattr(dim, "root") for dim in dims):
        return None
    lows = [low for dim in dims if isinstance(low := getattr(dim, "min", None), int)]
    highs = [high for dim in dims if isinstance(high := getattr(dim, "max", None), int)]
    if not len(lows) == len(highs) == len(dims):
        return None
    low, high = max(lows), min(highs)
    if low >= high:
        return None
    taken = {item.name for item in asked}
    name = next(name for name in ("L", *(f"L{n}" for n in range(2, len(taken) + 3))) if name not in taken)
    places = [(item.input, item.axis) for item in items] + others
    first, *rest = [f"{leaf}:{axis}={name}" for leaf, axis in places]
    same = [f"{leaf}:{axis}" for leaf, axis in others]
    verb = "has" if len(same) == 1 else "have"
    return f"{', '.join(same)} {verb} the same size: --dynamic {','.join([f'{first}={low}..{high}', *rest])}"


def flags_for(suggestions: Sequence[Suggestion], asked: Sequence[Asked]) -> str | None:
    """The suggestions as flags that can be pasted; None where none can be said so."""
    by_name: dict[str, list[Asked]] = {}
    for item in asked:
        by_name.setdefault(item.name, []).append(item)
    bounds = {s.name: dict(_BOUND.findall(s.text)) for s in suggestions if s.text.startswith("Dim(")}
    words: list[str] = []
    for suggestion in suggestions:
        for item in by_name.get(suggestion.name, ()):
            words.append(_flag_for(suggestion, item, bounds, by_name))
    return "; ".join(dict.fromkeys(words)) or None


def _flag_for(
    suggestion: Suggestion, item: Asked, bounds: Mapping[str, Mapping[str, str]], known: Mapping[str, Sequence[Asked]]
) -> str:
    flag = f"--dynamic {item.input}:{item.axis}="
    low, high = getattr(item.dim, "min", None), getattr(item.dim, "max", None)
    if suggestion.text.isdigit():
        return f"leave {flag.rstrip('=')} out: only size {suggestion.text} works"
    if (linear := suggestion.linear) is not None:
        factor, root, offset = linear
        expression = suggestion.text.replace(" ", "")
        if root in known:
            other = known[root][0]
            first = f"--dynamic {other.input}:{other.axis}={root}={other.dim.min}..{other.dim.max} "
            return f"{first}{flag}{expression}"
        if isinstance(low, int) and isinstance(high, int):
            return f"{flag}{expression}={max((low - offset + factor - 1) // factor, 1)}..{(high - offset) // factor}"
        return f"{flag}{expression}=MIN..MAX"
    found = bounds.get(suggestion.name, {})
    return f"{flag}{found.get('min', low)}..{found.get('max', high)}"
