"""Which operator, module and source line each ONNX node came from. Format `edgex.source_map/1`.

```
{"format": "edgex.source_map/1",
 "ops": [{"id": "node_linear", "op": "aten.linear.default", "module": "layers.0.fc", "source": "net.py:23"}]}
```

`id` is the ONNX node's name. A node that the exporter fused from several keeps the last one's origin (a
convolution with a folded batch norm says `batch_norm`).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgex.delegates.onnxruntime.graphs import operators
from edgex.delegates.provenance import module_path_of, source_of

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

FORMAT = "edgex.source_map/1"


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


def build_source_map(found: Mapping[str, Node], source_root: Path) -> dict[str, Any]:
    """The document for `debug/source_map.json`."""
    ops = [
        {"id": name, "op": str(node.target), "module": module_path_of(node), "source": source_of(node, source_root)}
        for name, node in found.items()
    ]
    return {"format": FORMAT, "ops": ops}
