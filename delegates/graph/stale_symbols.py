"""Torch passes over programs with data-dependent sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


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
