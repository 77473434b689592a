"""A trace must leave nothing behind: tensors without values, in tables and caches that forward fills."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from edgex.export.capture.python_state.holders import KeptValues, cleared_caches, find_holders


@contextlib.contextmanager
def values_kept(module: torch.nn.Module) -> Iterator[None]:
    """Put back, by identity, what changes in a module's attributes, in the objects it holds and in globals.

    What raises here is a defect of edgex, and no reason to say that the model cannot be captured.
    """
    kept, clear_caches = KeptValues(find_holders(module)), cleared_caches(module)
    try:
        yield
    finally:
        kept.put_back()
        clear_caches()
