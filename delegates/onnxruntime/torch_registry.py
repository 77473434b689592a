"""What torch's ONNX exporter can translate. The only module that touches `torch.onnx._internal`.

`torch.onnx.export` stops at the first operator without a translation; the user is to see all of them at once.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node


@dataclass(frozen=True)
class ExporterView:
    """A program as the exporter translates it.

    Attributes:
        program: Decomposed to what the exporter knows.
        untranslatable: Nodes without a translation, in program order, each with the exporter's reason.
    """

    program: ExportedProgram
    untranslatable: tuple[tuple[Node, str], ...]


@functools.cache
def _registry(opset: int) -> Any:
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    # Translations are written for opset 18 and up; older opsets are converted down from 18.
    return ONNXRegistry.from_torchlib(opset_version=max(opset, 18))


def view_as_exporter(program: ExportedProgram, opset: int) -> ExporterView:
    """Decompose a program as `torch.onnx.export` does, and look up every operator.

    Args:
        program: Any exported program; it is not changed.
        opset: The opset that is to be written.
    """
    from torch.onnx._internal.exporter._core import _is_onnx_op, _prepare_exported_program_for_export
    from torch.onnx._internal.exporter._dispatching import dispatch

    from edgex.delegates.onnxruntime.graphs import operators

    registry = _registry(opset)
    decomposed = _prepare_exported_program_for_export(program, registry=registry)
    missing = []
    for node in operators(decomposed):
        if _is_onnx_op(node.target):
            continue
        function, reason = dispatch(node, registry)
        if function is None:
            missing.append((node, reason))
    return ExporterView(decomposed, tuple(missing))
