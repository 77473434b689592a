"""ExecuTorch's passes from PyTorch's operators to its own, run over each kind of operator once: for plans.

The passes look at one operator at a time, but for those over quantized programs; each traces the whole program anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from edgex.delegates.graph.kinds import decompose_kinds

if TYPE_CHECKING:
    from torch.export import ExportedProgram

# A pass takes out a dequantization with the quantization after it.
_LOOKED_AT_TOGETHER = ("quantized_decomposed", "torchao")


@contextmanager
def passes_by_kind() -> Iterator[None]:
    """Within it, `to_edge_transform_and_lower` makes edge programs that are good for partitioning, and sooner."""
    from executorch.exir.program import _program

    whole = _program._generate_edge_program

    def by_kind(config: Any, program: ExportedProgram, *args: Any, **kwargs: Any) -> ExportedProgram:
        made = None
        if not _is_quantized(program):
            made = decompose_kinds(program, lambda kinds: whole(config, kinds, *args, **kwargs))
        return whole(config, program, *args, **kwargs) if made is None else made

    _program._generate_edge_program = by_kind
    try:
        yield
    finally:
        _program._generate_edge_program = whole


def _is_quantized(program: ExportedProgram) -> bool:
    return any(getattr(node.target, "namespace", None) in _LOOKED_AT_TOGETHER for node in program.graph.nodes)
