"""Between NumPy's arrays and torch's tensors, and the threads of a run: what all engines on torch share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def to_tensors(arrays: Sequence[np.ndarray], dtypes: Sequence[torch.dtype]) -> list[torch.Tensor]:
    """Tensors of these dtypes, on the arrays' own memory where that can be."""
    import torch

    return [
        torch.from_numpy(array if array.flags.writeable else array.copy()).to(dtype)
        for array, dtype in zip(arrays, dtypes, strict=True)
    ]


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """A NumPy array of its own: an output that aliases a state buffer would change with the next run."""
    import torch

    tensor = tensor.detach().to(torch.float32) if tensor.dtype == torch.bfloat16 else tensor.detach()
    return tensor.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format).numpy()


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """Torch's thread count is one number a process: set for a run and put back.

    Sessions do not disturb each other so, nor the user's own torch code.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
