"""The backend's own kernels one by one, compiled for each kind of processor and called from Python."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from edgex.delegates.onednn.quantized.packing import pack_scales, pack_weights, sum_weights
from edgex.runtime.engines.onednn.build import SOURCES

KERNELS = Path(__file__).parents[1] / "delegates" / "onednn" / "kernels"
# What a processor without it runs, and the others.
PROCESSORS = {"plain": 0, "avx2": 1, "avx512": 2}
_OF_ACTIVATIONS = SOURCES / "lowbits" / "activations.cpp"


def build_kernels(folder: Path) -> ctypes.CDLL | None:
    """Compile them; None where there is no g++."""
    compiler = shutil.which("g++")
    if compiler is None:
        return None
    library = folder / "kernels.so"
    flags = ("-std=c++17", "-O2", "-fno-trapping-math", "-shared", "-fPIC", "-fopenmp-simd", f"-I{SOURCES}")
    sources = [*sorted(KERNELS.glob("*.cpp")), _OF_ACTIVATIONS]
    subprocess.run([compiler, *flags, *map(str, sources), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


class _Product(ctypes.Structure):
    """`LowBitProduct` of `lowbits/products.h`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("weights", "scales", "sums", "bias")),
        *((name, ctypes.c_int64) for name in ("groups", "group", "outputs")),
        *((name, ctypes.c_void_p) for name in ("rows", "encodings", "row_sums", "results")),
        ("count", ctypes.c_int64),
    )


def quantize_rows(library: ctypes.CDLL, x: np.ndarray, padded: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows in 8 bits, filled up to `padded`, and of each row the scale and the zero point."""
    x = np.ascontiguousarray(x, np.float32)
    rows, encodings = np.full((len(x), padded), 99, np.int8), np.zeros((len(x), 2), np.float32)
    count, filled, step = (ctypes.c_int64(number) for number in (x.shape[1], padded, 1))
    for row, to, encoding in zip(x, rows, encodings, strict=True):
        library.quantize(_at(row), step, count, filled, _at(to), _at(encoding))
    return rows, encodings


def multiply(
    library: ctypes.CDLL, processor: str, bits: int, x: np.ndarray, weight: torch.Tensor, scale: torch.Tensor, bias: Any
) -> np.ndarray | None:
    """`x` by a weight in few bits; None where this processor is another one."""
    groups, outputs = scale.shape[1], len(weight)
    packed = [
        part.numpy() for part in (pack_weights(weight, groups, bits), pack_scales(scale), sum_weights(weight, scale))
    ]
    depth = packed[0].shape[1] * packed[0].shape[2] * 8 // bits // 16
    rows, encodings = quantize_rows(library, x, depth)
    row_sums = np.ascontiguousarray(-8 * rows.astype(np.int32).reshape(len(x), groups, -1).sum(-1, dtype=np.int32))
    if bits == 8:
        rows, encodings = (rows.astype(np.int16) + 128).astype(np.uint8), encodings + np.array([0, 128], np.float32)
    result = np.full((len(x), outputs + 3), 7, np.float32)
    to = (ctypes.c_void_p * len(x))(*(_at(row).value for row in result))
    product = _Product(
        *(_at(part) for part in packed), None if bias is None else _at(bias), groups, depth // groups, outputs,
        _at(rows), _at(encodings), _at(row_sums), ctypes.cast(to, ctypes.c_void_p), len(x),
    )  # fmt: skip
    blocks = len(packed[0])
    run: Callable[..., int] = library.multiply_four if bits == 4 else library.multiply_eight
    for first, end in ((0, blocks // 2), (blocks // 2, blocks)):  # as two threads would
        if not run(PROCESSORS[processor], ctypes.byref(product), ctypes.c_int64(first), ctypes.c_int64(end)):
            return None
    assert (result[:, outputs:] == 7).all(), "numbers were written behind the last output"
    return result[:, :outputs]


class _Scores(ctypes.Structure):
    _fields_ = (
        *(("query", ctypes.c_void_p), ("rows", ctypes.c_int64), ("keys", ctypes.c_void_p)),
        *(("count", ctypes.c_int64), ("size", ctypes.c_int64), ("to", ctypes.c_void_p), ("step", ctypes.c_int64)),
    )


class _Mixture(ctypes.Structure):
    _fields_ = (
        *(("weights", ctypes.c_void_p), ("step", ctypes.c_int64), ("rows", ctypes.c_int64)),
        *(("values", ctypes.c_void_p), ("count", ctypes.c_int64), ("size", ctypes.c_int64), ("to", ctypes.c_void_p)),
    )


def score(library: ctypes.CDLL, processor: str, query: np.ndarray, keys: np.ndarray) -> np.ndarray | None:
    """`query` by each of the keys; None where this processor is another one."""
    to = np.zeros((len(query), len(keys) + 2), np.float32)
    given = _Scores(_at(query), len(query), _at(keys), len(keys), keys.shape[1], _at(to), to.shape[1])
    ran = library.score(PROCESSORS[processor], ctypes.byref(given))
    assert (to[:, len(keys) :] == 0).all()
    return to[:, : len(keys)] if ran else None


def mix(
    library: ctypes.CDLL, processor: str, weights: np.ndarray, values: np.ndarray, to: np.ndarray
) -> np.ndarray | None:
    """`to` with the values added, each as often as its weight says; None where this processor is another one."""
    made = to.copy()
    given = _Mixture(_at(weights), weights.shape[1], len(weights), _at(values), len(values), values.shape[1], _at(made))
    return made if library.add(PROCESSORS[processor], ctypes.byref(given)) else None


class _Narrow(ctypes.Structure):
    _fields_ = (
        *(("rows", ctypes.c_void_p), ("scales", ctypes.c_void_p)),
        *(("count", ctypes.c_int64), ("size", ctypes.c_int64), ("to", ctypes.c_void_p)),
    )


def widen(library: ctypes.CDLL, processor: str, rows: np.ndarray, scales: np.ndarray) -> np.ndarray | None:
    """int8 rows, each by its scale; None where this processor is another one."""
    to = np.full((len(rows) + 1, rows.shape[1]), 7, np.float32)
    given = _Narrow(_at(rows), _at(scales), len(rows), rows.shape[1], _at(to))
    ran = library.widen(PROCESSORS[processor], ctypes.byref(given))
    assert (to[-1] == 7).all(), "numbers were written behind the last row"
    return to[:-1] if ran else None


class _Taps(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_int64)
        for name in ("size", "made", "taps", "stride", "hole", "before", "step", "result_step")
    )  # fmt: skip


class _ChannelWindow(ctypes.Structure):
    _fields_ = (("rows", _Taps), ("columns", _Taps))


def convolve(
    library: ctypes.CDLL,
    processor: str,
    image: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None,
    made: tuple[int, int],
    windows: tuple[tuple[int, int, int], tuple[int, int, int]],
) -> np.ndarray | None:
    """Each channel by itself; None where this processor is another one.

    Args:
        library: What `build_kernels` made.
        processor: Whose kernel.
        image: [height, width, channels].
        weight: [rows, columns, channels].
        bias: [channels].
        made: Height and width of the result.
        windows: For rows and columns the stride, the distance between taps, and the zeros before the first place.
    """
    channels = image.shape[2]
    gap = 3  # behind each place of the result
    packed = np.zeros((*weight.shape[:2], -(-channels // 16) * 16), np.float32)
    packed[:, :, :channels] = weight
    result = np.full((*made, channels + gap), 7, np.float32)
    steps = [[number // 4 for number in array.strides[:2]] for array in (image, result)]
    taps = [
        _Taps(image.shape[i], made[i], weight.shape[i], *windows[i], steps[0][i], steps[1][i]) for i in range(2)
    ]  # fmt: skip
    window = _ChannelWindow(*taps)
    ran = library.convolve(
        *(PROCESSORS[processor], ctypes.byref(window), ctypes.c_int64(channels), _at(image), _at(packed)),
        *(None if bias is None else _at(bias), _at(result)),
    )
    assert not ran or (result[:, :, channels:] == 7).all(), "numbers were written behind the last channel"
    return result[:, :, :channels] if ran else None


def convolve_planes(
    library: ctypes.CDLL,
    processor: str,
    planes: np.ndarray,
    taps: np.ndarray,
    places: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None,
    lanes: int,
) -> np.ndarray | None:
    """[outputs, windows], the windows `lanes` by `lanes` from `places` on; None where this processor is another one.

    Args:
        library: What `build_kernels` made.
        processor: Whose kernel.
        planes: [inputs, numbers].
        taps: [taps], where each lies from a window's beginning on.
        places: [vectors], where the first window of each vector begins.
        weight: [outputs, inputs, taps].
        bias: [outputs].
        lanes: Of the processor.
    """
    gap = 5  # behind the windows of each output
    made = np.full((len(weight), len(places) * lanes + gap), 7, np.float32)
    number = ctypes.c_int64
    ran = library.convolve_planes(
        *(PROCESSORS[processor], _at(planes), number(planes.shape[1]), _at(taps), number(len(taps))),
        *(_at(places), number(len(places)), number(len(planes)), number(len(weight)), _at(weight)),
        *(None if bias is None else _at(bias), _at(made), number(made.shape[1])),
    )
    assert not ran or (made[:, -gap:] == 7).all(), "numbers were written behind the last window"
    return made[:, :-gap] if ran else None


def transpose(library: ctypes.CDLL, rows: np.ndarray, gap: int) -> np.ndarray:
    """The transposed matrix, which `gap` numbers stay between the rows of."""
    made = np.full((rows.shape[1], rows.shape[0] + gap), 7, np.float32)
    steps = ctypes.c_int64(rows.strides[0] // 4), ctypes.c_int64(made.shape[1])
    library.transpose(_at(rows), *map(ctypes.c_int64, rows.shape), steps[0], _at(made), steps[1])
    assert (made[:, rows.shape[0] :] == 7).all()
    return made[:, : rows.shape[0]]


def _at(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
