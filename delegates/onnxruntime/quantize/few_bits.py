"""Weights in 8 and 4 bits, with torchao's numbers: symmetric, the scale is the largest magnitude over 7.5 or 127.5.

PT2E's (`int8-dynamic`) leave out -128, and the scale is the largest magnitude over 127.

Tensors are made when the model is written, one at a time, so a quantized model never stands beside its float weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class FloatWeight:
    """The float weight of a linear layer.

    Attributes:
        tensor: An `onnx_ir` tensor, float32, `[out, in]`, or `[in, out]` where `turned`.
        turned: See `tensor`.
    """

    tensor: Any
    turned: bool

    @property
    def outputs(self) -> int:
        """Number of output channels."""
        return int(self.tensor.shape[1 if self.turned else 0])

    @property
    def inputs(self) -> int:
        """Number of input features."""
        return int(self.tensor.shape[0 if self.turned else 1])

    def rows(self) -> np.ndarray:
        """The weight as `[out, in]`."""
        array: np.ndarray = self.tensor.numpy()
        return array.T if self.turned else array


def quantize_groups(rows: np.ndarray, bits: int, group: int, *, narrow: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Quantize runs of input features.

    Args:
        rows: float32 `[out, in]`.
        bits: 8, 7 or 4.
        group: Features that share a scale; the last run is filled up with zeros.
        narrow: Leave out the lowest number.

    Returns:
        int8 `[out, runs, group]` and float32 `[out, runs]`.
    """
    import numpy as np

    outputs, inputs = rows.shape
    runs = -(-inputs // group)
    padded = np.zeros((outputs, runs * group), np.float32)
    padded[:, :inputs] = rows
    grouped = padded.reshape(outputs, runs, group)
    lowest, highest = -(1 << (bits - 1)) + narrow, (1 << (bits - 1)) - 1
    scale = np.abs(grouped).max(-1) / np.float32((highest - lowest) / 2)
    scale = np.maximum(scale, np.finfo(np.float32).eps).astype(np.float32)
    return np.clip(np.rint(grouped / scale[..., None]), lowest, highest).astype(np.int8), scale


def channel_tensors(weight: FloatWeight, bits: int, *, narrow: bool) -> tuple[Any, Any, Any]:
    """A weight with one scale an output channel, for integer products.

    Args:
        weight: The float weight.
        bits: 8, or 7 in bytes.
        narrow: See `quantize_groups`.

    Returns:
        Lazy `onnx_ir` tensors: int8 `[in, out]`, float32 scales `[out]`, and float32 sums of the int8 numbers of each
        channel, `[out]`.
    """
    import numpy as np

    def both() -> tuple[np.ndarray, np.ndarray]:
        return quantize_groups(weight.rows(), bits, weight.inputs, narrow=narrow)

    def quantized() -> np.ndarray:
        return np.ascontiguousarray(both()[0][:, 0, :].T)

    def scales() -> np.ndarray:
        return both()[1][:, 0]

    def sums() -> np.ndarray:
        totals: np.ndarray = both()[0].sum((1, 2), dtype=np.int32)
        return totals.astype(np.float32)

    return (
        _lazy(quantized, np.int8, [weight.inputs, weight.outputs]),
        _lazy(scales, np.float32, [weight.outputs]),
        _lazy(sums, np.float32, [weight.outputs]),
    )


def block_tensors(weight: FloatWeight, bits: int, group: int) -> tuple[Any, Any]:
    """A weight as MatMulNBits reads it, unsigned: 8 stands for zero in 4 bits, 128 in 8.

    Of 4 bits, two numbers share a byte, the first in the low half.

    Returns:
        Lazy `onnx_ir` tensors: uint8 `[out, runs, group * bits / 8]` and float32 scales `[out, runs]`.
    """
    import numpy as np

    runs = -(-weight.inputs // group)

    def packed() -> np.ndarray:
        signed = quantize_groups(weight.rows(), bits, group)[0]
        if bits == 8:
            return signed.view(np.uint8) ^ np.uint8(0x80)
        unsigned = (signed + 8).astype(np.uint8)
        both: np.ndarray = unsigned[..., 0::2] | (unsigned[..., 1::2] << 4)
        return both

    def scales() -> np.ndarray:
        return quantize_groups(weight.rows(), bits, group)[1]

    return (
        _lazy(packed, np.uint8, [weight.outputs, runs, group * bits // 8]),
        _lazy(scales, np.float32, [weight.outputs, runs]),
    )


def _lazy(make: Any, dtype: Any, shape: list[int]) -> Any:
    import numpy as np
    import onnx_ir

    kind = onnx_ir.DataType.from_numpy(np.dtype(dtype))
    return onnx_ir.LazyTensor(partial(_made, make), dtype=kind, shape=onnx_ir.Shape(shape))


def _made(make: Any) -> Any:
    import onnx_ir

    return onnx_ir.Tensor(make())
