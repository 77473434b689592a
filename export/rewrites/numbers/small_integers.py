"""Compute with integers of 8 and 16 bits in 32 where ONNX Runtime has no kernel for them.

```
before:  y = aten.amax.default(pcm, [1, 2])                             # pcm: int16[1, 1, 7680]
after:   w = aten.to.dtype(pcm, torch.int32)
         y = aten.to.dtype(aten.amax.default(w, [1, 2]), torch.int16)
```

Samples of sound are int16, pixels uint8. ONNX knows no maxima, choices and paddings of int16; ONNX Runtime has no minus
for uint8 and shifts it into int8. Converting back keeps the low bits, as wrapping does. Left alone: operators that mix
types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import schema_of
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, substitute

aten = torch.ops.aten

_SHORT = (torch.int16,)
_SHORT_AND_BYTES = (torch.int16, torch.uint8)
_MISSING = {
    **dict.fromkeys(
        (
            *(aten.amax.default, aten.amin.default, aten.max.default, aten.min.default, aten.max.dim, aten.min.dim),
            *(aten.argmax.default, aten.argmin.default, aten.maximum.default, aten.minimum.default),
            *(aten.max.other, aten.min.other, aten.clamp.default, aten.clamp.Tensor),
            *(aten.clamp_min.default, aten.clamp_max.default, aten.where.self, aten.where.ScalarOther),
            *(aten.where.ScalarSelf, aten.pad.default, aten.constant_pad_nd.default),
        ),
        _SHORT,
    ),
    **dict.fromkeys(
        (
            *(aten.neg.default, aten.__rshift__.Scalar, aten.__lshift__.Scalar),
            *(aten.bitwise_right_shift.Tensor_Scalar, aten.bitwise_left_shift.Tensor_Scalar),
        ),
        _SHORT_AND_BYTES,
    ),
}


def widen_small_integers(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such operator; the same program comes back without one."""
    rules: Rules = {target: _in_32_bits(target, dtypes) for target, dtypes in _MISSING.items()}
    return substitute(program, "widen_small_integers", rules, "{count} {operators} of small integers in 32 bits")


def _in_32_bits(target: Any, dtypes: tuple[torch.dtype, ...]) -> Callable[..., Any]:
    arguments = schema_of(target).arguments

    def write(*given: Any) -> Any:
        numbers = {value.dtype for value in given if isinstance(value, torch.Tensor) and value.dtype != torch.bool}
        if len(numbers) != 1 or not numbers <= {*dtypes}:
            return NotImplemented
        (narrow,) = numbers
        wide = [value.to(torch.int32) if _is_of(value, narrow) else value for value in given]
        pairs = list(zip(arguments, wide, strict=True))
        result = target(
            *(value for argument, value in pairs if not argument.kwarg_only),
            **{argument.name: value for argument, value in pairs if argument.kwarg_only},
        )
        parts = result if isinstance(result, tuple) else (result,)
        narrowed = tuple(part.to(narrow) if part.dtype == torch.int32 else part for part in parts)
        return narrowed if isinstance(result, tuple) else narrowed[0]

    return write


def _is_of(value: Any, dtype: torch.dtype) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype == dtype
