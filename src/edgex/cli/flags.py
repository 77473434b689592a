"""The texts that flags take, as values: sizes, bounds, options, lists."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from edgex.errors import UsageError
from edgex.export.capture.dimensions.request import DimRequest
from edgex.runtime.artifact.specs import Dim


def split_list(flag: str, values: Sequence[str]) -> tuple[str, ...]:
    """Lists come by comma or by repetition: `-t a,b -t c` is a, b, c.

    Raises:
        UsageError: A text lists nothing, as an empty variable of a script does.
    """
    parts: list[str] = []
    for value in values:
        listed = [part.strip() for part in value.split(",") if part.strip()]
        if not listed:
            raise UsageError(f"{flag} {value!r} lists nothing", fix="name at least one")
        parts += listed
    return tuple(parts)


def parse_shapes(values: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """`x=1x3x224x224` (or `x=[1,3,224,224]`) as sizes by input name.

    Raises:
        UsageError: A text has another form, or an input has two.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for value in values:
        name, separator, text = value.partition("=")
        sizes = re.split(r"[x,]", text.strip("[]()").replace(" ", ""))
        if not separator or not name or not all(size.isdigit() for size in sizes):
            raise UsageError(
                f"--input-shape {value}: expected name=SIZExSIZE…", fix=f"--input-shape {name or 'NAME'}=1x3x224x224"
            )
        _check_new("--input-shape", name, shapes)
        shapes[name] = tuple(int(size) for size in sizes)
    return shapes


def parse_dynamic(values: Sequence[str]) -> dict[tuple[str, int], Dim]:
    """What varies, by input name and axis.

    ```
    x:0=1..8                    between these bounds
    ids:1=L=8..128,mask:1=L     one length, named, in two inputs
    y:0=2*L  y:0=L+1            follows another, which has the bounds
    x:0=2*N=1..4                even sizes from 2 to 8
    x:0=auto=1..8               torch.export decides what it depends on
    ```

    Raises:
        UsageError: A text has another form, the bounds are in the wrong order or allow a size of 0, a name has none or
            two, or a dimension comes twice.
    """
    read = {}
    bounds: dict[str, tuple[int, int, str]] = {}
    for value in split_list("--dynamic", values):
        match = _DYNAMIC.fullmatch(value)
        if match is None or (match["name"] is None and match["low"] is None):
            name = re.split("[:=]", value)[0] or "NAME"
            raise UsageError(
                f"--dynamic {value}: expected input:axis=min..max",
                fix=f"--dynamic {name}:0=1..8; with a name that inputs share: --dynamic ids:1=L=8..128,mask:1=L",
            )
        plain = re.sub(r"\W", "_", match["input"])
        auto = match["name"] in ("auto", "AUTO")
        name = f"{plain}_{match['axis']}" if match["name"] is None or auto else match["name"]
        if (match["input"], int(match["axis"])) in read:
            raise UsageError(f"--dynamic {value}: this dimension is given twice", fix="give it once")
        read[match["input"], int(match["axis"])] = (value, name, auto, match)
        if match["low"] is not None:
            low, high = int(match["low"]), int(match["high"])
            if low >= high:
                raise UsageError(f"--dynamic {value}: min must be below max")
            if name in bounds and bounds[name][:2] != (low, high):
                raise UsageError(
                    f"--dynamic {value}: {name} has other bounds in --dynamic {bounds[name][2]}",
                    fix="give the bounds once, and the name alone elsewhere",
                )
            bounds[name] = (low, high, value)
    dims: dict[tuple[str, int], Dim] = {}
    for key, (value, name, auto, match) in read.items():
        if name not in bounds:
            raise UsageError(f"--dynamic {value}: {name} has no bounds", fix=f"--dynamic {key[0]}:{key[1]}={name}=1..8")
        offset = int(f"{match['sign']}{match['offset']}") if match["sign"] else 0
        low, high = bounds[name][:2]
        factor = int(match["factor"] or 1)
        if factor * low + offset < 1:
            # Without values there is nothing to compare, so that the artifact would take other sizes than asked for.
            least = -(-(1 - offset) // factor) if factor else None
            shown = f"{match['name']}=" if match["name"] else ""
            plain = f"--dynamic {key[0]}:{key[1]}={shown}1..{high}"
            raise UsageError(
                f"--dynamic {value} allows a size of 0",
                why="an artifact is proved at the smallest size, and a run without values proves nothing",
                fix=plain if (factor, offset) == (1, 0) else f"give {name} from {least} on" if least else None,
            )
        dims[key] = DimRequest(name, *bounds[name][:2], factor, offset, auto)
    return dims


_DYNAMIC = re.compile(
    r"(?P<input>.+):(?P<axis>\d+)="
    r"(?:(?:(?P<factor>\d+)\*)?(?P<name>[A-Za-z_]\w*)(?:(?P<sign>[+-])(?P<offset>\d+))?)?"
    r"(?:(?(name)[=\[])(?P<low>\d+)\.\.(?P<high>\d+)\]?)?"
)


def parse_key_values(values: Sequence[str]) -> dict[str, str]:
    """`--option key=value`, several times.

    Raises:
        UsageError: A text has no `=`, or a key comes twice.
    """
    pairs: dict[str, str] = {}
    for value in values:
        key, separator, text = value.partition("=")
        if not separator or not key:
            raise UsageError(f"--option {value}: expected key=value")
        _check_new("--option", key, pairs)
        pairs[key] = text
    return pairs


def _check_new(flag: str, key: str, known: Mapping[str, object]) -> None:
    """Of two values for one name nobody knows which is meant."""
    if key in known:
        raise UsageError(f"{flag}: {key!r} is given twice", fix="give it once")
