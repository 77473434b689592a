"""Join convolutions of one input whose results are added: layers that are trained as several and run as one.

```
before:  a = aten.conv2d.default(x, w3, b3, [1, 1], [1, 1])              # w3: [8, 8, 3, 3]
         b = aten.conv2d.default(x, w1, b1)                              # w1: [8, 8, 1, 1]
         y = aten.add.Tensor(aten.add.Tensor(a, b), aten.batch_norm.default(x, …))
after:   y = aten.conv2d.default(x, w, b, [1, 1], [1, 1])                # w: w3, its middle larger by w1 and the scale
```

Convolution is linear in its weights, so a smaller kernel is one of zeros around it, and a batch norm in eval mode is a
kernel of one place (Ding et al., RepVGG: Making VGG-style ConvNets Great Again, 2021, section 3.3; RepVGG, MobileOne,
FastViT and RepGhostNet as they are trained). Sums are made in float64 and rounded once.

Left alone: kernels of which none covers the other (1 x 3 beside 3 x 1), other strides or groups, what something else
reads too, weights that are shared, and the input itself as a summand: of weights beside a 1 in 8 bits little is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments, operator_name
from edgex.delegates.graph.torch_internals import FakeTensor
from edgex.export.rewrites.base import Rewrite, locations_of
from edgex.export.rewrites.editing.editor import ProgramEditor, constant_tensors
from edgex.export.rewrites.norms.batch_norm import read_norm
from edgex.export.rewrites.pooling.windows import each

_CONVOLUTIONS = ("aten::conv1d", "aten::conv2d", "aten::conv3d")
_SUMS = ("aten::add", "aten::add_")
_DIFFERENCES = ("aten::sub", "aten::sub_")


@dataclass(frozen=True)
class _Branch:
    """A convolution, or what can be written as one.

    Attributes:
        node: Its result.
        source: What it reads.
        weight: `[out, in / groups, …]`.
        bias: `[out]`, or None.
        stride: Of each axis.
        padding: Of each axis, at both ends.
        groups: None where any number of them will do: a kernel of one place that reads its own channel.
    """

    node: Node
    source: Node
    weight: torch.Tensor
    bias: torch.Tensor | None
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    groups: int | None


def join_branches(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Join every such sum or difference, from its first terms on; the same program comes back where there is none."""
    graph = program.exported.graph
    if not any(operator_name(node) in (*_SUMS, *_DIFFERENCES) for node in graph.nodes):
        return program, None
    editor = ProgramEditor(program)
    constants = {editor.node(node): tensor for node, tensor in constant_tensors(program).items()}
    joined = []
    for original in graph.nodes:
        if operator_name(original) not in (*_SUMS, *_DIFFERENCES):
            continue
        add = editor.node(original)
        if (only := _find_lone(add, constants)) is not None:
            add.replace_all_uses_with(only)
            editor.graph.erase_node(add)
        elif (found := _find_pair(add, constants)) is not None:
            _join(editor, add, *found, constants)
            joined.append(original)
    if not joined:
        return program, None
    detail = f"{len(joined)} branch(es) joined with the convolution beside them"
    return editor.finish(), Rewrite("join_branches", len(joined), detail, locations_of(joined, program.source_root))


def _find_lone(add: Node, constants: dict[Node, torch.Tensor]) -> Node | None:
    """The branch of a sum that begins with the number 0, as where there is no norm of the input among them."""
    given = named_arguments(add)
    if isinstance(given["other"], Node) or given["other"] != 0:
        return None
    node = given["self"]
    if _shape(node) is None:
        return None
    known = _read_convolution(node, constants) is not None or (read_norm(node, constants) and len(node.users) == 1)
    return node if known else None


def _find_pair(add: Node, constants: dict[Node, torch.Tensor]) -> tuple[_Branch, _Branch] | None:
    """The convolution that a sum becomes, and what goes into it."""
    given = named_arguments(add)
    operands = (given["self"], given["other"])
    if given.get("alpha", 1) != 1:
        return None
    # A graph adds sizes, too, and tensors to them.
    if any(_shape(operand) is None or _shape(operand) != _shape(add) for operand in operands):
        return None
    # Of a difference the second is taken away, whichever kernel is larger.
    turns = (operands,) if operator_name(add) in _DIFFERENCES else (operands, operands[::-1])
    for host, other in turns:
        kept = _read_convolution(host, constants)
        if kept is None or operands[0] is operands[1]:
            continue
        added = _read_convolution(other, constants) or _read_scale(other, kept, constants)
        if added is not None and _covers(kept, added):
            return kept, added
    return None


def _shape(operand: Any) -> tuple[int | str, ...] | None:
    """The shape of a tensor, sizes that vary by their names; None for a number, written out or computed."""
    value = operand.meta["val"] if isinstance(operand, Node) else None
    if not isinstance(value, torch.Tensor):
        return None
    # Whether a size that only a run knows is 8 is nothing to ask.
    return tuple(size if isinstance(size, int) else str(size) for size in value.shape)


def _read_convolution(node: Any, constants: dict[Node, torch.Tensor]) -> _Branch | None:
    if not isinstance(node, Node) or operator_name(node) not in _CONVOLUTIONS or len(node.users) != 1:
        return None
    given = named_arguments(node)
    weight, bias, padding = given["weight"], given.get("bias"), given["padding"]
    if weight not in constants or len(weight.users) != 1 or isinstance(padding, str):
        return None
    if bias is not None and bias not in constants:
        return None
    tensor = constants[weight]
    count = tensor.dim() - 2
    batched = node.meta["val"].dim() == tensor.dim()
    if (
        not batched
        or tensor.dtype != node.meta["val"].dtype
        or any(size != 1 for size in each(given["dilation"], count))
    ):
        return None
    stride, padding = (tuple(each(given[name], count)) for name in ("stride", "padding"))
    known = None if bias is None else constants[bias]
    return _Branch(node, given["input"], tensor, known, stride, padding, given["groups"])


def _read_scale(node: Node, host: _Branch, constants: dict[Node, torch.Tensor]) -> _Branch | None:
    """A batch norm of the convolution's input as a kernel of one place."""
    norm = read_norm(node, constants)
    if norm is None or norm.source is not host.source or norm.output is not node or len(node.users) != 1:
        return None
    assert host.groups is not None
    channels, own, *kernel = host.weight.shape
    count = len(kernel)
    if any(step != 1 for step in host.stride) or channels != own * host.groups:
        return None
    scale, shift = torch.ones(channels, dtype=torch.float64), torch.zeros(channels, dtype=torch.float64)
    if not isinstance(norm.mean, FakeTensor):
        scale = torch.rsqrt(norm.variance.double() + norm.eps)
        scale = scale if norm.weight is None else scale * norm.weight.double()
        shift = -norm.mean.double() * scale
        shift = shift if norm.bias is None else shift + norm.bias.double()
    weight = torch.zeros(channels, own, *[1] * count, dtype=torch.float64)
    weight[torch.arange(channels), torch.arange(channels) % own] = scale.reshape(-1, *[1] * count)
    return _Branch(node, host.source, weight, shift, host.stride, (0,) * count, None)


def _covers(host: _Branch, other: _Branch) -> bool:
    """Whether each place that the other reads is one that the host reads, for the same place of the result."""
    if host.source is not other.source or host.stride != other.stride or other.groups not in (None, host.groups):
        return False
    if other.groups is not None and host.weight.shape[:2] != other.weight.shape[:2]:
        return False
    sizes = zip(host.weight.shape[2:], other.weight.shape[2:], _offsets(host, other), strict=True)
    return all(at >= 0 and at + small <= large for large, small, at in sizes)


def _offsets(host: _Branch, other: _Branch) -> Sequence[int]:
    """Where the other's kernel begins in the host's."""
    return [mine - its for mine, its in zip(host.padding, other.padding, strict=True)]


def _join(editor: ProgramEditor, add: Node, host: _Branch, other: _Branch, constants: dict[Node, torch.Tensor]) -> None:
    given = named_arguments(host.node)
    name = str(editor.spec(given["weight"]).target)
    val = given["weight"].meta["val"]
    if isinstance(host.weight, FakeTensor):
        weight, bias = torch.empty_like(host.weight), host.weight.new_empty(host.weight.shape[:1])
    else:
        weight, bias = _sum(host, other, -1 if operator_name(add) in _DIFFERENCES else 1)
    made: dict[str, Any] = {}
    for role, tensor, wished in (
        ("weight", weight, f"{name}_joined"),
        ("bias", bias, ".".join([*name.split(".")[:-1], "bias_joined"])),
    ):
        made[role] = editor.add_constant(wished, tensor, val.new_empty(tensor.shape), is_parameter=True)
        constants[made[role]] = tensor
    host.node.args = (given["input"], made["weight"], made["bias"], *host.node.args[3:])
    host.node.kwargs = {key: value for key, value in host.node.kwargs.items() if key not in ("input", "weight", "bias")}
    add.replace_all_uses_with(host.node)
    editor.graph.erase_node(add)
    if other.node is not other.source:
        editor.graph.erase_node(other.node)


def _sum(host: _Branch, other: _Branch, sign: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The joint weight, of the host's shape, and bias `[out]`; the other with that sign."""
    with torch.no_grad():
        weight = host.weight.double().clone()
        inside = [slice(at, at + size) for at, size in zip(_offsets(host, other), other.weight.shape[2:], strict=True)]
        weight[(slice(None), slice(None), *inside)] += sign * other.weight.double()
        bias = torch.zeros(len(weight), dtype=torch.float64)
        for branch, factor in ((host, 1), (other, sign)):
            if branch.bias is not None:
                bias += factor * branch.bias.double()
        dtype = host.weight.dtype
        return weight.to(dtype).contiguous(), bias.to(dtype)
