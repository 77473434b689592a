"""A region as bytes: what the backend's `parser.cpp` reads. The same region gives the same bytes on every host."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from edgex.delegates.onednn.layout.sizes import Size
from edgex.delegates.onednn.plan.graph_api import ATTRIBUTES, DTYPES, OP_KINDS, OWN_KINDS
from edgex.delegates.onednn.plan.values import (
    CACHED_ATTENTION,
    CACHED_ATTENTION_INT8,
    EMBEDDING,
    GATHER,
    INDICES,
    LOW_BIT_LINEAR,
    MASKS,
    OWN_CONCAT,
    OWN_UNARY,
    SCATTERS,
    WHERE,
    Operation,
    Refused,
    Value,
)

_MAGIC = b"EDGEXDNN"
# The first version whose readers know an operator of the backend's own; all know the others.
_VERSION, _OWN_VERSIONS = (
    1,
    {
        **dict.fromkeys(OWN_KINDS, 4),
        **{EMBEDDING: 3, WHERE: 5, GATHER: 5},
        **dict.fromkeys((CACHED_ATTENTION, OWN_CONCAT, *LOW_BIT_LINEAR.values()), 6),
        CACHED_ATTENTION_INT8: 7,
        **dict.fromkeys(OWN_UNARY.values(), 8),
        **dict.fromkeys(SCATTERS, 9),
    },
)
_HEADER_BYTES = 48
_ALIGNMENT = 64
_STEPS = {"constant": 0, "symbol": 1, "Add": 2, "Mul": 3, "FloorDiv": 4, "Mod": 5, "PythonMod": 5, "Max": 6, "Min": 7}
# oneDNN has a number for the first only.
_OTHER_DTYPES = {"s32": 4, "s64": 1 << 16, "bool": (1 << 16) + 1}
_TORCH_DTYPES = {
    **{"f32": "torch.float32", "bf16": "torch.bfloat16", "s8": "torch.int8", "u8": "torch.uint8"},
    **{dtype: name for name, dtype in (INDICES | MASKS).items()},
}
_ARENA, _ARGUMENT, _CONSTANT, _ALIAS = range(4)
_FNV_START, _FNV_PRIME, _MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1


@dataclass(frozen=True)
class Signature:
    """What crosses the region's signature.

    Attributes:
        inputs: For each delegate argument that is an input its value, None for numbers.
        outputs: The value of each output, its root made by an operator.
        hints: The example's size for each input and dimension that is not fixed: (argument, dimension) -> size.
    """

    inputs: tuple[Value | None, ...]
    outputs: tuple[Value, ...]
    hints: dict[tuple[int, int], int]


def encode_plan(operations: Sequence[Operation], signature: Signature) -> bytes:
    """The plan's bytes.

    Raises:
        Refused: A size inside depends on one that no input of the region shows.
    """
    return _Encoder(operations, signature).encode()


@dataclass
class _Encoder:
    operations: Sequence[Operation]
    signature: Signature
    _ids: dict[Value, int] = field(default_factory=dict)
    _symbols: dict[Any, int] = field(default_factory=dict)
    _symbol_places: list[tuple[int, int]] = field(default_factory=list)
    _solved: dict[Any, list[tuple[int, int]]] = field(default_factory=dict)
    _expressions: dict[Any, int] = field(default_factory=dict)
    _codes: list[bytes] = field(default_factory=list)
    _constants: list[Any] = field(default_factory=list)
    _constants_bytes: int = 0
    _known: dict[bytes, int] = field(default_factory=dict)

    def encode(self) -> bytes:
        self._find_symbols()
        arguments = [*self.signature.inputs, *self.signature.outputs]
        places = {value.root: i for i, value in enumerate(arguments) if value is not None}
        for value in arguments:
            self._number(value)
        for operation in self.operations:
            for value in (*operation.inputs, operation.output):
                self._number(value)
        values = [self._encode_value(value, places) for value in self._ids]
        operations = [self._encode_operation(operation) for operation in self.operations]
        body = b"".join(
            (
                _u32(len(self._symbol_places)),
                *(_u32(*place) + _i64(self.signature.hints[place]) for place in self._symbol_places),
                _u32(len(self._codes)),
                *self._codes,
                _u32(len(self.signature.inputs)),
                _u32(len(arguments)),
                _i64(*(-1 if value is None else self._ids[value] for value in arguments)),
                _u32(len(values)),
                *values,
                _u32(len(operations)),
                *operations,
            )
        )
        start = _aligned(_HEADER_BYTES + len(body))
        version = max((_OWN_VERSIONS.get(operation.kind, _VERSION) for operation in self.operations), default=_VERSION)
        header = _MAGIC + _u32(version, 0) + struct.pack("<4Q", len(body), start, self._constants_bytes, checksum(body))
        # Joined once, from the memory of the tensors themselves: weights may be gigabytes.
        return b"".join(((header + body).ljust(start, b"\0"), *self._constants))

    def _find_symbols(self) -> None:
        """Each size of an input that is not fixed, whatever its expression, is a symbol where it is first seen."""
        for position, value in enumerate(self.signature.inputs):
            for dim, size in enumerate(() if value is None else value.shape):
                if not isinstance(size, int) and size not in self._symbols:
                    self._symbols[size] = len(self._symbols)
                    self._symbol_places.append((position, dim))
        for size in list(self._symbols):
            self._solve(size)

    def _solve(self, size: Any) -> None:
        """A size 2*n + 1 of an input tells n too, in which torch writes the sizes that follow."""
        unknown = [symbol for symbol in size.free_symbols if symbol not in self._symbols and symbol not in self._solved]
        if len(unknown) != 1 or len(size.free_symbols) != 1:
            return
        factor, rest = size.coeff(unknown[0], 1), size.subs(unknown[0], 0)
        if factor.is_Integer and rest.is_Integer and factor > 0 and (factor * unknown[0] + rest - size).expand() == 0:
            code = [(_STEPS["symbol"], self._symbols[size]), (_STEPS["constant"], -int(rest)), (_STEPS["Add"], 0)]
            self._solved[unknown[0]] = [*code, (_STEPS["constant"], int(factor)), (_STEPS["FloorDiv"], 0)]

    def _number(self, value: Value | None) -> None:
        """Give a value its number; a view's memory comes before it."""
        if value is not None:
            self._ids.setdefault(value.root, len(self._ids))
            self._ids.setdefault(value, len(self._ids))

    def _encode_value(self, value: Value, places: dict[Value, int]) -> bytes:
        layout = value.layout
        assert layout is not None
        storage, index, start, count = _ARENA, 0, 0, 0
        if value.parent is not None:
            storage, index = _ALIAS, self._ids[value.root]
        elif value in places:
            storage, index = _ARGUMENT, places[value]
        elif value.tensor is not None:
            storage = _CONSTANT
            start, count = self._add_constant(value)
        opaque = value.opaque and storage == _ARENA
        return b"".join(
            (
                _u32((DTYPES | _OTHER_DTYPES)[value.dtype], int(opaque), len(value.shape)),
                _i64(*map(self._size, value.shape), *map(self._size, layout.strides)),
                _u32(storage, index),
                struct.pack("<2Q", start, count),
                _i64(self._size(layout.offset)),
            )
        )

    def _add_constant(self, value: Value) -> tuple[int, int]:
        from edgex.delegates.graph.schema import content_of

        assert value.tensor is not None
        tensor = value.tensor()
        expected = _TORCH_DTYPES[value.dtype]
        assert str(tensor.dtype) == expected, f"a constant of {tensor.dtype} where {expected} was planned"
        content = content_of(tensor).numpy()
        # What several operators read, under whatever names, is there once.
        key = sha256(content.data).digest()
        if key not in self._known:
            self._known[key] = _aligned(self._constants_bytes)
            self._constants += [bytes(self._known[key] - self._constants_bytes), content]
            self._constants_bytes = self._known[key] + content.nbytes
        return self._known[key], content.nbytes

    def _encode_operation(self, operation: Operation) -> bytes:
        inputs = [self._ids[value] for value in operation.inputs]
        attributes = [_encode_attribute(name, content) for name, content in operation.attributes.items()]
        return b"".join(
            (
                _u32((OP_KINDS | OWN_KINDS)[operation.kind], operation.handle, int(operation.alone)),
                _text(operation.name),
                _u32(len(inputs), *inputs),
                _u32(1, self._ids[operation.output]),
                _u32(len(attributes)),
                *attributes,
            )
        )

    def _size(self, size: Size) -> int:
        """A size as the plan holds it: itself, or the number of its expression, below zero."""
        if isinstance(size, int):
            return size
        if size.is_Integer:
            return int(size)
        if size not in self._expressions:
            code = list(self._postfix(size))
            self._expressions[size] = len(self._codes)
            self._codes.append(_u32(len(code)) + b"".join(_u32(step) + _i64(operand) for step, operand in code))
        return -(self._expressions[size] + 1)

    def _postfix(self, size: Any) -> list[tuple[int, int]]:
        if size in self._symbols:
            return [(_STEPS["symbol"], self._symbols[size])]
        if size in self._solved:
            return self._solved[size]
        if size.is_Integer:
            return [(_STEPS["constant"], int(size))]
        kind = type(size).__name__
        if kind == "Pow" and size.exp.is_Integer and size.exp > 0:
            base = self._postfix(size.base)
            return base + [*base, (_STEPS["Mul"], 0)] * (int(size.exp) - 1)
        if kind not in _STEPS or not size.args:
            raise Refused("dynamic_shape", f"the size {size} cannot be computed from the sizes of a region's inputs")
        code = self._postfix(size.args[0])
        for operand in size.args[1:]:
            code = [*code, *self._postfix(operand), (_STEPS[kind], 0)]
        return code


def checksum(data: bytes) -> int:
    """FNV-1a of 64 bits."""
    value = _FNV_START
    for byte in data:
        value = ((value ^ byte) * _FNV_PRIME) & _MASK
    return value


def _encode_attribute(name: str, content: Any) -> bytes:
    code = ATTRIBUTES[name]
    if isinstance(content, str):
        return _u32(code, 5) + _text(content)
    if isinstance(content, bool):
        return _u32(code, 4, 1) + _i64(int(content))
    if isinstance(content, float):
        return _u32(code, 0, 1) + struct.pack("<f", content)
    if isinstance(content, list) and isinstance(content[0], float):
        return _u32(code, 1, len(content)) + struct.pack(f"<{len(content)}f", *content)
    if isinstance(content, list):
        return _u32(code, 3, len(content)) + _i64(*content)
    return _u32(code, 2, 1) + _i64(content)


def _aligned(position: int) -> int:
    return -(-position // _ALIGNMENT) * _ALIGNMENT


def _text(text: str) -> bytes:
    data = text.encode()
    return _u32(len(data)) + data


def _u32(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


def _i64(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}q", *values)
