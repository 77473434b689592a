"""The operators of an exported program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgex.delegates.graph.provenance import is_operator

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node


def operators(program: ExportedProgram) -> Iterator[Node]:
    """Every operator of a program: the graph's own first, then those of the bodies of conditionals and loops."""
    from torch.fx import GraphModule

    for module in program.graph_module.modules():
        if isinstance(module, GraphModule):
            yield from (node for node in module.graph.nodes if is_operator(node))
