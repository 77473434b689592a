"""Write an ONNX model without a second copy of its weights in memory.

A serialized model is one protobuf message, and building that message for a model of 440 MB takes 880 MB more.
Protobuf allows the fields of a message in any order, so the small fields are serialized as usual and the weights
are appended straight from the tensors that hold them:

```
ModelProto    every field but graph | 0x3A <length> GraphProto
GraphProto    every field but large initializers | { 0x2A <length> TensorProto }…
TensorProto   dims, data_type, name | 0x4A <length> raw_data
```

Above 1.5 GB (a message may not reach 2 GB) weights go to `model.onnx.data` instead, as ONNX external data. So do those
of an artifact with several methods, whose models then read the same bytes:

```
encode.onnx   embed.weight -> model.onnx.data, bytes 0 to 3199
decode.onnx   embed.weight -> model.onnx.data, bytes 0 to 3199; head.weight -> bytes 3200 to 6399
```
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

from edgex.runtime.engines.onnxruntime.nodes import encode_varint

MODEL_FILE = "model.onnx"
DATA_FILE = "model.onnx.data"
EXTERNAL_DATA_BYTES = 1536 << 20

# (field number << 3) | 2, the wire type of things with a length.
_MODEL_GRAPH = b"\x3a"
_GRAPH_INITIALIZER = b"\x2a"
_TENSOR_RAW_DATA = b"\x4a"

_SMALL_BYTES = 4096
# Of weights in a file of their own; vectors of 512 bits begin where a kernel may load them at once.
_ALIGNMENT = 64


def native_files(model: Any) -> tuple[str, ...]:
    """Names of the files that `write_model` writes."""
    total = sum(value.const_value.nbytes for value in model.graph.initializers.values())
    return (MODEL_FILE, DATA_FILE) if total > EXTERNAL_DATA_BYTES else (MODEL_FILE,)


def write_model(model: Any, folder: Path) -> None:
    """Write an `onnx_ir.Model` into a folder: the files that `native_files` names."""
    import onnx_ir

    _read_contiguously(model)
    if DATA_FILE in native_files(model):
        onnx_ir.save(model, folder / MODEL_FILE, external_data=DATA_FILE)
        return
    with _without_large_initializers(model) as large:
        proto = onnx_ir.serde.serialize_model(model)
    graph = proto.graph.SerializeToString(deterministic=True)
    proto.ClearField("graph")
    with (folder / MODEL_FILE).open("wb") as file:
        file.write(proto.SerializeToString(deterministic=True))
        headers = [_header(name, tensor) for name, tensor in large]
        entries = [
            _GRAPH_INITIALIZER + encode_varint(len(header) + tensor.nbytes) + header
            for header, (_, tensor) in zip(headers, large, strict=True)
        ]
        weights = sum(len(entry) + tensor.nbytes for entry, (_, tensor) in zip(entries, large, strict=True))
        file.write(_MODEL_GRAPH + encode_varint(len(graph) + weights) + graph)
        for entry, (_, tensor) in zip(entries, large, strict=True):
            file.write(entry)
            _write_raw(tensor, file)


def method_file(method: str) -> str:
    """The model file of one of several methods."""
    return f"{method}.onnx"


def method_files(models: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the files that `write_methods` writes."""
    large = any(_is_large(value) for model in models.values() for value in model.graph.initializers.values())
    return (*map(method_file, models), *((DATA_FILE,) if large else ()))


def write_methods(models: Mapping[str, Any], folder: Path) -> None:
    """Write the `onnx_ir.Model` of each method into a folder: the files that `method_files` names.

    Args:
        models: By method; weights of the same bytes are written once, whatever their names.
        folder: Where to.
    """
    import onnx_ir

    places: dict[bytes, int] = {}
    with (folder / DATA_FILE).open("wb") as data:
        for name, model in models.items():
            _read_contiguously(model)
            with _external(model, data, places):
                proto = onnx_ir.serde.serialize_model(model)
            (folder / method_file(name)).write_bytes(proto.SerializeToString(deterministic=True))
    if not places:
        (folder / DATA_FILE).unlink()


@contextmanager
def _external(model: Any, data: IO[bytes], places: dict[bytes, int]) -> Iterator[None]:
    """Let the large initializers name a place in a file while the block runs; what is not there yet is written."""
    import onnx_ir

    kept = {name: value.const_value for name, value in model.graph.initializers.items() if _is_large(value)}
    for name, tensor in kept.items():
        content = tensor.tobytes()
        digest = sha256(content).digest()
        if digest not in places:
            data.write(bytes(-data.tell() % _ALIGNMENT))
            places[digest] = data.tell()
            data.write(content)
        model.graph.initializers[name].const_value = onnx_ir.ExternalTensor(
            DATA_FILE, places[digest], len(content), tensor.dtype, shape=tensor.shape, name=tensor.name
        )
    try:
        yield
    finally:
        for name, tensor in kept.items():
            model.graph.initializers[name].const_value = tensor


def _is_large(value: Any) -> bool:
    """Whether an initializer is written apart from the model's message."""
    import onnx_ir

    tensor = value.const_value
    return tensor.nbytes > _SMALL_BYTES and tensor.dtype is not onnx_ir.DataType.STRING


def _read_contiguously(model: Any) -> None:
    """Let transposed weights be copied as they are written, one at a time.

    The exporter folds a transpose of a constant into a view, and NumPy writes an array that is not contiguous one
    number after the other: 0.1 GB/s, which for BERT-base took longer than all the rest of writing.
    """
    import numpy as np
    import onnx_ir

    def copied(tensor: Any) -> Any:
        return onnx_ir.Tensor(np.ascontiguousarray(tensor.raw), dtype=tensor.dtype, name=tensor.name)

    for value in model.graph.initializers.values():
        tensor = value.const_value
        raw = tensor.raw if isinstance(tensor, onnx_ir.Tensor) else None
        if isinstance(raw, np.ndarray) and not raw.flags.c_contiguous:
            value.const_value = onnx_ir.LazyTensor(
                partial(copied, tensor), dtype=tensor.dtype, shape=tensor.shape, name=tensor.name
            )


@contextmanager
def _without_large_initializers(model: Any) -> Iterator[list[tuple[str, Any]]]:
    """Take the large initializers out of the graph while the block runs; gives (name, tensor) in order."""
    initializers = model.graph.initializers
    everything = dict(initializers)
    large = {name: value for name, value in everything.items() if _is_large(value)}
    for name in large:
        initializers.pop(name)
    try:
        yield [(name, value.const_value) for name, value in large.items()]
    finally:
        initializers.clear()
        initializers.update(everything)


def _header(name: str, tensor: Any) -> bytes:
    """A TensorProto up to where its bytes begin."""
    import onnx

    proto = onnx.TensorProto(name=name, dims=tensor.shape.numpy(), data_type=int(tensor.dtype))
    header: bytes = proto.SerializeToString(deterministic=True)
    return header + _TENSOR_RAW_DATA + encode_varint(tensor.nbytes)


def _write_raw(tensor: Any, file: IO[bytes]) -> None:
    before = file.tell()
    tensor.tofile(file)
    if file.tell() - before != tensor.nbytes:
        raise AssertionError(f"{tensor.name} wrote {file.tell() - before} bytes instead of {tensor.nbytes}")
