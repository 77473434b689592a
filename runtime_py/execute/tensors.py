"""Tensors on their way to a device and back: a line of text for each, then their values, one set after the other.

```
edgex-tensors 2
float32 1x3x8x8 x
int64 scalar step
<768 bytes><8 bytes>
```

The native runner reads and writes the same (`runner/tensors.h`). bfloat16 has no NumPy dtype: arrays hold its values as
float32, and so does everything but the file.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from edgex.runtime.artifact.specs import NUMPY_DTYPES, TensorSpec

_MAGIC = b"edgex-tensors "


def pack_tensors(specs: Sequence[TensorSpec], values: Mapping[str, np.ndarray]) -> bytes:
    """One set, in the order of `specs`.

    Args:
        specs: Names and dtypes.
        values: Arrays by name, of the specs' NumPy dtypes.
    """
    head = [f"{_MAGIC.decode()}{len(specs)}\n"]
    parts = []
    for spec in specs:
        array = values[spec.name]
        sizes = "x".join(map(str, array.shape)) or "scalar"
        head.append(f"{spec.dtype} {sizes} {spec.name}\n")
        parts.append(_narrow(array) if spec.dtype == "bfloat16" else np.ascontiguousarray(array).tobytes())
    return "".join(head).encode() + b"".join(parts)


def unpack_tensors(data: bytes | mmap.mmap, *, copy: bool = True) -> list[dict[str, np.ndarray]]:
    """All sets of a file.

    Args:
        data: The file.
        copy: Arrays of their own; without, they lie in `data`, read-only and not aligned.

    Raises:
        ValueError: It is no such file, or ends early.
    """
    sets, at = [], 0
    while at < len(data):
        found, at = _unpack_one(data, at, copy)
        sets.append(found)
    return sets


def _unpack_one(data: bytes | mmap.mmap, at: int, copy: bool) -> tuple[dict[str, np.ndarray], int]:
    head, at = _line(data, at)
    if not head.startswith(_MAGIC):
        raise ValueError("this is no file of tensors")
    entries = []
    for _ in range(int(head[len(_MAGIC) :])):
        line, at = _line(data, at)
        dtype, sizes, name = line.decode().split(" ", 2)
        entries.append((dtype, () if sizes == "scalar" else tuple(map(int, sizes.split("x"))), name))
    found = {}
    for dtype, shape, name in entries:
        stored = np.dtype(np.uint16) if dtype == "bfloat16" else NUMPY_DTYPES[dtype]
        count = int(np.prod(shape, dtype=np.int64))
        if at + count * stored.itemsize > len(data):
            raise ValueError("the file of tensors ends early")
        array = np.frombuffer(data, stored, count, at).reshape(shape)
        found[name] = _widen(array) if dtype == "bfloat16" else array.copy() if copy else array
        at += count * stored.itemsize
    return found, at


def _line(data: bytes | mmap.mmap, at: int) -> tuple[bytes, int]:
    end = data.find(b"\n", at)
    if end < 0:
        raise ValueError("the file of tensors ends early")
    return data[at:end], end + 1


def _narrow(array: np.ndarray) -> bytes:
    """float32 as bfloat16: rounded to nearest, ties to even, NaN kept."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1)))) >> 16
    return np.where(np.isnan(array), np.uint32(0x7FC0), rounded).astype(np.uint16).tobytes()


def _widen(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def describe_inputs(specs: Iterable[TensorSpec]) -> list[str]:
    """The runner's `--input` of each: `x:float32:batch=1..8,6`."""
    described = []
    for spec in specs:
        dims = ",".join(str(dim) for dim in spec.shape)
        described.append(f"{spec.name}:{spec.dtype}:{dims or 'scalar'}")
    return described
