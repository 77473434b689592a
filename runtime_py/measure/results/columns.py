"""Dataclasses as columns of Parquet and back, from their annotations: structs nest, what has free keys is a map.

A mapping of anything is a column of JSON text: Parquet has no type for it.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    """Annotations by field, evaluated once: that is slow, and rows are many."""
    return typing.get_type_hints(kind)


def schema_of(kind: type) -> pyarrow.Schema:
    """The columns of a dataclass."""
    import pyarrow

    hints = _hints(kind)
    return pyarrow.schema([(field.name, _type_of(hints[field.name])) for field in dataclasses.fields(kind)])


def to_columns(value: Any, kind: Any) -> Any:
    """What `dataclasses.asdict` made of a value, as Parquet takes it."""
    if value is None:
        return None
    kind = _plain(kind)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = _hints(kind)
        return {field.name: to_columns(value[field.name], hints[field.name]) for field in dataclasses.fields(kind)}
    if typing.get_origin(kind) is tuple:
        return [to_columns(entry, typing.get_args(kind)[0]) for entry in value]
    if typing.get_origin(kind) is Mapping:
        return json.dumps(value, sort_keys=True) if _is_free(kind) else sorted(value.items())
    return value


def from_columns(value: Any, kind: Any) -> Any:
    """The inverse of `to_columns`; columns that a dataset of an earlier version lacks are left out."""
    if value is None:
        return None
    kind = _plain(kind)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = _hints(kind)
        fields = [field.name for field in dataclasses.fields(kind) if field.name in value]
        return {name: from_columns(value[name], hints[name]) for name in fields}
    if typing.get_origin(kind) is tuple:
        return [from_columns(entry, typing.get_args(kind)[0]) for entry in value]
    if typing.get_origin(kind) is Mapping:
        return json.loads(value) if _is_free(kind) else dict(value)
    return value


def _type_of(kind: Any) -> pyarrow.DataType:
    import pyarrow

    kind = _plain(kind)
    simple = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64(), bool: pyarrow.bool_()}
    if kind in simple:
        return simple[kind]
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = _hints(kind)
        return pyarrow.struct([(field.name, _type_of(hints[field.name])) for field in dataclasses.fields(kind)])
    if typing.get_origin(kind) is typing.Literal:
        return pyarrow.string()
    if typing.get_origin(kind) is tuple:
        return pyarrow.list_(_type_of(typing.get_args(kind)[0]))
    if typing.get_origin(kind) is Mapping:
        return (
            pyarrow.string() if _is_free(kind) else pyarrow.map_(pyarrow.string(), _type_of(typing.get_args(kind)[1]))
        )
    raise TypeError(f"no column for {kind}")


def _plain(kind: Any) -> Any:
    """`X` of `X | None`: every column may be null."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        (kind,) = (argument for argument in typing.get_args(kind) if argument is not type(None))
    return kind


def _is_free(kind: Any) -> bool:
    return typing.get_args(kind)[1] is Any
