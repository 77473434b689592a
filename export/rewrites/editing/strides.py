"""Keep views valid behind operators that lie in another order than those whose place they take."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import torch
from torch.fx import Node

from edgex.delegates.graph.schema import operator_name

_aten = torch.ops.aten

# Their results lie in plain order whatever their operands do; all others may follow one of them.
_PLAIN = frozenset(
    f"aten::{name}"
    for name in (
        *("linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "mv", "einsum", "embedding", "index_select", "gather"),
        *("sum", "mean", "amax", "amin", "argmax", "argmin", "topk", "var", "lstm", "gru", "view_as_complex"),
    )
)


def reshape_views(copies: Mapping[Node, Node], written: Callable[[], Collection[Node]]) -> None:
    """Write every `view` that may read another order now as `reshape`, which copies where it has to.

    ```
    before:  y = aten.conv3d.default(x, weight); z = aten.view.default(aten.relu.default(y), [1, 512, 14, 14])
    after:   y = aten.transpose.int(frames, 1, 2); z = aten.reshape.default(aten.relu.default(y), [1, 512, 14, 14])
    ```

    Args:
        copies: The edited graph's nodes, by those of the graph before the edit; some are erased.
        written: Gives the nodes of the latter whose storage the program writes to: they stay views.
    """
    originals = {copy: original for original, copy in copies.items()}
    reached = [
        copy for original, copy in copies.items() if copy.op == "call_function" and _reads_moved(original, copy, copies)
    ]
    seen = set(reached)
    while reached:
        node = reached.pop()
        if node.target == _aten.view.default and originals.get(node) not in written():
            node.target = _aten.reshape.default
        if _keeps_order(node):
            later = [user for user in node.users if user.op == "call_function" and user not in seen]
            seen.update(later)
            reached += later


def _reads_moved(original: Node, copy: Node, copies: Mapping[Node, Node]) -> bool:
    """Whether an operand of an operator that stayed was replaced by one that lies otherwise in memory."""
    old, new = original.all_input_nodes, copy.all_input_nodes
    if len(old) != len(new):
        return copy.target == original.target and bool(new)
    return any(copies[one] is not other and not _lie_alike(one, other) for one, other in zip(old, new, strict=True))


def _lie_alike(one: Node, other: Node) -> bool:
    old, new = one.meta.get("val"), other.meta.get("val")
    if not isinstance(old, torch.Tensor) or not isinstance(new, torch.Tensor):
        return True
    strides = (*old.stride(), *new.stride())
    return all(isinstance(stride, int) for stride in strides) and old.stride() == new.stride()


def _keeps_order(node: Node) -> bool:
    """Whether the order of an operator's result in memory may follow from its operand's."""
    return operator_name(node) not in _PLAIN
