"""Work with exported programs: their operators, and torch passes over those with data-dependent sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from edgex.delegates.provenance import is_operator

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

T = TypeVar("T")


def operators(program: ExportedProgram) -> Iterator[Node]:
    """Every operator of a program: the graph's own first, then those of the bodies of conditionals and loops."""
    from torch.fx import GraphModule

    for module in program.graph_module.modules():
        if isinstance(module, GraphModule):
            yield from (node for node in module.graph.nodes if is_operator(node))


def retry_stale_symbols(retrace: Callable[[], T]) -> T:
    """Run a torch pass that retraces a program, once more where it trips over the pass before it.

    A graph with `nonzero` remembers the symbol for the unknown size in its fake tensors. The next pass over the
    same program takes it for one of its own and fails; that clears the memory, and the pass after it succeeds.
    """
    from torch.fx.experimental.symbolic_shapes import PendingUnbackedSymbolNotFound

    try:
        return retrace()
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, PendingUnbackedSymbolNotFound):
            cause = cause.__cause__
        if cause is None:
            raise
    return retrace()
