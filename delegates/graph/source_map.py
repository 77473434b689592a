"""`debug/source_map.json` of a captured program, for engines that give no identifiers of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgex.delegates.graph.provenance import is_operator, module_path_of, source_of
from edgex.delegates.graph.values import read_graph_values

if TYPE_CHECKING:
    from edgex.delegates.base import CapturedProgram


def build_source_map(program: CapturedProgram) -> dict[str, Any]:
    """Operator, module and line of every node, by the node's name, and what flows between them.

    The format is the one that `edgex.runtime.engines.trace.source_map` reads.
    """
    flow = read_graph_values(program.exported, [spec.name for spec in program.inputs])
    operators = [
        {
            "id": node.name,
            "op": str(node.target),
            "module": module_path_of(node),
            "source": source_of(node, program.source_root),
            "inputs": list(flow.nodes[node.name].inputs),
            "outputs": list(flow.nodes[node.name].outputs),
            "flops": flow.nodes[node.name].flops,
        }
        for node in program.exported.graph.nodes
        if is_operator(node)
    ]
    return {"format": "edgex.source_map/1", "ops": operators, **flow.to_json()}
