"""Write `bucketize` and `searchsorted` as counts or as the steps of a binary search.

```
before:  y = aten.bucketize.Tensor(x, boundaries)                         # x: [8], boundaries: constant [33], in order
after:   y = sum(logical_not(boundaries >= x[:, None]), 1)

before:  y = aten.searchsorted.Tensor(boundaries, x)                      # boundaries: computed [3, 9], x: [3, 7]
after:   middle = 4                                                       # of places 0 to 9
         stays  = gather(boundaries, 1, middle) >= x
         low, high = where(stays, 0, middle + 1), where(stays, middle, 9)
         middle = (low + high) // 2                                       # and so on: four steps
         y      = low
```

With `right=True` the comparison is `>`. Both send NaN behind all boundaries, as PyTorch does. Counting is for constant
boundaries in order, and for at most `LARGEST_TABLE` comparisons, each of which is a value in memory. All else is
searched: a step holds a few values for each of x, and boundaries that are in no order, which stress inputs make of a
user's, give PyTorch's own answer. Boundaries of a dynamic number, whose steps cannot be counted, are left alone.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute
from edgex.export.rewrites.folding.constants import find_values

aten = torch.ops.aten

# Comparisons, of 9 bytes each where their sum is over whole numbers. Above it 20 steps are quicker than a million.
LARGEST_TABLE = 1 << 20
_TARGETS = (aten.bucketize.Tensor, aten.bucketize.Scalar, aten.searchsorted.Tensor, aten.searchsorted.Scalar)


def search_by_comparisons(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every search among boundaries with comparisons; the same program comes back without one."""
    found = [
        node for target in _TARGETS for node in program.exported.graph.find_nodes(op="call_function", target=target)
    ]
    if not found:
        return program, None
    values = find_values(program, map(_boundaries, found))
    # By name: a rule is asked for the operands of a node's copy too.
    ordered = {node.name for node, tensor in values.items() if _in_order(tensor)}

    def operands(node: Node) -> tuple[Any, ...]:
        given = named_arguments(node)
        sorter, boundaries = given.get("sorter"), _boundaries(node)
        right = given["right"] or given.get("side") == "right"
        counted = sorter is None and boundaries.name in ordered
        return boundaries, given["self"], sorter, right, given["out_int32"], counted

    rules: Rules = {target: Rule(_search, operands=operands) for target in _TARGETS}
    return substitute(program, "search_by_comparisons", rules, "{count} search(es) ({operators}) became comparisons")


def _boundaries(node: Node) -> Any:
    given = named_arguments(node)
    return given["boundaries"] if "boundaries" in given else given["sorted_sequence"]


def _in_order(boundaries: torch.Tensor) -> bool:
    """Whether no boundary is below the one before it; False where one is NaN. True where weights are not known yet."""
    if hasattr(boundaries, "fake_mode"):
        return True
    return boundaries.dim() > 0 and bool((boundaries[..., 1:] >= boundaries[..., :-1]).all())


def _search(
    boundaries: torch.Tensor, x: Any, sorter: torch.Tensor | None, right: bool, out_int32: bool, counted: bool
) -> Any:
    dtype = torch.int32 if out_int32 else torch.int64
    count = boundaries.shape[-1]
    if not static(count) or count == 0:
        return NotImplemented
    if not isinstance(x, torch.Tensor) or x.dim() == 0:  # a tensor of no dimensions as an index is read by the tracer
        one = x.reshape(1) if isinstance(x, torch.Tensor) else torch.full((1,), x, device=boundaries.device)
        found = _search(boundaries, one, sorter, right, out_int32, counted)
        return found if found is NotImplemented else found.reshape(())
    if sorter is not None:
        boundaries = torch.gather(boundaries, -1, sorter)
    compare = torch.gt if right else torch.ge
    if counted and static(*x.shape) and x.numel() * count <= LARGEST_TABLE:
        rows = boundaries if boundaries.dim() == 1 else boundaries.unsqueeze(-2)
        return torch.logical_not(compare(rows, x.unsqueeze(-1))).sum(-1, dtype=dtype)
    low: Any = 0
    high: Any = count
    for _ in range(count.bit_length()):
        middle = (low + high) // 2 if isinstance(low, int) else torch.div(low + high, 2, rounding_mode="trunc")
        stays = compare(_at(boundaries, middle), x)
        behind = middle + 1 if isinstance(middle, int) else torch.clamp(middle + 1, max=count)
        low, high = torch.where(stays, low, behind), torch.where(stays, middle, high)
    return low.to(dtype)


def _at(boundaries: torch.Tensor, place: Any) -> torch.Tensor:
    """The boundaries at places; the one behind the last, where a search that has ended may stand, is the last."""
    if isinstance(place, int):
        return boundaries.narrow(-1, place, 1) if boundaries.dim() > 1 else boundaries[place]
    inside = torch.clamp(place, max=boundaries.shape[-1] - 1)
    return boundaries[inside] if boundaries.dim() == 1 else torch.gather(boundaries, -1, inside)
