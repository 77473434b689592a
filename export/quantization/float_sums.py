"""Sums, products, joins and activations that no quantized operator reads: 8 bits would cost accuracy and save nothing.

```
x -> linear -> add -> layer_norm        the sum would be rounded, and turned back into float for the norm
x -> conv   -> mul -> cat -> output     boxes of 640 pixels would leave nothing of the scores beside them
x -> conv   -> add -> relu -> conv      the sum stays in 8 bits from layer to layer
```

In transformers these are the residual sums and the scaled scores of attention. A few channels of a residual stream are
often hundreds of times larger than the others, whose values 8 bits for all of them would wipe out.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import torch

from edgex.delegates.graph.schema import leaves_of, overload_of, schema_of

if TYPE_CHECKING:
    from torch.fx import Graph, Node

REASON = "only floating-point operators or the outputs read it, so that 8 bits would save nothing"

_KINDS = (
    *("aten.add.", "aten.add_.", "aten.sub.", "aten.mul.", "aten.mul_.", "aten.cat."),
    *("aten.sigmoid.", "aten.hardsigmoid.", "aten.hardswish.", "aten.leaky_relu.", "aten.gelu.", "aten.tanh."),
    "aten.elu.",
)

_GATES = ("aten.sigmoid.default", "aten.hardsigmoid.default")


def find_float_sums(graph: Graph, quantized: Collection[str]) -> dict[str, str]:
    """The sums, products, joins and activations of which no quantized operator reads the result.

    Args:
        graph: Of a float program.
        quantized: Names of the operators that the quantizer would take.

    Returns:
        The reason by the name of each.
    """
    sums = {node for node in graph.nodes if node.name in quantized and str(node.target).startswith(_KINDS)}
    readers = {node: _readers(node) for node in sums}
    # What a sum feeds may turn out to be quantized: take out until nothing changes.
    while out := {node for node in sums if any(r.name in quantized and r not in sums for r in readers[node])}:
        sums -= out
    return {node.name: REASON for node in graph.nodes if node in sums}


def find_float_gates(graph: Graph, quantized: Collection[str]) -> dict[str, str]:
    """SiLU and hard swish, as products with a sigmoid, whose sigmoid is no quantized operator.

    Args:
        graph: Of a float program.
        quantized: Names of the operators that the quantizer would take.

    Returns:
        The reason by the name of each product.
    """
    found = {}
    for node in graph.nodes:
        if node.name not in quantized or not str(node.target).startswith("aten.mul.") or len(node.all_input_nodes) != 2:
            continue
        one, other = node.all_input_nodes
        for gate, value in ((one, other), (other, one)):
            is_gate = str(gate.target) in _GATES and gate.args[0] is value
            if is_gate and gate.name not in quantized:
                found[node.name] = "what it reads is computed in floating point"
    return found


def _readers(node: Node) -> set[Node]:
    """Who reads a value, also through views of it; not who asks for its sizes."""
    found: set[Node] = set()
    open_ends = [node]
    while open_ends:
        for user in open_ends.pop().users:
            if _is_view(user):
                open_ends.append(user)
            elif user.op == "output" or isinstance(leaves_of(user.meta.get("val"))[0], torch.Tensor):
                found.add(user)
    return found


def _is_view(node: Node) -> bool:
    """Whether the result holds the numbers of the input: also where PyTorch may copy them, as in `reshape`."""
    overload = overload_of(node)
    results = () if overload is None else schema_of(overload).returns
    return len(results) == 1 and results[0].alias_info is not None and not results[0].alias_info.is_write
