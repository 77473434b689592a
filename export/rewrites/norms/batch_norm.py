"""Fold batch norm into the convolution or linear layer before it.

```
before:  conv = aten.conv2d.default(x, p_conv_weight, p_conv_bias, [1, 1])
         norm = aten.batch_norm.default(conv, p_bn_weight, p_bn_bias, b_bn_running_mean, b_bn_running_var, False, …)
after:   conv = aten.conv2d.default(x, p_conv_weight_folded, p_conv_bias_folded, [1, 1])

before:  rows = aten.linear.default(x, p_weight).flatten(0, 1)                            # x: [2, 49, 8]
         norm = aten.batch_norm.default(rows, …)
after:   rows = aten.linear.default(x, p_weight_folded, p_bias_folded).flatten(0, 1)

before:  norm = aten.batch_norm.default(aten.cat.default([conv_a, conv_b], 1), …)          # MixNet: kernels of 3 and 5
after:   norm = aten.cat.default([conv_a, conv_b], 1)                                     # each with its channels' part
```

For each output channel, with running mean m, running variance v, affine weight g and bias b of the norm
(Jacob et al., Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference, 2018,
section 3.2; the arithmetic is done in float64 and the result rounded once to the weight's dtype):

```
scale  = g / sqrt(v + eps)
weight = weight * scale
bias   = (bias - m) * scale + b
```

Left alone: a norm that uses the batch's statistics, a layer whose output someone else uses too, weights that are not
constant, and a layer whose channels are not the norm's (dimension 1), through views and transpositions between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import is_tuple, named_arguments, operator_name
from edgex.delegates.graph.torch_internals import FakeTensor
from edgex.export.rewrites.base import Rewrite, locations_of
from edgex.export.rewrites.editing.editor import ProgramEditor, constant_tensors, placeholders

_BATCH_NORMS = frozenset(
    f"aten::{name}" for name in ("batch_norm", "native_batch_norm", "_native_batch_norm_legit_no_training")
)
_LAYERS = frozenset(
    f"aten::{name}"
    for name in (
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_transpose1d",
        "conv_transpose2d",
        "conv_transpose3d",
        "convolution",
        "linear",
        "addmm",
    )
)
_LINEAR = frozenset(("aten::linear", "aten::addmm"))
_SAME = frozenset(("aten::alias", "aten::clone", "aten::contiguous", "aten::detach"))
_TRANSPOSITIONS = frozenset(f"aten::{name}" for name in ("transpose", "permute", "t", "mT"))
_OF_SHAPE = frozenset(f"aten::{name}" for name in ("reshape_as", "view_as", "expand_as"))
_JOINTS = frozenset(("aten::cat", "aten::concat", "aten::concatenate"))
_VIEWS = frozenset(f"aten::{name}" for name in ("view", "reshape", "flatten", "_unsafe_view", "unflatten", "unsqueeze"))


@dataclass(frozen=True)
class _Norm:
    """A batch norm that uses constant statistics.

    Attributes:
        node: The operator.
        output: The node of its result: `node` itself, or the getitem of a native form.
        source: Its input: what the layer computes, or a view of it.
        weight: `[C]`, or None.
        bias: `[C]`, or None.
        mean: `[C]`.
        variance: `[C]`.
        eps: Added to the variance.
    """

    node: Node
    output: Node
    source: Node
    weight: torch.Tensor | None
    bias: torch.Tensor | None
    mean: torch.Tensor
    variance: torch.Tensor
    eps: float

    def narrow(self, start: int, count: int) -> _Norm:
        """The norm of some of the channels."""
        names = ("weight", "bias", "mean", "variance")
        kept = {name: tensor.narrow(0, start, count) for name in names if (tensor := getattr(self, name)) is not None}
        return replace(self, **kept)


@dataclass(frozen=True)
class _Layer:
    """A convolution or linear layer with constant weights.

    Attributes:
        node: The operator.
        weight: `[out, in / groups, …]`; `[in, out / groups, …]` where `transposed`.
        weight_node: The weight's placeholder.
        bias: `[out]`, or None.
        transposed: Whether it is a transposed convolution.
        groups: Of a convolution; else 1.
    """

    node: Node
    weight: torch.Tensor
    weight_node: Node
    bias: torch.Tensor | None
    transposed: bool = False
    groups: int = 1


def fold_batch_norm(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Fold every batch norm that follows its layer; the same program comes back where there is none."""
    candidates = [node for node in program.exported.graph.nodes if operator_name(node) in _BATCH_NORMS]
    if not candidates:
        return program, None
    constants = constant_tensors(program)
    norms = [norm for node in candidates if (norm := read_norm(node, constants)) is not None]
    found = [(norm, parts) for norm in norms if (parts := _find_layers(norm, constants))]
    if not found:
        return program, None
    editor = ProgramEditor(program)
    specs = dict(placeholders(program.exported))
    for norm, parts in found:
        for layer, part in parts:
            _fold(editor, layer, part, str(specs[layer.weight_node].target))
        _remove(editor, norm)
    detail = f"{len(found)} batch norm(s) folded into the layer before"
    where = locations_of([norm.node for norm, _ in found], program.source_root)
    return editor.finish(), Rewrite("fold_batch_norm", len(found), detail, where)


def read_norm(node: Node, constants: Mapping[Node, torch.Tensor]) -> _Norm | None:
    """A batch norm that uses constant statistics; None for anything else."""
    if operator_name(node) not in _BATCH_NORMS:
        return None
    arguments = named_arguments(node)
    if arguments.get("training"):
        return None
    output = node
    if is_tuple(node.meta["val"]):
        # The native forms return statistics too, which nothing may use here.
        if len(node.users) != 1 or (output := next(iter(node.users))).args[1:] != (0,):
            return None
    elif arguments["input"].meta["val"].dtype != node.meta["val"].dtype:
        return None
    tensors: dict[str, torch.Tensor | None] = {}
    for name in ("weight", "bias", "running_mean", "running_var"):
        value = arguments[name]
        if value is not None and value not in constants:
            return None
        tensors[name] = None if value is None else constants[value]
    mean, variance = tensors["running_mean"], tensors["running_var"]
    if mean is None or variance is None:
        return None
    return _Norm(node, output, arguments["input"], tensors["weight"], tensors["bias"], mean, variance, arguments["eps"])


def _find_layers(norm: _Norm, constants: Mapping[Node, torch.Tensor]) -> list[tuple[_Layer, _Norm]]:
    """The layers that make a norm's input, one or joined ones, each with its part of it; empty where one is none."""
    source = norm.source
    if operator_name(source) not in _JOINTS:
        layer = _find_layer(source, constants)
        return [] if layer is None else [(layer, norm)]
    arguments = named_arguments(source)
    joined = arguments["tensors"]
    if not _is_read_once(source) or arguments["dim"] % source.meta["val"].dim() != 1 or len(set(joined)) < len(joined):
        return []
    found, start = [], 0
    for node in joined:
        layer, count = _find_layer(node, constants), node.meta["val"].shape[1]
        if layer is None:
            return []
        found.append((layer, norm.narrow(start, count)))
        start += count
    return found


def _find_layer(node: Node, constants: Mapping[Node, torch.Tensor]) -> _Layer | None:
    """The layer whose output channels are dimension 1 of a node, through views that nothing else reads."""
    channel = 1
    while (name := operator_name(node)) not in _LAYERS:
        source = node.args[0] if node.op == "call_function" and node.args else None
        moved = _find_source(node, channel) if isinstance(source, Node) and _is_read_once(node) else None
        if moved is None:
            return None
        assert isinstance(source, Node)
        node, channel = source, moved
    layer = _read_layer(node, constants) if _is_read_once(node) else None
    if layer is None:
        return None
    # Of a linear layer's output the features are innermost, of a batched convolution's they are dimension 1.
    rank = node.meta["val"].dim()
    linear = name in _LINEAR
    batched = linear or rank == layer.weight.dim()
    return layer if batched and channel == (rank - 1 if linear else 1) else None


def _is_read_once(node: Node) -> bool:
    """Whether one operator reads its numbers; others may read its shape."""
    readers = [user for user in node.users if not (operator_name(user) in _OF_SHAPE and user.args[0] is not node)]
    return len(readers) == 1


def _find_source(node: Node, channel: int) -> int | None:
    """Which dimension of a view's input is the given one of its output; None where there is none."""
    name, source = operator_name(node), node.args[0]
    if name in _SAME:
        return channel
    if name in _TRANSPOSITIONS:
        order = _read_order(node, node.meta["val"].dim())
        return None if order is None else order[channel]
    if name not in _VIEWS or not isinstance(source, Node):
        return None
    shape, old = node.meta["val"].shape, source.meta["val"].shape
    if not all(isinstance(size, int) for size in (*shape, *old)):
        return None
    if shape[: channel + 1] == old[: channel + 1]:
        return channel
    if channel == len(shape) - 1 and shape[-1] == old[-1]:
        return len(old) - 1
    return None


def _read_order(node: Node, rank: int) -> list[int] | None:
    """The dimensions of a transposition's input in the order of its output."""
    arguments = named_arguments(node)
    order = list(range(rank))
    if "dims" in arguments:
        return [dim % rank for dim in arguments["dims"]]
    if rank < 2:
        return None
    first, second = arguments.get("dim0", -2), arguments.get("dim1", -1)
    order[first], order[second] = order[second], order[first]
    return order


def _read_layer(node: Node, constants: Mapping[Node, torch.Tensor]) -> _Layer | None:
    name = operator_name(node)
    arguments = named_arguments(node)
    if name == "aten::addmm":
        return _read_addmm(node, arguments, constants)
    weight, bias = arguments["weight"], arguments["bias"]
    if weight not in constants or (bias is not None and bias not in constants):
        return None
    return _Layer(
        node,
        constants[weight],
        weight,
        None if bias is None else constants[bias],
        transposed=arguments.get("transposed", name is not None and "transpose" in name),
        groups=arguments.get("groups", 1),
    )


def _read_addmm(node: Node, arguments: Mapping[str, Any], constants: Mapping[Node, torch.Tensor]) -> _Layer | None:
    """`addmm(bias, x, w)` with `w` a constant `[in, out]` or the transpose of a constant `[out, in]`."""
    bias, matrix = arguments["self"], arguments["mat2"]
    if arguments["alpha"] != 1 or arguments["beta"] != 1 or bias not in constants:
        return None
    transpose = operator_name(matrix) in ("aten::t", "aten::transpose", "aten::permute", "aten::numpy_T")
    weight_node = matrix.args[0] if transpose and matrix.args[1:] in ((), ([1, 0],), (0, 1), (1, 0)) else matrix
    if weight_node not in constants:
        return None
    weight = constants[weight_node] if weight_node is not matrix else constants[weight_node].t()
    if constants[bias].shape != weight.shape[:1]:
        return None
    return _Layer(node, weight, weight_node, constants[bias])


def _fold(editor: ProgramEditor, layer: _Layer, norm: _Norm, weight_name: str) -> None:
    if isinstance(layer.weight, FakeTensor):  # nothing to compute, and a fake operator costs a thousand real additions
        weight, bias = torch.empty_like(layer.weight), layer.weight.new_empty(norm.mean.shape)
    else:
        with torch.no_grad():
            weight, bias = _folded(layer, norm)
    bias_name = ".".join([*weight_name.split(".")[:-1], "bias"])
    val = layer.weight_node.meta["val"]
    node = editor.node(layer.node)
    constants = [
        editor.add_constant(name, tensor, val.new_empty(tensor.shape), is_parameter=True)
        for name, tensor in ((f"{weight_name}_folded", weight), (f"{bias_name}_folded", bias))
    ]
    # Read from the copy: the layer's input may have been a norm that is folded already.
    arguments = named_arguments(node)
    if operator_name(node) == "aten::addmm":
        node.target = torch.ops.aten.linear.default
        node.args, node.kwargs = (arguments["mat1"], *constants), {}
    else:
        node.args = (arguments["input"], *constants, *node.args[3:])
        node.kwargs = {name: value for name, value in node.kwargs.items() if name not in ("input", "weight", "bias")}


def _remove(editor: ProgramEditor, norm: _Norm) -> None:
    editor.node(norm.output).replace_all_uses_with(editor.node(norm.source))
    if norm.output is not norm.node:
        editor.graph.erase_node(editor.node(norm.output))
    editor.graph.erase_node(editor.node(norm.node))


def _folded(layer: _Layer, norm: _Norm) -> tuple[torch.Tensor, torch.Tensor]:
    """The new weight, of the old one's shape, and the new bias `[out]`."""
    dtype = layer.weight.dtype
    mean, variance = norm.mean.double(), norm.variance.double()
    scale = torch.rsqrt(variance + norm.eps)
    if norm.weight is not None:
        scale = scale * norm.weight.double()
    old_bias = torch.zeros_like(mean) if layer.bias is None else layer.bias.double()
    bias = (old_bias - mean) * scale
    if norm.bias is not None:
        bias = bias + norm.bias.double()
    spatial = [1] * (layer.weight.dim() - 2)
    if layer.transposed:
        # [in, out / groups, …]: the input channels of group g make its output channels only.
        size_in, size_out = layer.weight.shape[0], layer.weight.shape[1]
        grouped = layer.weight.reshape(layer.groups, size_in // layer.groups, *layer.weight.shape[1:])
        weight = (grouped * scale.reshape(layer.groups, 1, size_out, *spatial)).reshape(layer.weight.shape)
    else:
        weight = layer.weight * scale.reshape(-1, 1, *spatial)
    return weight.to(dtype).contiguous(), bias.to(dtype)
