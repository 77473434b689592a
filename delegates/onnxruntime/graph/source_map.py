"""Which operator, module and source line each ONNX node came from. Format `edgex.source_map/1`.

```
{"format": "edgex.source_map/1",
 "ops": [{"id": "node_linear", "op": "aten.linear.default", "module": "layers.0.fc", "source": "net.py:23",
          "inputs": ["x", "fc.weight"], "outputs": ["linear"]}],
 "values": {"fc.weight": {"dtype": "float32", "shape": [8, 4]}},   # the constants only
 "constants": ["fc.weight"], "results": ["linear"]}
```

`id` is the ONNX node's name, and values are tensors of the ONNX graph. A node that the exporter fused from several
keeps the last one's origin (a convolution with a folded batch norm says `batch_norm`); one that it made up has its own
kind as operator (`onnx.Shape`), and neither module nor line.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgex.delegates.graph.provenance import module_path_of, source_of
from edgex.delegates.onnxruntime.graph.walk import operators

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

FORMAT = "edgex.source_map/1"

# ONNX's names where they are not NumPy's.
_DTYPES = {"float": "float32", "double": "float64"}


def origins(model: Any, translated: ExportedProgram) -> dict[str, Node]:
    """The operator that each ONNX node was translated from, by the ONNX node's name.

    Args:
        model: An `onnx_ir.Model` whose nodes still have the exporter's metadata.
        translated: The decomposed program that the exporter translated.
    """
    import onnx_ir

    by_name = {node.name: node for node in operators(translated)}
    found: dict[str, Node] = {}
    for node in onnx_ir.traversal.RecursiveGraphIterator(model.graph):
        scopes = ast.literal_eval(node.metadata_props.get("pkg.torch.onnx.name_scopes", "[]"))
        if scopes and scopes[-1] in by_name:
            found[node.name] = by_name[scopes[-1]]
    return found


def build_source_map(model: Any, found: Mapping[str, Node], source_root: Path) -> dict[str, Any]:
    """The document for `debug/source_map.json`.

    Args:
        model: The `onnx_ir.Model` as it will be written.
        found: What `origins` found before the metadata was taken off.
        source_root: Folder of the user's file.
    """
    import onnx_ir

    constants = {
        name: {"dtype": value.const_value.dtype.name.lower(), "shape": [int(size) for size in value.const_value.shape]}
        for name, value in model.graph.initializers.items()
    }
    ops = []
    for node in onnx_ir.traversal.RecursiveGraphIterator(model.graph):
        origin = found.get(node.name)
        ops.append(
            {
                "id": node.name,
                "op": f"onnx.{node.op_type}" if origin is None else str(origin.target),
                "module": None if origin is None else module_path_of(origin),
                "source": None if origin is None else source_of(origin, source_root),
                "inputs": [value.name for value in node.inputs if value is not None],
                "outputs": [value.name for value in node.outputs],
            }
        )
    return {
        "format": FORMAT,
        "ops": ops,
        "values": {
            name: {**value, "dtype": _DTYPES.get(value["dtype"], value["dtype"])} for name, value in constants.items()
        },
        "constants": list(constants),
        "results": [value.name for value in model.graph.outputs],
    }
