"""Read the arrays of an `.npz` file row by row: a data set may be larger than the memory."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np

from edgex.errors import UsageError, nearest_name


def open_rows(path: Path, names: list[str], stack: ExitStack) -> list[Iterator[np.ndarray]]:
    """For each name an iterator over the rows of its array.

    Args:
        path: The `.npz` file.
        names: Which arrays; the file must hold these and no others, all with the same number of rows.
        stack: Keeps the file open.

    Raises:
        UsageError: The arrays are others.
        OSError, ValueError, zipfile.BadZipFile: The file is damaged; also while rows are read.
    """
    archive = stack.enter_context(zipfile.ZipFile(path))
    held = [member.removesuffix(".npy") for member in archive.namelist()]
    if missing := [name for name in names if name not in held]:
        raise UsageError(
            f"{path.name} has no array for the input {missing[0]!r}",
            why=f"it holds {', '.join(held) or 'nothing'}",
            fix=f"name the arrays after the inputs: {', '.join(names)}",
        )
    if unknown := [name for name in held if name not in names]:
        raise UsageError(f"{path.name}: there is no input {unknown[0]!r}", why=nearest_name(unknown[0], names))
    counts: dict[str, int] = {}
    rows = []
    for name in names:
        stream = stack.enter_context(archive.open(f"{name}.npy"))
        shape, fortran, dtype = _read_header(stream)
        if not shape or fortran or dtype.hasobject:
            raise UsageError(
                f"{path.name}: the array {name!r} cannot be read sample by sample",
                why=f"dtype {dtype}, shape {shape}, {'Fortran' if fortran else 'C'} order",
                fix="write numbers in C order (np.ascontiguousarray), samples along the first axis",
            )
        counts[name] = shape[0]
        rows.append(_rows_of(stream, shape, dtype))
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name}: {count}" for name, count in counts.items())
        raise UsageError(f"{path.name}: the arrays hold different numbers of samples", why=listed)
    return rows


def _read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    return shape, fortran and len(shape) > 1, dtype


def _rows_of(stream: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any]) -> Iterator[np.ndarray]:
    size = math.prod(shape[1:]) * dtype.itemsize
    for _ in range(shape[0]):
        data = stream.read(size)
        if len(data) < size:
            raise ValueError("the file ends before its last sample")
        # A copy: PyTorch wants memory that it may write to.
        yield np.frombuffer(data, dtype).reshape(shape[1:]).astype(dtype.newbyteorder("="))
