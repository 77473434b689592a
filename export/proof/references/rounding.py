"""Eager with other roundings: each operator's result is off by a few last bits, as those of another order of sums are.

Monte Carlo arithmetic (Parker, 1997; CADNA, PRECISE) estimates so what rounding does to an answer. Moved inputs and
weights (`movement.py`) imitate it but where they cancel: of a series that is constant, `(x - x.mean()) / x.std()` is
rounding and nothing else, however the constant is moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from edgex.delegates.graph.schema import schema_of
from edgex.delegates.graph.torch_internals import TorchDispatchMode

# They choose, place, copy or count: no engine rounds in them.
_EXACT = frozenset(
    f"aten::{name}"
    for name in (
        *("clone", "copy_", "_to_copy", "contiguous", "cat", "stack", "index", "index_put", "index_put_"),
        *("index_select", "gather", "scatter", "embedding", "where", "masked_fill", "masked_fill_"),
        *("constant_pad_nd", "repeat", "roll", "flip", "tril", "triu", "fill_", "zero_", "zeros", "ones"),
        *("full", "empty", "arange", "eye", "full_like", "zeros_like", "ones_like", "scalar_tensor", "max"),
        *("min", "amax", "amin", "aminmax", "maximum", "minimum", "sort", "topk", "kthvalue", "median"),
        *("mode", "clamp", "clamp_", "clamp_min", "clamp_max", "relu", "relu_", "neg", "abs", "sign", "sgn"),
        *("round", "floor", "ceil", "trunc", "max_pool2d_with_indices", "leaky_relu", "upsample_nearest2d"),
        *("upsample_nearest1d", "reflection_pad2d", "reflection_pad1d", "replication_pad2d"),
    )
)


class RoundedDifferently(TorchDispatchMode):  # type: ignore[no-untyped-call]  # its parent has no types
    """Within it, float32 results of arithmetic are off by at most a share of themselves; whole numbers stay."""

    def __init__(self, seed: int, share: float) -> None:
        """Take how far, and which draw."""
        super().__init__()  # type: ignore[no-untyped-call]
        self._generator = torch.Generator().manual_seed(seed)
        self._share = share

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run the operator, and move what it computed."""
        result = func(*args, **(kwargs or {}))
        schema = schema_of(func)
        if schema.name in _EXACT:
            return result
        given = {value.data_ptr() for value in args if isinstance(value, torch.Tensor)}
        results = result if isinstance(result, (tuple, list)) else (result,)
        for value, declared in zip(results, schema.returns, strict=False):
            if not (isinstance(value, torch.Tensor) and value.dtype == torch.float32 and value.numel()):
                continue
            is_written = declared.alias_info is not None and declared.alias_info.is_write
            # A view, and what dropout gives at rest, share memory with what was computed before.
            is_view = declared.alias_info is not None or value.data_ptr() in given or 0 in value.stride()
            if is_written or not is_view:
                self._move(value)
        return result

    def _move(self, value: torch.Tensor) -> None:
        noise = torch.rand(value.shape, generator=self._generator) * (2 * self._share) - self._share
        # Counts, places and masks are exact in every engine.
        value.mul_(torch.where(value == value.round(), 1.0, 1.0 + noise))
