"""Tensors whose size a program reads from another tensor, such as the filled part of a cache.

XNNPACK's configurations refuse every such size, because they cannot ask whether the tensor is empty, which XNNPACK does
not take. Where the program says that the size is at least 1, there is nothing to ask.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from executorch.backends.xnnpack.partition.config import xnnpack_config
from torch.fx.experimental.symbolic_shapes import has_free_unbacked_symbols


@contextmanager
def sizes_of_run_time() -> Iterator[None]:
    """While it is entered, XNNPACK's configurations take tensors of such sizes where none can be empty."""
    before = xnnpack_config.has_free_unbacked_symbols
    xnnpack_config.has_free_unbacked_symbols = may_be_empty
    try:
        yield
    finally:
        xnnpack_config.has_free_unbacked_symbols = before


def may_be_empty(tensor: torch.Tensor) -> bool:
    """Whether a fake tensor has a size that is read at run time and may be 0."""
    return any(has_free_unbacked_symbols(size) and not _at_least_one(size) for size in tensor.shape)


def _at_least_one(size: Any) -> bool:
    return bool(size.node.shape_env.bound_sympy(size.node.expr).lower >= 1)
