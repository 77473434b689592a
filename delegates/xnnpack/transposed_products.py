"""Products with a transposed matrix, written as XNNPACK has them: it packs the matrix either way.

ExecuTorch 1.5 writes the transposition as an operator of its own, which copies all keys in every attention.

```
before   keys -> transpose (0, 2, 1) -> batch matrix multiply
after    keys -> batch matrix multiply, second matrix transposed
```

XNNPACK's flag is `XNN_FLAG_TRANSPOSE_B` of its `xnnpack.h`; ExecuTorch's runtime hands flags on as the file has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from edgex.runtime.support.dependency_messages import quiet_import

if TYPE_CHECKING:
    from torch.fx import Node

Define = Callable[..., None]

_TRANSPOSE_B = 1
_BMM, _PERMUTE = "aten.bmm.default", "aten.permute_copy.default"


@contextmanager
def products_transpose() -> Iterator[None]:
    """Within it, ExecuTorch writes the transposition of a product's second matrix as the product's flag."""
    with quiet_import():
        from executorch.backends.xnnpack.operators import node_visitor

    visitors: dict[str, Any] = node_visitor._node_visitor_dict
    known = {name: visitors[name] for name in (_BMM, _PERMUTE)}
    for name, define in ((_BMM, _define_product), (_PERMUTE, _define_permutation)):
        visitors[name] = type(known[name].__name__, (known[name],), {"define_node": define(known[name].define_node)})
    try:
        yield
    finally:
        visitors.update(known)


def _define_product(plain: Define) -> Define:
    from executorch.backends.xnnpack.serialization.xnnpack_graph_schema import XNNBatchMatrixMultiply, XNode

    def define_node(visitor: Any, node: Node, graph: Any, ids: dict[Any, int], handle: int) -> None:
        first, second = node.args
        if not is_only_transposed(second):
            plain(visitor, node, graph, ids, handle)
            return
        used = first, second.args[0]  # type: ignore[union-attr]
        for tensor in (node, *used):
            visitor.define_tensor(tensor, graph, ids)
        one, other = (ids[tensor] for tensor in used)
        product = XNNBatchMatrixMultiply(input1_id=one, input2_id=other, output_id=ids[node], flags=_TRANSPOSE_B)
        graph.xnodes.append(XNode(xnode_union=product, debug_handle=handle))

    return define_node


def _define_permutation(plain: Define) -> Define:
    def define_node(visitor: Any, node: Node, graph: Any, ids: dict[Any, int], handle: int) -> None:
        if not is_only_transposed(node):
            plain(visitor, node, graph, ids, handle)

    return define_node


def is_only_transposed(node: Any) -> bool:
    """Whether an operator swaps the last two dimensions of a float matrix for products in which it is the second."""
    if getattr(getattr(node, "target", None), "__name__", "") != _PERMUTE:
        return False
    source, order = node.args
    rank = len(order)
    # Of images, which may be channels-last inside, and of quantized tensors the exporter's own way is kept.
    if rank != 3 or [dim % rank for dim in order] != [0, 2, 1] or _is_dequantized(source):
        return False
    users = list(node.users)
    return bool(users) and all(
        getattr(user.target, "__name__", "") == _BMM
        and user.args[1] is node
        and user.args[0] is not node
        and not _is_dequantized(user.args[0])
        for user in users
    )


def _is_dequantized(node: Any) -> bool:
    return "dequantize" in getattr(getattr(node, "target", None), "__name__", "")
