"""The nodes of an ONNX file, read without the package onnx: names, operators and tensor names, nothing else.

```
ModelProto  field 7  graph: GraphProto       GraphProto  field 1  node: NodeProto
NodeProto   field 1  input: string…   field 2  output: string…   field 3  name: string   field 4  op_type: string
```
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True)
class OnnxNode:
    """One node of the top graph."""

    name: str
    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def read_onnx_nodes(path: Path) -> list[OnnxNode]:
    """The nodes of the top graph, in order.

    Raises:
        ValueError: The file is no protobuf message.
    """
    with memoryview(path.read_bytes()) as data:
        nodes = []
        for number, graph in _fields(data):
            if number == 7:
                nodes += [_read_node(node) for field, node in _fields(graph) if field == 1]
        return nodes


def _read_node(message: memoryview) -> OnnxNode:
    texts: dict[int, list[str]] = {1: [], 2: [], 3: [], 4: []}
    for number, value in _fields(message):
        if number in texts:
            texts[number].append(str(value, "utf-8"))
    return OnnxNode("".join(texts[3]), "".join(texts[4]), tuple(texts[1]), tuple(texts[2]))


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """The fields that have a length, with their numbers; others are skipped."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == _LENGTH:
            size, at = _varint(message, at)
            if at + size > len(message):
                raise ValueError("a field reaches past its message")
            yield tag >> 3, message[at : at + size]
            at += size
        elif kind == _VARINT:
            _, at = _varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"unknown wire type {kind}")


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(message):
            raise ValueError("a number reaches past its message")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


# Of `a`, of `b`, of `c`, as TensorProto.DataType has them, and the operator. On x86 only the product of unsigned by
# signed bytes has instructions of its own (VNNI), on ARM that of signed ones too: an engine takes what is quickest.
_PRODUCTS = {
    "float32": (1, 1, 1, "MatMul"),
    "int8": (3, 3, 6, "MatMulInteger"),
    "uint8": (2, 3, 6, "MatMulInteger"),
}


def write_product(size: int, dtype: str) -> bytes:
    """A model `c = a @ b` of square matrices, for measuring what the host does at best; `b` is a constant of ones.

    Args:
        size: Rows and columns.
        dtype: Of `a`: `float32`; or `int8` or `uint8`, whose product with an int8 `b` is int32. A constant is packed
            when the session is made, as the weights of a model are.
    """
    left, right, out, kind = _PRODUCTS[dtype]
    node = b"".join((_text(1, "a"), _text(1, "b"), _text(2, "c"), _text(4, kind)))
    one = b"\x00\x00\x80\x3f" if right == 1 else b"\x01"
    constant = _number(1, size) + _number(1, size) + _number(2, right) + _text(8, "b") + _message(9, one * size**2)
    signature = _message(11, _value_info("a", left, size)) + _message(12, _value_info("c", out, size))
    graph = _message(1, node) + _text(2, "product") + _message(5, constant) + signature
    opset = _number(2, 18)
    return _number(1, 9) + _message(7, graph) + _message(8, opset)


def _value_info(name: str, element: int, size: int) -> bytes:
    dims = b"".join(_message(1, _number(1, size)) for _ in range(2))
    tensor = _number(1, element) + _message(2, dims)
    return _text(1, name) + _message(2, _message(1, tensor))


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode())


def _message(field: int, content: bytes) -> bytes:
    return encode_varint(field << 3 | _LENGTH) + encode_varint(len(content)) + content


def _number(field: int, value: int) -> bytes:
    return encode_varint(field << 3 | _VARINT) + encode_varint(value)


def encode_varint(value: int) -> bytes:
    """Protobuf's encoding of an unsigned number: seven bits a byte, the lowest first."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
