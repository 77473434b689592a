"""Comparisons of sizes that a function of torch takes for a truth: decided, as `if` decides them.

```
F.scaled_dot_product_attention(q, k, v, is_causal=n > 1)        # n: 2 to 64
while torch.export follows:                 n > 1 is a SymBool   # "argument 'is_causal' must be bool, not SymBool"
within `comparisons_decided`:               n > 1 is True        # with the condition that it is so in the whole range
```

Where the range holds sizes of both kinds torch.export refuses the condition, and says which range would do. But it
takes no size for 1: program and model are compared there.
"""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from traceback import walk_stack
from typing import Any

import torch

from edgex.errors import CaptureError
from edgex.export.capture.dimensions.dynamic import Asked
from edgex.export.source.user_code.user_line import innermost_line, is_machinery

_COMPARISONS = ("__eq__", "__ge__", "__gt__", "__le__", "__lt__", "__ne__")
_REFUSAL = re.compile(r"must be bool, not SymBool")

# Files and lines, from the outermost in.
Frames = list[tuple[str, int]]


def fails_for_a_truth(error: Exception) -> bool:
    """Whether a function of torch was given what a comparison of sizes gives, in place of a truth."""
    return isinstance(error, TypeError) and _REFUSAL.search(str(error)) is not None


@contextlib.contextmanager
def comparisons_decided(found: list[Frames]) -> Iterator[None]:
    """Within it, comparisons of sizes are True or False, but for those that torch makes itself.

    Args:
        found: Is given where each was decided.
    """
    before = {name: getattr(torch.SymInt, name) for name in _COMPARISONS}
    for name, compare in before.items():
        setattr(torch.SymInt, name, _decided(compare, found))
    try:
        yield
    finally:
        for name, compare in before.items():
            setattr(torch.SymInt, name, compare)


def _decided(compare: Callable[[Any, Any], Any], found: list[Frames]) -> Callable[[Any, Any], Any]:
    def decide(one: Any, other: Any) -> Any:
        result = compare(one, other)
        if not isinstance(result, torch.SymBool):
            return result
        frame = inspect.currentframe()
        caller = None if frame is None else frame.f_back
        if caller is None or is_machinery(caller.f_code.co_filename):
            return result
        found.append([(outer.f_code.co_filename, line) for outer, line in walk_stack(caller)][::-1])
        return bool(result)

    return decide


def check_single_sizes(
    gives_the_same: Callable[[Mapping[str, Sequence[int]]], bool],
    asked: Sequence[Asked],
    found: Sequence[Frames],
    source_root: Path,
) -> None:
    """Compare program and model where a size is 1, which torch.export takes for none.

    Args:
        gives_the_same: Whether the program gives what the model gives at sizes, by the dimension's name.
        asked: What is dynamic.
        found: What `comparisons_decided` found.
        source_root: Folder of the user's file.

    Raises:
        CaptureError: They differ.
    """
    for item in asked:
        if getattr(item.dim, "min", None) not in (0, 1):
            continue
        if not gives_the_same({item.name: [1]}):
            line = next(filter(None, (innermost_line(frames, source_root) for frames in found)), None)
            most = getattr(item.dim, "max", None)
            most = most if isinstance(most, int) else "N"
            raise CaptureError(
                f"{item.name} = 1 gives forward another way than the other sizes",
                None if line is None else str(line),
                f"let it begin at 2: {item.name} = Dim({item.name!r}, min=2, max={most}); on the command line: "
                f"--dynamic {item.input}:{item.axis}=2..{most}; the size 1 has an artifact of its own then",
                why="a comparison of sizes is the argument of a function of torch, and a program has one path",
            )
