"""Which files an ONNX model takes its weights from, read without the `onnx` package, which a device does not have.

ONNX Runtime opens whatever file beside the model a tensor names. Only files that the manifest lists were checked, so a
model that names another is refused before ONNX Runtime sees it.

Protobuf is a row of fields: a varint of number and kind, then a varint, 4 or 8 bytes, or a length and as many bytes.
The numbers are those of `onnx.proto`; weights inside the model are passed over, not read.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

from edgex.errors import ArtifactError
from edgex.runtime.artifact.artifact import Artifact

# Message -> field -> message below it, as far as tensors can be reached.
_BELOW = {
    "Model": {7: "Graph", 20: "Training", 25: "Function"},
    "Training": {1: "Graph", 2: "Graph"},
    "Graph": {1: "Node", 5: "Tensor", 15: "SparseTensor"},
    "Function": {7: "Node", 11: "Attribute"},
    "Node": {5: "Attribute"},
    "Attribute": {5: "Tensor", 6: "Graph", 10: "Tensor", 11: "Graph", 22: "SparseTensor", 23: "SparseTensor"},
    "SparseTensor": {1: "Tensor", 2: "Tensor"},
    "Tensor": {13: "Entry"},
    "Entry": {1: "text", 2: "text"},
}
_LOCATION = b"location"
_MAX_DEPTH = 200
_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5


def check_external_data(artifact: Artifact, path: Path) -> None:
    """Refuse a model that takes weights from a file that the manifest does not list.

    Args:
        artifact: The artifact.
        path: Its .onnx file.

    Raises:
        ArtifactError: It does, or it is not an ONNX model.
    """
    listed = {entry.path for entry in artifact.manifest.files}
    folder = path.parent.relative_to(artifact.path)
    try:
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            locations = set(_find_locations(data, 0, len(data), "Model", _MAX_DEPTH))
    except (OSError, ValueError, IndexError) as error:
        raise ArtifactError(
            f"{path.name} is not an ONNX model", artifact.path.name, "export the model again", why=str(error)
        ) from error
    for location in sorted(locations):
        if (folder / location).as_posix() not in listed:
            raise ArtifactError(
                f"{path.name} takes weights from {location!r}, which the manifest does not list",
                artifact.path.name,
                "do not use this artifact",
            )


def _find_locations(data: mmap.mmap, start: int, end: int, message: str, depth: int) -> Iterator[str]:
    """Values of `location` in all tensors below a message that fills `data[start:end]`."""
    if depth == 0:
        raise ValueError("it is nested too deeply")
    below = _BELOW[message]
    entry: dict[int, bytes] = {}
    for field, at, stop in _fields(data, start, end):
        kind = below.get(field)
        if kind == "text":
            entry[field] = data[at:stop]
        elif kind is not None:
            yield from _find_locations(data, at, stop, kind, depth - 1)
    if entry.get(1) == _LOCATION:
        yield entry.get(2, b"").decode()


def _fields(data: mmap.mmap, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Number, begin and end of each field that holds bytes."""
    at = start
    while at < end:
        key, at = _varint(data, at, end)
        kind = key & 7
        if kind == _VARINT:
            _, at = _varint(data, at, end)
        elif kind == _BYTES:
            size, at = _varint(data, at, end)
            if size > end - at:
                raise ValueError("a field is longer than its message")
            yield key >> 3, at, at + size
            at += size
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
            at += 8 if kind == _EIGHT_BYTES else 4
        else:
            raise ValueError(f"a field of kind {kind}")
    if at != end:
        raise ValueError("a field is longer than its message")


def _varint(data: mmap.mmap, at: int, end: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            raise ValueError("it ends within a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a number has more than 64 bits")
