"""The JSON of a `.pt2`, checked against torch's own schema: types of all fields, and a grammar for each text.

The walk follows the dataclasses of `torch._export.serde.schema`, so it knows every field that torch reads. A text for
which no grammar is given here is refused: a field that a later torch adds is closed until someone has looked at what
torch does with it.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import types
import typing
from collections.abc import Callable
from functools import cache
from typing import Any

from torch._export.serde import schema
from torch._export.serde.union import _Union

from edgex.runtime.engines.torch.pt2.expressions import check_guard, check_size, check_symbol
from edgex.runtime.engines.torch.pt2.operators import check_operator
from edgex.runtime.engines.torch.pt2.words import (
    check_container,
    check_device,
    check_metadata,
    check_name,
    check_path,
    check_payload,
    check_text,
    check_word,
)

Check = Callable[[Any], None]

# The grammar of each text, by class and field; of a mapping's keys as `field{}`.
TEXTS: dict[str, Callable[[str], None]] = {
    "Device.type": check_device,
    "SymExpr.expr_str": check_size,
    "SymIntArgument.as_name": check_name,
    "SymFloatArgument.as_name": check_name,
    "SymBoolArgument.as_name": check_name,
    "TensorArgument.name": check_name,
    "TokenArgument.name": check_name,
    "GraphArgument.name": check_name,
    "Argument.as_string": check_text,
    "Argument.as_strings": check_text,
    "Argument.as_operator": check_operator,
    "Argument.as_string_to_argument{}": check_name,
    "NamedArgument.name": check_name,
    "Node.target": check_operator,
    "Node.metadata{}": check_name,
    "Node.name": check_name,
    "Graph.tensor_values{}": check_name,
    "Graph.sym_int_values{}": check_name,
    "Graph.sym_bool_values{}": check_name,
    "Graph.sym_float_values{}": check_name,
    "Graph.custom_obj_values{}": check_name,
    "ConstantValue.as_string": check_path,
    "InputToConstantInputSpec.name": check_name,
    "InputToParameterSpec.parameter_name": check_path,
    "InputToBufferSpec.buffer_name": check_path,
    "InputToTensorConstantSpec.tensor_constant_name": check_path,
    "BufferMutationSpec.buffer_name": check_path,
    "ParameterMutationSpec.parameter_name": check_path,
    "GradientToParameterSpec.parameter_name": check_path,
    "GradientToUserInputSpec.user_input_name": check_name,
    "UserInputMutationSpec.user_input_name": check_name,
    "ModuleCallSignature.in_spec": check_container,
    "ModuleCallSignature.out_spec": check_container,
    "ModuleCallSignature.forward_arg_names": check_name,
    "ModuleCallEntry.fqn": check_path,
    "NamedTupleDef.field_names": check_name,
    "GraphModule.metadata{}": check_name,
    "GraphModule.treespec_namedtuple_fields{}": check_path,
    "ExportedProgram.opset_version{}": check_word,
    "ExportedProgram.range_constraints{}": check_symbol,
    "ExportedProgram.verifiers": check_word,
    "ExportedProgram.torch_version": check_word,
    "ExportedProgram.guards_code": check_guard,
    "PayloadConfig.config{}": check_path,
    "PayloadMeta.path_name": check_payload,
}
# Objects that torch unpickles or looks up by class.
REFUSED = (schema.CustomObjArgument, schema.InputToCustomObjSpec)
# Mappings whose values have a grammar for each key.
_METADATA = ("Node.metadata", "GraphModule.metadata")
_INTEGER_LIMIT = 1 << 63


def check_program(document: Any) -> None:
    """Let `models/model.json` through.

    Raises:
        ValueError: It holds something that torch never writes, or that torch would evaluate.
    """
    _check_of(schema.ExportedProgram, "ExportedProgram")(document)


def check_payloads(document: Any) -> None:
    """Let `model_weights_config.json` or `model_constants_config.json` through.

    Raises:
        ValueError: It names an object that torch would unpickle, or is something else.
    """
    _check_of(schema.PayloadConfig, "PayloadConfig")(document)
    for name, entry in document["config"].items():
        if entry["use_pickle"] or entry["tensor_meta"] is None:
            raise ValueError(f"{name} is pickled, and a pickle can execute code")


@cache
def _check_of(kind: Any, field: str) -> Check:
    """The check of one field's value; `field` is `Class.name` for a text's grammar."""
    if kind in REFUSED:
        return _refuse(field)
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        (inner,) = [argument for argument in typing.get_args(kind) if argument is not type(None)]
        check = _check_of(inner, field)
        return lambda value: None if value is None else check(value)
    if typing.get_origin(kind) is list:
        return _check_of_list(_check_of(typing.get_args(kind)[0], field), field)
    if typing.get_origin(kind) is dict:
        return _check_of_mapping(kind, field)
    if kind is str:
        return _check_of_text(field)
    if dataclasses.is_dataclass(kind):
        return _check_of_object(kind, field)
    return _check_of_number(kind, field)


def _check_of_object(kind: Any, field: str) -> Check:
    """A dataclass: its fields and no others; a union has exactly one of them."""
    hints = {name: hint for name, hint in typing.get_type_hints(kind).items() if not name.startswith("_")}
    checks: dict[str, Check] = {}
    is_union = issubclass(kind, _Union)

    def check(value: Any) -> None:
        if not isinstance(value, dict) or (is_union and len(value) != 1):
            raise ValueError(f"{field} is no {kind.__name__}")
        for name, inner in value.items():
            if name not in checks:  # made when first met: a graph may hold graphs
                if name not in hints:
                    raise ValueError(f"{kind.__name__} has no field {name!r}")
                checks[name] = _check_of(hints[name], f"{kind.__name__}.{name}")
            checks[name](inner)

    return check


def _check_of_list(item: Check, field: str) -> Check:
    def check(value: Any) -> None:
        if not isinstance(value, list):
            raise ValueError(f"{field} is no list")
        for inner in value:
            item(inner)

    return check


def _check_of_mapping(kind: Any, field: str) -> Check:
    check_key = _check_of_text(f"{field}{{}}")
    noted = field in _METADATA
    check_value = _check_of(typing.get_args(kind)[1], field) if not noted else None

    def check(value: Any) -> None:
        if not isinstance(value, dict):
            raise ValueError(f"{field} is no mapping")
        for key, inner in value.items():
            check_key(key)
            if check_value is not None:
                check_value(inner)
            elif isinstance(inner, str):
                check_metadata(key, inner)
            else:
                raise ValueError(f"{field} holds something else than text")

    return check


def _check_of_text(field: str) -> Check:
    grammar = TEXTS.get(field)
    if grammar is None:
        return _refuse(field)

    def check(value: Any) -> None:
        if not isinstance(value, str):
            raise ValueError(f"{field} is no text")
        try:
            grammar(value)
        except ValueError as error:
            raise ValueError(f"{field} is {value[:80]!r}: {error}") from None

    return check


def _check_of_number(kind: Any, field: str) -> Check:
    def check(value: Any) -> None:
        if kind is bool:
            good = isinstance(value, bool)
        elif kind is float:
            # torch writes infinity and NaN as text.
            good = value in ("Infinity", "-Infinity", "NaN") if isinstance(value, str) else _is_finite(value)
        elif kind is int or issubclass(kind, enum.IntEnum):
            good = type(value) is int and -_INTEGER_LIMIT <= value < _INTEGER_LIMIT
        else:
            good = False
        if not good:
            raise ValueError(f"{field} is {value!r:.80}, not of type {kind.__name__}")

    return check


def _is_finite(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _refuse(field: str) -> Check:
    def check(_: Any) -> None:
        raise ValueError(f"{field} is nothing that edgex lets a .pt2 hold")

    return check
