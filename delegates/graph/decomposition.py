"""Spare the exporter the decompositions that change nothing.

ExecuTorch decomposes a program three times on its way to the edge dialect: to make it functional, to take apart what
the target does not keep whole, and to take apart what it kept in vain. Each traces the whole program anew, a third of
the time until the partitioner. The first changes nothing in a program without writes, the last nothing where everything
that was kept is taken.
"""

from __future__ import annotations

import copy
from collections.abc import Container, Iterator
from typing import TYPE_CHECKING, Any

from edgex.delegates.graph.kinds import decompose_kinds

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

# They write running statistics where their argument 5 says so, and their schemas do not tell.
_NORMS = ("aten::batch_norm", "aten::instance_norm", "aten::native_batch_norm")
_TRAINING = 5


def spare_decompositions(program: ExportedProgram, *, by_kind: bool = False) -> ExportedProgram:
    """The program, with a `run_decompositions` that returns it as it is where nothing would change.

    Args:
        program: It is not changed, and shared; what comes back is only for the exporter, whose first decomposition with
            operators to take apart is always a real one, so that it edits a graph of its own.
        by_kind: For a plan: where it can be, trace each kind of operator once (`edgex.delegates.graph.kinds`).
    """
    return _sparing(program, owned=False, by_kind=by_kind)


def _sparing(program: ExportedProgram, *, owned: bool, by_kind: bool) -> ExportedProgram:
    import torch

    def run_decompositions(table: Any = None, *args: Any, **kwargs: Any) -> ExportedProgram:
        wanted = torch.export.default_decompositions() if table is None else table
        if _is_functional(program) if not wanted else owned and not _has_any(program, wanted):
            return result
        if by_kind and wanted and _is_functional(program):
            made = decompose_kinds(
                program, lambda kinds: kinds.run_decompositions(table, *args, **kwargs), settled=True
            )
            if made is not None:
                return _sparing(made, owned=True, by_kind=by_kind)
        return _sparing(program.run_decompositions(table, *args, **kwargs), owned=True, by_kind=by_kind)

    spared: Any = copy.copy(program)
    spared.run_decompositions = run_decompositions
    result: ExportedProgram = spared
    return result


def _has_any(program: ExportedProgram, table: Container[Any]) -> bool:
    """Whether an operator of the program is in the table."""
    return any(node.target in table for node in _calls(program))


def _is_functional(program: ExportedProgram) -> bool:
    """Whether nothing in the program writes to a tensor, as far as one can see."""
    return all(_only_reads(node) for node in _calls(program))


def _only_reads(node: Node) -> bool:
    from edgex.delegates.graph.schema import overload_of, schema_of

    overload = overload_of(node)
    if overload is None:
        return getattr(node.target, "__module__", None) in ("_operator", "math")
    schema = schema_of(overload)
    if schema.name in _NORMS:
        return len(node.args) > _TRAINING and node.args[_TRAINING] is False
    return not schema.is_mutable


def _calls(program: ExportedProgram) -> Iterator[Node]:
    from torch.fx import GraphModule

    for module in program.graph_module.modules():
        if isinstance(module, GraphModule):
            yield from (node for node in module.graph.nodes if node.op == "call_function")
