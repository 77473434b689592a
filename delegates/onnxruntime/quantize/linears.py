"""The linear layers of an ONNX graph, with their constant weights, for recipes that quantize while lowering."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgex.delegates.onnxruntime.graph.edits import is_constant, only_user
from edgex.delegates.onnxruntime.quantize.few_bits import FloatWeight

if TYPE_CHECKING:
    from torch.fx import Node as FxNode

# What linear layers are in PyTorch; a product of two computed matrices is none.
_LINEARS = ("aten.linear", "aten.addmm")


@dataclass(frozen=True)
class Linear:
    """A linear layer that can be quantized.

    Attributes:
        activation: What goes in: float32 `[…, in]`.
        weight: The constant weight.
        key: Which initializer the weight is; layers may share one.
        bias: float32 `[out]`, or None.
        output: What comes out: float32 `[…, out]`.
        last: The node that makes `output`.
    """

    activation: Any
    weight: FloatWeight
    key: int
    bias: Any
    output: Any
    last: Any


@dataclass(frozen=True)
class Unfit:
    """A linear layer that cannot be quantized: its node, and why."""

    node: Any
    reason: str


def find_linears(graph: Any, origins: dict[str, FxNode]) -> Iterator[Linear | Unfit]:
    """Linear layers in graph order.

    Args:
        graph: An `onnx_ir.Graph`.
        origins: ONNX node name -> operator.
    """
    for node in list(graph):
        origin = origins.get(node.name)
        if origin is None or not str(origin.target).startswith(_LINEARS) or node.domain != "":
            continue
        if node.op_type == "Gemm":
            yield _gemm(node)
        elif node.op_type == "MatMul":
            yield _matmul(node)


def find_head(graph: Any) -> Any:
    """The last node of the linear layer that gives the graph's first output; None where no single one does."""
    value = graph.outputs[0]
    last = None
    while (node := value.producer()) is not None and node.domain == "":
        if node.op_type in ("MatMul", "Gemm"):
            return last if last is not None and last.op_type == "Add" else node
        data = [one for one in node.inputs if one is not None and not is_constant(one)]
        if node.op_type not in _BEHIND_HEAD or not data or (node.op_type not in _VIEWS and len(data) != 1):
            return None
        value, last = data[0], node
    return None


# What may lie between the head and the output: its bias, the choice of the last token, a soft cap.
_VIEWS = ("Squeeze", "Unsqueeze", "Slice", "Gather", "Reshape", "Identity")
_BEHIND_HEAD = (*_VIEWS, "Add", "Mul", "Div", "Tanh", "Cast")


def _gemm(node: Any) -> Linear | Unfit:
    def number(name: str, default: float) -> float:
        return float(node.attributes[name].value) if name in node.attributes else default

    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if number("alpha", 1) != 1 or number("beta", 1) != 1 or number("transA", 0) != 0:
        return Unfit(node, "it scales its operands")
    if bias is not None and (not is_constant(bias) or len(bias.shape) != 1):
        return Unfit(node, "its bias is not a constant vector")
    return _linear(node, node, bias, turned=number("transB", 0) == 0)


def _matmul(node: Any) -> Linear | Unfit:
    add = only_user(node.outputs[0])
    bias: Any = None
    if add is not None and add.op_type == "Add" and add.domain == "":
        bias = next((value for value in add.inputs if value is not node.outputs[0]), None)
    weight = node.inputs[1]
    if add is not None and is_constant(bias) and weight.shape is not None and list(bias.shape) == [weight.shape[-1]]:
        return _linear(node, add, bias, turned=True)
    return _linear(node, node, None, turned=True)


def _linear(node: Any, last: Any, bias: Any, *, turned: bool) -> Linear | Unfit:
    activation, weight = node.inputs[:2]
    if not is_constant(weight):
        return Unfit(node, "its weight is computed by the model, not a constant")
    if len(weight.shape) != 2:
        return Unfit(node, f"its weight has {len(weight.shape)} dimensions, not 2")
    if weight.dtype.name != "FLOAT":
        return Unfit(node, f"its weight is {weight.dtype.name.lower()}, not float")
    return Linear(activation, FloatWeight(weight.const_value, turned), id(weight), bias, last.outputs[0], last)
