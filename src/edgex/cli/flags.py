"""The texts that flags take, as values: sizes, bounds, options, lists."""

from __future__ import annotations

import re
from collections.abc import Sequence

from edgex.errors import UsageError
from edgex.runtime.artifact.specs import Dim


def split_list(values: Sequence[str]) -> tuple[str, ...]:
    """Lists come by comma or by repetition: `-t a,b -t c` is a, b, c."""
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())


def parse_shapes(values: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """`x=1x3x224x224` (or `x=[1,3,224,224]`) as sizes by input name.

    Raises:
        UsageError: A text has another form.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for value in values:
        name, separator, text = value.partition("=")
        sizes = re.split(r"[x,]", text.strip("[]()").replace(" ", ""))
        if not separator or not name or not all(size.isdigit() for size in sizes):
            raise UsageError(f"--input-shape {value}: expected name=SIZExSIZE…", fix="--input-shape x=1x3x224x224")
        shapes[name] = tuple(int(size) for size in sizes)
    return shapes


def parse_dynamic(values: Sequence[str]) -> dict[tuple[str, int], Dim]:
    """`x:0=1..8`, or `x:0=batch[1..8]` with a name, as bounds by input name and axis.

    Raises:
        UsageError: A text has another form, or the bounds are in the wrong order.
    """
    bounds: dict[tuple[str, int], Dim] = {}
    for value in values:
        match = re.fullmatch(r"(.+):(\d+)=(?:([A-Za-z_]\w*)\[)?(\d+)\.\.(\d+)\]?", value)
        if match is None:
            raise UsageError(f"--dynamic {value}: expected input:axis=min..max", fix="--dynamic x:0=1..8")
        name, axis, low, high = match[1], int(match[2]), int(match[4]), int(match[5])
        if low >= high:
            raise UsageError(f"--dynamic {value}: min must be below max")
        plain = re.sub(r"\W", "_", name)
        bounds[name, axis] = Dim(match[3] or f"{plain}_{axis}", low, high)
    return bounds


def parse_key_values(values: Sequence[str]) -> dict[str, str]:
    """`--option key=value`, several times.

    Raises:
        UsageError: A text has no `=`.
    """
    pairs: dict[str, str] = {}
    for value in values:
        key, separator, text = value.partition("=")
        if not separator or not key:
            raise UsageError(f"--option {value}: expected key=value")
        pairs[key] = text
    return pairs
