"""A region of the edge program to the bytes of a plan: what ExecuTorch calls a backend's preprocessing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from torch.fx.experimental.symbolic_shapes import guarding_hint_or_throw

from edgex.delegates.executorch.constants import constant_readers
from edgex.delegates.executorch.exir import operator_name
from edgex.delegates.graph.provenance import is_operator
from edgex.delegates.onednn.layout.layouts import assign_layouts
from edgex.delegates.onednn.layout.sizes import Layout, dense_strides, shape_of
from edgex.delegates.onednn.operators.table import OPERATORS
from edgex.delegates.onednn.plan.format import Signature, encode_plan
from edgex.delegates.onednn.plan.fusion import end_unfit_partitions
from edgex.delegates.onednn.plan.region import RegionBuilder, is_indices, is_int8, is_mask, make_value
from edgex.delegates.onednn.plan.values import Operation, Refused, Value
from edgex.delegates.onednn.plan.written_attention import fuse_attention
from edgex.errors import LoweringError

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram
    from torch.fx import Node


class OneDnnGraphBackend(BackendDetails):  # type: ignore[misc]  # executorch ships no types
    """ExecuTorch finds it by its name, which is also the C++ backend's."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[Any]) -> Any:
        """Lower one region."""
        del compile_specs
        try:
            operations, signature = build_region(edge_program)
        except Refused as refusal:  # what only the constants tell
            raise LoweringError(
                "a quantized weight is none that oneDNN takes",
                why=refusal.reason,
                fix="export from float weights with --quantize int8",
            ) from refusal
        try:
            return PreprocessResult(processed_bytes=encode_plan(operations, signature))
        except Refused as refusal:
            raise LoweringError(
                "a region's sizes cannot be followed",
                why=refusal.reason,
                fix="make the dimension static, or try xnnpack",
            ) from refusal


def build_region(program: ExportedProgram) -> tuple[list[Operation], Signature]:
    """The region's operators with their layouts, and its signature; constants are not read."""
    constants = constant_readers(program)
    builder = RegionBuilder(constants=constants)
    inputs = [_take_input(builder, node) for node in _inputs(program, constants)]
    for number, value in enumerate(inputs):
        if value is not None:
            value.argument = number
    for node in program.graph.nodes:
        if is_operator(node):
            builder.lower(node, OPERATORS[operator_name(node)])
        elif node.op == "call_function":  # one of several outputs
            builder.values[node] = builder.values[node.args[0]][node.args[1]]
    fuse_attention(builder)
    nodes = [node for node in program.graph.output_node().args[0] if hasattr(node, "meta")]
    expected = [(builder.result(node), layout_of(node.meta["val"])) for node in nodes]
    operations, outputs = assign_layouts(builder, expected)
    for number, value in enumerate(outputs):
        value.root.argument = len(inputs) + number
    end_unfit_partitions(operations)
    hints = {
        # Of what the size is: one that the run finds may be known to be another by now, and has no hint of its own.
        (position, dim): int(guarding_hint_or_throw(size))
        for position, node in enumerate(_inputs(program, constants))
        for dim, size in enumerate(getattr(node.meta["val"], "shape", ()))
        if not isinstance(size, int)
    }
    return operations, Signature(tuple(inputs), tuple(outputs), hints)


def layout_of(tensor: Any) -> Layout:
    """How ExecuTorch lays out a tensor: densely, its dimensions in the order of the fake tensor's strides."""
    shape = shape_of(tensor)
    if not tensor.dim() or tensor.is_contiguous():
        return Layout(shape, dense_strides(shape))
    return Layout(shape, dense_strides(shape, tuple(tensor.dim_order())))


def _inputs(program: ExportedProgram, constants: dict[str, Callable[[], torch.Tensor]]) -> list[Node]:
    return [node for node in program.graph.find_nodes(op="placeholder") if node.name not in constants]


def _take_input(builder: RegionBuilder, node: Node) -> Value | None:
    """The value of an input; None for a number, whose value the sizes of the tensors tell too."""
    tensor = node.meta.get("val")
    if not hasattr(tensor, "dtype"):
        return None
    if is_indices(tensor):
        value = builder.indices(node)
    elif is_mask(tensor):
        value = builder.mask(node)
    else:
        value = builder.integers(node) if is_int8(tensor) else make_value(tensor)
    value.layout = layout_of(tensor)
    builder.values[node] = value
    return value
