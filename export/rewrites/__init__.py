"""Graph rewrites, one pass a file; each keeps the numbers and says what it changed."""

from __future__ import annotations

from collections.abc import Callable

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite

__all__ = ["Rewrite", "apply_rewrites"]


def apply_rewrites(program: CapturedProgram) -> tuple[CapturedProgram, tuple[Rewrite, ...]]:
    """Run every pass in order.

    Args:
        program: What capture made; it is not changed.

    Returns:
        The rewritten program (the same object where nothing matched), and what the passes that changed something did.
    """
    rewrites: list[Rewrite] = []
    for run in _passes():
        program, rewrite = run(program)
        if rewrite is not None:
            rewrites.append(rewrite)
    return program, tuple(rewrites)


def _passes() -> tuple[Callable[[CapturedProgram], tuple[CapturedProgram, Rewrite | None]], ...]:
    """The passes in the order in which they run; torch is imported here, not with the package."""
    from edgex.export.rewrites.batch_norm import fold_batch_norm
    from edgex.export.rewrites.constants import fold_constants
    from edgex.export.rewrites.regions import inline_regions

    return (
        # First: operators inside a region are invisible to the passes below.
        inline_regions,
        # Then: weight_norm's computed weight becomes a constant, which folding batch norm into it needs. The other
        # way round nothing would be found, and batch norm leaves no new subgraph of weights behind.
        fold_constants,
        fold_batch_norm,
    )
