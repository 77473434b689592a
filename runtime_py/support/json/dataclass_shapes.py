"""The shape of a dataclass's JSON, from its annotations: what `dataclasses.asdict` writes."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from edgex.runtime.support.json.shapes import (
    Anything,
    Either,
    Integer,
    List,
    Map,
    Number,
    Object,
    OneOf,
    Optional,
    Shape,
    Text,
    Truth,
)

# Text of measurements is shown escaped, not refused: a source line may hold a form feed.
_TEXT = Text(any_letters=True, max_letters=1_000_000)
_PLAIN: Mapping[Any, Shape] = {str: _TEXT, int: Integer(), float: Number(), bool: Truth(), Any: Anything()}


@cache
def shape_of(kind: Any) -> Shape:
    """The shape of a value of an annotated type.

    Args:
        kind: A dataclass, or the annotation of one of its fields. Fields with a default may be missing.

    Raises:
        TypeError: JSON has no such type.
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in _PLAIN:
        return _PLAIN[kind]
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        fields = dataclasses.fields(kind)
        must = [f.name for f in fields if f.default is f.default_factory is dataclasses.MISSING]
        shapes = {f.name: shape_of(hints[f.name]) for f in fields}
        return Object(
            {name: shapes[name] for name in must}, {name: s for name, s in shapes.items() if name not in must}
        )
    if origin is typing.Literal:
        return OneOf(arguments)
    if origin in (typing.Union, types.UnionType):
        shapes_of_all = [shape_of(argument) for argument in arguments if argument is not type(None)]
        shape = shapes_of_all[0]
        for other in shapes_of_all[1:]:
            shape = Either(shape, other)
        return Optional(shape) if type(None) in arguments else shape
    if origin is tuple and arguments[-1] is not Ellipsis:
        return List(shape_of(arguments[0]), least=len(arguments), most=len(arguments))
    if origin in (tuple, list, Sequence):
        return List(shape_of(arguments[0]))
    if origin in (dict, Mapping):
        return Map(shape_of(arguments[1]), _TEXT)
    raise TypeError(f"no JSON for {kind}")
