"""`debug/source_map.json` as the profiler reads it: operators, what flows between them, sizes for given inputs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgex.errors import ArtifactError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.engines.trace.operators import (
    Category,
    Confidence,
    OperatorRow,
    OperatorTensor,
    SourceText,
    WeightRow,
)
from edgex.runtime.engines.trace.sizes import evaluate_size
from edgex.runtime.support.json.dataclass_shapes import shape_of
from edgex.runtime.support.json.shapes import Anything, Either, Integer, List, Map, Object, Optional, Shape, Text
from edgex.runtime.support.printable import escape_document

FORMAT = "edgex.source_map/1"
SOURCE_MAP_FILE = "debug/source_map.json"
SOURCE_TEXT_FILE = "debug/source_text.json"
WEIGHTS_FILE = "debug/weights.json"

_ITEM_BYTES = {"bool": 1, "bfloat16": 2, "complex64": 8, "complex128": 16}

_MAX_BYTES = 512 << 20
_ANY_TEXT = Text(any_letters=True)
_SIZE = Either(Integer(), _ANY_TEXT)
_NAMES = List(_ANY_TEXT)
_INSTRUCTION = Object({"id": Integer()}, {"ops": _NAMES, "kernel": Optional(_ANY_TEXT)})
# What the delegates write, as far as it is read here.
_SOURCE_MAP = Object(
    {},
    {
        "ops": List(
            Object(
                {"id": _ANY_TEXT, "op": _ANY_TEXT, "module": Optional(_ANY_TEXT), "source": Optional(_ANY_TEXT)},
                {"handle": Optional(Integer()), "delegate": Optional(Integer()), "flops": Optional(_SIZE)}
                | {"inputs": _NAMES, "outputs": _NAMES},
            )
        ),
        "symbols": Map(Object({"input": _ANY_TEXT, "dim": Integer(0, 31), "rest": Integer(), "factor": Integer(1)})),
        "values": Map(Object({"dtype": _ANY_TEXT, "shape": List(Optional(_SIZE))}), _ANY_TEXT),
        "delegates": List(Object({"instruction": Optional(Integer())})),
        "instructions": List(_INSTRUCTION),
        "arena": List(Map(Anything(), _ANY_TEXT)),
        "results": _NAMES,
        "constants": _NAMES,
    },
)

_WEIGHTS = List(
    Object(
        {"name": _ANY_TEXT, "module": Optional(_ANY_TEXT), "dtype": _ANY_TEXT}
        | {"shape": List(Integer(0)), "bytes": Integer(0)}
    )
)

# These read only part of what they are given: as much as they return.
_READ_A_PART = frozenset(
    ("embedding", "gather", "index", "index_select", "slice", "slice_copy", "select", "select_copy", "narrow_copy")
)


@dataclass(frozen=True)
class MappedOperator:
    """An operator of the program that the delegate got.

    Attributes:
        name: Its node's name.
        op: For example `aten.convolution.default`.
        handle: ExecuTorch's debug handle; None elsewhere.
        module: Path of its module, `""` for the model itself.
        source: `file.py:line`.
        delegate: Number of the region that it went into.
        inputs: Values that it reads.
        outputs: Values that it makes.
        flops: Floating-point operations, a size.
    """

    name: str
    op: str
    handle: int | None
    module: str | None
    source: str | None
    delegate: int | None
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    flops: int | str | None


@dataclass(frozen=True)
class OperatorGroup:
    """Operators that ran as one, main operator first; the fields are those of `OperatorRow`."""

    module_paths: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    inputs: tuple[OperatorTensor, ...] = ()
    outputs: tuple[OperatorTensor, ...] = ()
    flops: int | None = None
    bytes: int | None = None

    def row(
        self,
        name: str,
        op_type: str,
        delegate: str | None,
        category: Category,
        confidence: Confidence,
        seconds: float | None,
        count: int = 1,
    ) -> OperatorRow:
        """What ran in their place; see `OperatorRow`. Seconds are those of all `count` runs together."""
        return OperatorRow(
            name=name,
            op_type=op_type,
            delegate=delegate,
            category=category,
            count=count,
            median_seconds=seconds,
            share=None,
            module_path=next(iter(self.module_paths), None),
            module_paths=self.module_paths,
            source=next(iter(self.sources), None),
            sources=self.sources,
            operators=self.operators,
            map_confidence=confidence,
            inputs=self.inputs,
            outputs=self.outputs,
            flops=None if self.flops is None else self.flops * count,
            bytes=None if self.bytes is None else self.bytes * count,
        )


@dataclass(frozen=True)
class SourceMap:
    """A source map for the sizes of one run.

    Attributes:
        operators: By their names, in program order.
        delegates: Regions as the document has them, by instruction.
        instructions: Names of the operators that an instruction runs.
        kernels: The kernel that an instruction calls.
        arena: Planned memory as the document has it.
    """

    operators: Mapping[str, MappedOperator]
    delegates: Mapping[int, Mapping[str, Any]]
    instructions: Mapping[int, Sequence[str]]
    kernels: Mapping[int, str]
    arena: Sequence[Mapping[str, Any]]
    _tensors: Mapping[str, OperatorTensor] = field(repr=False)
    _symbols: Mapping[str, int] = field(repr=False)
    _readers: Mapping[str, frozenset[str]] = field(repr=False)
    _results: frozenset[str] = field(repr=False)
    _constants: frozenset[str] = field(repr=False)

    def group(self, names: Iterable[str]) -> OperatorGroup:
        """Describe operators that ran as one: what goes in from outside, and what comes out and is used outside."""
        members = [self.operators[name] for name in names if name in self.operators]
        inside = {member.name for member in members}
        made = {value for member in members for value in member.outputs}
        read = dict.fromkeys(value for member in members for value in member.inputs if value not in made)
        left = [
            value
            for member in members
            for value in member.outputs
            if value in self._results or self._readers.get(value, frozenset()) - inside
        ]
        inputs = tuple(self._tensors[value] for value in read if value in self._tensors)
        outputs = tuple(self._tensors[value] for value in left if value in self._tensors)
        whole = len(inputs) == len(read) and len(outputs) == len(left) and bool(outputs)
        flops = [count for member in members if (count := evaluate_size(member.flops, self._symbols)) is not None]
        return OperatorGroup(
            module_paths=tuple(dict.fromkeys(m.module for m in members if m.module is not None)),
            sources=tuple(dict.fromkeys(m.source for m in members if m.source is not None)),
            operators=tuple(member.op for member in members),
            inputs=inputs,
            outputs=outputs,
            flops=sum(flops) if flops else None,
            bytes=count_bytes(members[0].op, inputs, outputs) if whole else None,
        )

    def constants_of(self, name: str) -> list[OperatorTensor]:
        """The constants that an operator reads."""
        values = self.operators[name].inputs
        return [self._tensors[value] for value in values if value in self._constants]

    def of_region(self, instruction: int) -> list[MappedOperator]:
        """All operators of a region, in program order."""
        region = self.delegates.get(instruction, {}).get("id")
        return [item for item in self.operators.values() if region is not None and item.delegate == region]


def count_bytes(op: str, inputs: Sequence[OperatorTensor], outputs: Sequence[OperatorTensor]) -> int:
    """The least that an operator must move: inputs and outputs once, of a table only what is read of it."""
    written = sum(map(tensor_bytes, outputs))
    parts = op.replace("::", ".").split(".")
    if (parts[1] if len(parts) > 1 else parts[0]).lower() in _READ_A_PART:
        return 2 * written
    return written + sum(map(tensor_bytes, inputs))


def tensor_bytes(tensor: OperatorTensor) -> int:
    """Bytes of a dense tensor; four-bit integers take half a byte each."""
    count = math.prod(tensor.shape)
    if tensor.dtype in _ITEM_BYTES:
        return count * _ITEM_BYTES[tensor.dtype]
    bits = int("".join(letter for letter in tensor.dtype if letter.isdigit()) or 32)
    return -(-count * bits // 8)


def read_source_map(artifact: Artifact, shapes: Mapping[str, Sequence[int]]) -> SourceMap:
    """Read an artifact's source map; artifacts without one give an empty map.

    Args:
        artifact: An opened artifact.
        shapes: Shape of each input, by its name.

    Raises:
        ArtifactError: The file is damaged.
    """
    return make_source_map(read_debug(artifact, SOURCE_MAP_FILE, _SOURCE_MAP) or {}, shapes)


def make_source_map(document: Mapping[str, Any], shapes: Mapping[str, Sequence[int]]) -> SourceMap:
    """The map of a document; see `read_source_map`."""
    operators = {
        item["id"]: MappedOperator(
            item["id"],
            item["op"],
            item.get("handle"),
            item["module"],
            item["source"],
            item.get("delegate"),
            tuple(item.get("inputs", ())),
            tuple(item.get("outputs", ())),
            item.get("flops"),
        )
        for item in document.get("ops", ())
    }
    symbols: dict[str, int] = {}
    for symbol, place in document.get("symbols", {}).items():
        if place["dim"] < len(shapes.get(place["input"], ())):
            size, rest = divmod(shapes[place["input"]][place["dim"]] - place["rest"], place["factor"])
            if rest == 0:
                symbols[symbol] = size
    tensors = {}
    for name, value in document.get("values", {}).items():
        sizes = [evaluate_size(size, symbols) for size in value["shape"]]
        known = tuple(size for size in sizes if size is not None)
        if len(known) == len(sizes):
            tensors[name] = OperatorTensor(value["dtype"], known)
    readers: dict[str, set[str]] = {}
    for operator in operators.values():
        for value in operator.inputs:
            readers.setdefault(value, set()).add(operator.name)
    return SourceMap(
        operators,
        {item["instruction"]: item for item in document.get("delegates", ()) if item["instruction"] is not None},
        {item["id"]: tuple(item.get("ops", ())) for item in document.get("instructions", ())},
        {item["id"]: item["kernel"] for item in document.get("instructions", ()) if item.get("kernel")},
        tuple(document.get("arena", ())),
        tensors,
        symbols,
        {value: frozenset(names) for value, names in readers.items()},
        frozenset(document.get("results", ())),
        frozenset(document.get("constants", ())) & frozenset(tensors),
    )


def read_source_text(artifact: Artifact) -> tuple[SourceText, ...]:
    """The model's own lines, as they were at export; empty for artifacts without them.

    Raises:
        ArtifactError: The file is damaged.
    """
    return tuple(
        SourceText(piece["file"], piece["first_line"], tuple(piece["lines"]))
        for piece in read_debug(artifact, SOURCE_TEXT_FILE, List(shape_of(SourceText))) or ()
    )


def read_weights(artifact: Artifact) -> tuple[WeightRow, ...]:
    """The model's weights one by one; empty for artifacts that do not list them.

    Raises:
        ArtifactError: The file is damaged.
    """
    return tuple(
        WeightRow(row["name"], row["module"], row["dtype"], tuple(row["shape"]), row["bytes"])
        for row in read_debug(artifact, WEIGHTS_FILE, _WEIGHTS) or ()
    )


def read_debug(artifact: Artifact, file: str, shape: Shape) -> Any:
    """A JSON file of the artifact, its texts escaped; None where it has none.

    Args:
        artifact: An opened artifact.
        file: Its path as in the manifest. Where each method has its own, that of the method that is meant lies in a
            folder of its name: `debug/encode/weights.json`.
        shape: What it must be.

    Raises:
        ArtifactError: It is no JSON of that shape.
    """
    own = file.replace("debug/", f"debug/{artifact.manifest.method.entry}/", 1)
    if any(entry.path == own for entry in artifact.manifest.files):
        file = own
    if not any(entry.path == file for entry in artifact.manifest.files):
        return None
    document = artifact.read_json(file, _MAX_BYTES)
    try:
        shape.check(document, file)
    except ValueError as error:
        raise ArtifactError(
            f"{file} is damaged", artifact.path.name, "export the model again", why=str(error)
        ) from error
    return escape_document(document)
