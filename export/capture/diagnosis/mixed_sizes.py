"""An operator that fits the example's sizes and no others: which dynamic dimension its error means.

```
x.reshape(1, -1)                  of x with x:0=1..8, traced with size 2, before a Linear(48, 4)
got [1, 48*s77] X [48, 4]         torch.export's words; s77 is x:0
```
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from edgex.export.capture.diagnosis.causes import first_line

if TYPE_CHECKING:
    from edgex.export.capture.dimensions.dynamic import Asked


def explain_mixed_sizes(error: Exception, asked: Sequence[Asked]) -> tuple[str, str, str] | None:
    """An operator's complaint about a symbolic size.

    Args:
        error: Of non-strict capture, whose traceback leads through forward.
        asked: What is dynamic.

    Returns:
        What, why and fix; None where no size is dynamic, or the error names none.
    """
    text = first_line(error)
    symbols = set(re.findall(r"\bs\d+\b", text))
    if not asked or not symbols:
        return None
    known = _find_symbols(error, asked)
    items = [item for item in asked if known.get((item.input, item.axis)) in symbols] or list(asked)
    for (leaf, axis), symbol in known.items():
        text = re.sub(rf"\b{symbol}\b", f"{leaf}.shape[{axis}]", text)
    places = ", ".join(f"{item.input}:{item.axis}" for item in items)
    verb = "is" if len(items) == 1 else "are"
    return (
        f"{places} {verb} dynamic, and this line mixes that with fixed sizes",
        f"{type(error).__name__}: {text}",
        f"take the size from the input, as in reshape({items[0].input}.shape[{items[0].axis}], -1), "
        f"or leave {places} static",
    )


def _find_symbols(error: Exception, asked: Sequence[Asked]) -> dict[tuple[str, int], str]:
    """The symbols of dynamic dimensions, read from forward's arguments in the frames of the traceback."""
    found: dict[tuple[str, int], str] = {}
    for frame, _ in traceback.walk_tb(error.__traceback__):
        for item in asked:
            value = frame.f_locals.get(item.input)
            if isinstance(value, torch.Tensor) and item.axis < value.dim():
                size = value.shape[item.axis]
                if isinstance(size, torch.SymInt) and re.fullmatch(r"s\d+", str(size)):
                    found.setdefault((item.input, item.axis), str(size))
    return found
