"""Write adaptive maxima whose places are used, as maxima over the elements of each window.

```
before:  y, at = aten.adaptive_max_pool2d.default(x, [2, 3])          # x: [1, 8, 8, 9], at: places in 8 * 9
after:   chosen = x.reshape(1, 8, 72).index_select(2, places)         # places: [6 * 12], a window after another
         chosen = chosen.reshape(1, 8, 6, 12);  y = chosen.amax(3).reshape(1, 8, 2, 3)
         at = places.index_select(0, 12 * window + chosen.argmax(3))
```
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rule, Rules, Write, static, substitute, used_results
from edgex.export.rewrites.pooling.windows import each, uneven_windows

aten = torch.ops.aten


def write_max_places(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such pooling; the same program comes back without one."""
    operators = (aten.adaptive_max_pool1d, aten.adaptive_max_pool2d, aten.adaptive_max_pool3d)
    rules: Rules = {
        operator.default: Rule(_over(dimensions), where=lambda node: 1 in used_results(node))
        for dimensions, operator in enumerate(operators, 1)
    }
    return substitute(program, "write_max_places", rules, "{count} pooling(s) ({operators}) look at each window")


def _over(dimensions: int) -> Write:
    def write(x: torch.Tensor, output_size: Sequence[int]) -> Any:
        sizes = x.shape[-dimensions:]
        counts = [
            size if wanted is None else wanted
            for size, wanted in zip(sizes, each(output_size, dimensions), strict=True)
        ]
        if not static(*x.shape) or 0 in (*sizes, *counts):
            return NotImplemented
        windows = _places(sizes, counts)
        longest = max(map(len, windows))
        # Shorter windows have their last place several times: of equal elements the first counts.
        places = torch.tensor([window + window[-1:] * (longest - len(window)) for window in windows])
        before = list(x.shape[:-dimensions])
        chosen = x.reshape(*before, -1).index_select(len(before), places.reshape(-1))
        chosen = chosen.reshape(*before, len(windows), longest)
        found = chosen.argmax(-1) + torch.arange(len(windows)) * longest
        at = places.reshape(-1).index_select(0, found.reshape(-1))
        return chosen.amax(-1).reshape(*before, *counts), at.reshape(*before, *counts)

    return write


def _places(sizes: Sequence[int], counts: Sequence[int]) -> list[list[int]]:
    """The elements of each window, as places in the flat tensor, in order."""
    steps = [1]
    for size in reversed(sizes[1:]):
        steps.insert(0, steps[0] * size)
    windows = [uneven_windows(size, count) for size, count in zip(sizes, counts, strict=True)]
    return [
        [sum(at * step for at, step in zip(place, steps, strict=True)) for place in product(*window)]
        for window in product(*windows)
    ]
