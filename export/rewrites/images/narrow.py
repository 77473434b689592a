"""Lay images that are one pixel wide along their width, which is what kernels of convolutions go through.

```
before:  y = aten.conv2d.default(x, w, b, [1, 1], [19, 0], [1, 1], 256)     # x: [1, 512, 200, 1], w: [256, 2, 39, 1]
         z = aten.relu.default(y)
after:   f = aten.reshape.default(x, [1, 512, 1, 200])
         y = aten.conv2d.default(f, w.view(256, 2, 1, 39), b, [1, 1], [0, 19], [1, 1], 256)
         z = aten.reshape.default(aten.relu.default(y), [1, 256, 200, 1])
```

Signals as images of `[batch, channels, time, 1]` with kernels of `[k, 1]`: nothing moves in memory. ONNX Runtime copies
windows a row at a time and oneDNN computes several columns at once; both do so for each single number otherwise. The
convolution above takes ONNX Runtime 13.7 and then 0.9 ms, one of 96 channels in 8 groups 3.4 and 0.4; seven such layers
take oneDNN 17.3 and 4.7 (one thread of a Zen processor without AVX-512). What stands between two of them is laid so as
well: operators on single numbers, norms, joined channels, padding and pooling.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments, operator_name, overload_of
from edgex.export.rewrites.base import Rewrite, locations_of
from edgex.export.rewrites.editing.building import Replacement
from edgex.export.rewrites.editing.editor import ProgramEditor, constant_tensors

aten = torch.ops.aten

# Shorter ones were not measured, and take little time either way.
_LEAST_HEIGHT = 16

_CONVOLUTIONS = (aten.conv2d.default, aten.conv2d.padding)
_POOLS = (aten.max_pool2d.default, aten.avg_pool2d.default)
_PADDING = (aten.pad.default, aten.constant_pad_nd.default)
# By the channel that a number is of, whichever way the image lies.
_BY_CHANNELS = frozenset(f"aten::{name}" for name in ("batch_norm", "instance_norm", "group_norm", "prelu", "dropout"))
# Settings of one number for each direction.
_OF_DIRECTIONS = ("stride", "padding", "dilation", "kernel_size")


def lay_flat(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Lay every such region along its width; the same program comes back without one."""
    region = _Region(constant_tensors(program))
    nodes = [node for node in program.exported.graph.nodes if region.takes(node)]
    convolutions = [node for node in nodes if node.target in _CONVOLUTIONS]
    if not any(_height_of_kernel(node) > 1 for node in convolutions):
        return program, None
    editor = ProgramEditor(program)
    flat: dict[Node, Node] = {}
    for node in nodes:
        _lay(node, flat, region.constants, editor)
    detail = f"{len(convolutions)} convolution(s) over images one pixel wide go along their width"
    return editor.finish(), Rewrite("lay_flat", len(convolutions), detail, locations_of(nodes, program.source_root))


class _Region:
    """What can be laid along its width, told in the program's order."""

    def __init__(self, constants: Mapping[Node, torch.Tensor]) -> None:
        self.constants = constants
        self._taken: set[Node] = set()

    def takes(self, node: Node) -> bool:
        """Whether the operator is a convolution over such images, or stands behind one."""
        if node.op != "call_function" or not _is_narrow(node):
            return False
        if node.target in _CONVOLUTIONS:
            fits = self._is_convolution(node)
        elif node.target in _POOLS:
            fits = node.args[0] in self._taken and _goes_along_height(node)
        elif node.target in _PADDING:
            given = named_arguments(node)
            plain = given.get("mode", "constant") == "constant" and _pads_height(given["pad"])
            fits = node.args[0] in self._taken and plain
        elif node.target == aten.cat.default:
            given = named_arguments(node)
            fits = given["dim"] in (1, -3) and all(part in self._taken for part in given["tensors"])
        else:
            fits = self._is_by_numbers(node)
        if fits:
            self._taken.add(node)
        return bool(fits)

    def _is_convolution(self, node: Node) -> bool:
        given = named_arguments(node)
        weight, x = given["weight"], given["input"]
        known = weight in self.constants and weight.meta["val"].shape[3] == 1
        return known and _is_narrow(x) and x not in self.constants and _goes_along_height(node)

    def _is_by_numbers(self, node: Node) -> bool:
        overload = overload_of(node)
        by_channels = operator_name(node) in _BY_CHANNELS
        if overload is None or not (by_channels or torch.Tag.pointwise in overload.tags):
            return False
        others = [one for one in node.all_input_nodes if one not in self._taken]
        alike = all(map(_is_vector if by_channels else _is_of_channels, others))
        return alike and any(one in self._taken for one in node.all_input_nodes)


def _is_vector(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dim() == 1


def _is_of_channels(node: Node) -> bool:
    """Whether it means the same whichever way the image lies: one number, or one a channel."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and all(size == 1 for size in value.shape[-2:])


def _is_narrow(node: Any) -> bool:
    value = node.meta.get("val") if isinstance(node, Node) else None
    if not isinstance(value, torch.Tensor) or value.dim() != 4 or not value.is_floating_point():
        return False
    known = all(isinstance(size, int) for size in value.shape)
    return known and value.shape[3] == 1 and value.shape[2] >= _LEAST_HEIGHT


def _height_of_kernel(node: Node) -> int:
    return int(named_arguments(node)["weight"].meta["val"].shape[2])


def _goes_along_height(node: Node) -> bool:
    """Whether a window is one pixel wide and stays inside of the image."""
    given = named_arguments(node)
    padding, kernel = given["padding"], given.get("kernel_size")
    inside = isinstance(padding, str) or _each(padding)[1] == 0
    return inside and (kernel is None or _each(kernel)[1] == 1)


def _pads_height(pad: list[int]) -> bool:
    return len(pad) == 4 and pad[0] == pad[1] == 0


def _each(setting: Any) -> tuple[int, int]:
    values = (setting, setting) if isinstance(setting, int) else tuple(setting)
    height, width = values if len(values) == 2 else values * 2
    return height, width


def _lay(node: Node, flat: dict[Node, Node], constants: Mapping[Node, torch.Tensor], editor: ProgramEditor) -> None:
    """Put the operator over flat images in the place of one; `flat` gets what it gives."""
    step = Replacement(editor, node)

    def read(original: Node) -> Node:
        if original not in flat and original not in constants and _is_narrow(original):
            flat[original] = step.call(aten.reshape.default, editor.node(original), _turned(original))
        return flat.get(original, editor.node(original))

    args, kwargs = node.args, node.kwargs
    if node.target in (*_CONVOLUTIONS, *_POOLS, *_PADDING):
        given = named_arguments(node)
        for name in _OF_DIRECTIONS:
            if given.get(name) and not isinstance(given[name], str):
                given[name] = list(reversed(_each(given[name])))
        if node.target in _PADDING:
            given["pad"] = [*given["pad"][2:], 0, 0]
        args, kwargs = tuple(given.values()), {}
    args, kwargs = torch.fx.map_arg((args, kwargs), read)
    if node.target in _CONVOLUTIONS:
        weight = named_arguments(node)["weight"]
        if weight not in flat:  # one that several share stays one
            flat[weight] = _turned_weight(step, weight, constants)
        args = (args[0], flat[weight], *args[2:])
    found = step.call(node.target, *args, **kwargs)
    back = step.call(aten.reshape.default, found, list(node.meta["val"].shape))
    step.finish(back)
    flat[node] = found


def _turned(node: Node) -> list[int]:
    batch, channels, height, width = node.meta["val"].shape
    return [batch, channels, width, height]


def _turned_weight(step: Replacement, weight: Node, constants: Mapping[Node, torch.Tensor]) -> Node:
    """The same numbers in the same order, as a weight of its own."""
    tensor = constants[weight]
    out, channels, height, width = tensor.shape
    return step.constant(f"{weight.name}_flat", tensor.reshape(out, channels, width, height), is_parameter=True)
