"""Copies that XNNPACK leaves out of a partition, and so must not be one of its results beside what they copy.

```
before:  (cat -> clone -> view) is a partition that gives cat, clone and view
after:   (cat -> view) gives cat and view;  clone stands beside it and reads cat
```

ExecuTorch 1.5 replaces them by what they copy once the partition is cut out, with a place for each of its results:
"Output node 'cat' is already in the inputs". A copy of what comes from outside is the same case.
"""

from __future__ import annotations

from typing import Any

from torch.fx import Graph, GraphModule, Node

from edgex.delegates.executorch.exir import operator_name
from edgex.delegates.xnnpack.partitions.cycles import TAG

_COPIES = ("aten.clone.default", "dim_order_ops._clone_dim_order.default", "aten.expand_copy.default")


def read_past_copies(module: GraphModule) -> Any:
    """A pass over an edge program: what reads a copy reads what was copied; the program's results stay copies."""
    from torch.fx.passes.infra.pass_base import PassResult

    graph, changed = module.graph, False
    for node in list(graph.nodes):
        if not _copies(node):
            continue
        for user in [user for user in node.users if user.op != "output"]:
            user.replace_input_with(node, node.all_input_nodes[0])
            changed = True
        if not node.users:
            graph.erase_node(node)
            changed = True
    if changed:
        module.recompile()
    return PassResult(module, changed)


def leave_copies(graph: Graph) -> None:
    """Take copies out of partitions that would give one result twice, or one of their inputs, in place.

    Args:
        graph: An edge graph behind `read_past_copies`; `delegation_tag` in a node's meta names its partition.
    """
    given: set[Node] = set()  # what is a result of its partition already
    for node in graph.nodes:
        if TAG in node.meta and not _copies(node) and any(user.meta.get(TAG) != node.meta[TAG] for user in node.users):
            given.add(node)
    for node in graph.nodes:
        tag = node.meta.get(TAG)
        if tag is None or not _copies(node):
            continue
        source = node.all_input_nodes[0]
        if source.op == "placeholder" or source.meta.get(TAG) != tag or source in given:
            del node.meta[TAG]
        given.add(source)


def _copies(node: Node) -> bool:
    """Whether a node gives what it reads, in the same order of dimensions."""
    if node.op != "call_function" or operator_name(node) not in _COPIES or len(node.all_input_nodes) != 1:
        return False
    source, own = node.all_input_nodes[0].meta.get("val"), node.meta.get("val")
    if source is None or own is None or source.dtype != own.dtype or source.dim() != own.dim():
        return False
    return bool(_same_sizes(source, own)) and source.dim_order() == own.dim_order()


def _same_sizes(source: Any, own: Any) -> bool:
    """Whether two tensors have the same sizes, sizes of run time by their symbols: no question is asked of them."""
    return [str(size) for size in source.shape] == [str(size) for size in own.shape]
