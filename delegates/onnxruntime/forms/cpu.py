"""What the CPU provider is given in another form: where it would be wrong, and where its kernels are slow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgex.delegates.onnxruntime.forms.broadcasting import lengthen_runs
from edgex.delegates.onnxruntime.forms.columns import read_rows, repeat_rows
from edgex.delegates.onnxruntime.forms.elementwise import spare_functions
from edgex.delegates.onnxruntime.forms.pads import name_padded_axes
from edgex.delegates.onnxruntime.forms.pools import pool_blocks

if TYPE_CHECKING:
    from edgex.delegates.onnxruntime.graph.edits import GraphEditor


def write_for_cpu(editor: GraphEditor) -> None:
    """Edit a graph for the CPU provider."""
    name_padded_axes(editor)
    # Integer kernels are found by the operators between those that quantize.
    if any(node.op_type == "QuantizeLinear" for node in editor.graph):
        return
    spare_functions(editor)
    pool_blocks(editor)
    read_rows(editor)
    # Ahead of operators, which repeat rows themselves then.
    repeat_rows(editor)
    lengthen_runs(editor)
