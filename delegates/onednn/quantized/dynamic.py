"""Linear layers with weights in 8 or 4 bits, whose activations are quantized token by token: one operator each.

```
before:  scale, zero = torchao.choose_qparams_affine(x)
         linear(torchao.dequantize_affine(torchao.quantize_affine(x, scale, zero)),
                torchao.dequantize_affine(weight, weight_scale), bias)
after:   edgex.dynamic_linear(x, weight, weight_scale, bias, bits)
```

The numbers of the products are the same: whole ones, summed as they are and scaled once a group. PyTorch runs the form
before, so that is what an artifact is held to.
"""

from __future__ import annotations

import copy
import operator
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from edgex.delegates.graph.schema import operator_name as name_of

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

NAMESPACE, NAME = "edgex", "dynamic_linear"
_SCHEMA = "(Tensor x, Tensor weight, Tensor scale, Tensor? bias, int bits) -> Tensor"
_CHOOSE, _QUANTIZE, _DEQUANTIZE = (
    f"torchao::{name}" for name in ("choose_qparams_affine", "quantize_affine", "dequantize_affine")
)
_RANGES = {(-128, 127): 8, (-8, 7): 4}


@cache
def linear_operator() -> Any:
    """The operator, registered with PyTorch when it is first asked for.

    `x` float32 `[…, in]`; `weight` int8 `[out, in]` of numbers that fit `bits`; `scale` float32 `[out, groups]`;
    `bias` float32 `[out]`. Only its shape can be computed: it is there to be lowered.
    """
    torch.library.define(f"{NAMESPACE}::{NAME}", _SCHEMA)
    torch.library.register_fake(f"{NAMESPACE}::{NAME}", _infer)
    return torch.ops.edgex.dynamic_linear.default


def _infer(
    x: torch.Tensor, weight: torch.Tensor, _scale: torch.Tensor, _bias: torch.Tensor | None, _bits: int
) -> torch.Tensor:
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


def write_dynamic_linear(program: ExportedProgram) -> ExportedProgram:
    """The program with one operator for each such layer; weights are shared, the original is not changed."""
    if not any(_parts(node) for node in program.graph.nodes):
        return program
    from torch.export import ExportedProgram

    graph = copy.deepcopy(program.graph)
    for original, node in zip(program.graph.nodes, graph.nodes, strict=True):
        node.name = original.name
        if node.op == "placeholder":
            node.target = original.target
    for node in list(graph.nodes):
        parts = _parts(node)
        if parts is not None:
            bias = node.args[2] if len(node.args) > 2 else None
            node.target, node.args, node.kwargs = linear_operator(), (*parts[:3], bias, parts[3]), {}
    graph.eliminate_dead_code()
    return ExportedProgram(
        root=program.graph_module,
        graph=graph,
        graph_signature=copy.deepcopy(program.graph_signature),
        state_dict=program.state_dict,
        range_constraints=dict(program.range_constraints),
        module_call_graph=program.module_call_graph,
        example_inputs=program.example_inputs,
        constants=program.constants,
        verifiers=program.verifiers,
    )


def _parts(linear: Node) -> tuple[Node, Node, Node, int] | None:
    """What is multiplied: the float input, the weight, its scales, and the weight's bits; None for another operator."""
    if linear.op != "call_function" or linear.target is not torch.ops.aten.linear.default:
        return None
    rounded: Any = linear.args[0]
    weight: Any = linear.args[1]
    if not (_is(rounded, _DEQUANTIZE) and _is(weight, _DEQUANTIZE)):
        return None
    source = rounded.args[0]
    bits = _RANGES.get(tuple(weight.args[5:7]))
    if not _is(source, _QUANTIZE) or bits is None or weight.args[0].op != "placeholder":
        return None
    x, size, scale = source.args[:3]
    chosen: Any = scale.args[0] if scale.target is operator.getitem else None
    if not _is(chosen, _CHOOSE) or chosen.args[0] is not x or chosen.args[1:4] != ("ASYMMETRIC", size, torch.int8):
        return None
    return x, weight.args[0], weight.args[2], bits


def _is(node: Any, name: str) -> bool:
    return getattr(node, "op", "") == "call_function" and name_of(node) == name
