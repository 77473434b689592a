"""Example inputs: what the user's file gives, or random ones of given shapes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from edgex.delegates.graph.torch_internals import pytree
from edgex.errors import UsageError, nearest_name
from edgex.export.source.leaves import in_signature_order, name_inputs, name_positional, register_dataclasses

# Positional and keyword arguments of one call of forward.
Call = tuple[tuple[Any, ...], dict[str, Any]]

SEED = 0


def read_call(value: Any, name: str) -> Call:
    """Read example inputs as a file gives them.

    Args:
        value: A tuple or list (positional), a dict (by name), `(tuple, dict)` (both), or one tensor.
        name: What gave it, for the error.

    Raises:
        UsageError: It is none of these.
    """
    if isinstance(value, torch.Tensor):
        return (value,), {}
    if isinstance(value, Mapping):
        return (), _by_name(value, name)
    if isinstance(value, (tuple, list)):
        if len(value) == 2 and isinstance(value[0], (tuple, list)) and isinstance(value[1], Mapping):
            return tuple(value[0]), _by_name(value[1], name)
        return tuple(value), {}
    raise UsageError(
        f"{name} gives an object of type {type(value).__name__} as example inputs",
        fix="give a tuple of positional arguments, a dict of keyword arguments, or (tuple, dict)",
    )


def read_arguments(args: Any, kwargs: Any) -> Call:
    """Read example inputs as Python code hands them over, in the forms that a file has.

    Args:
        args: By position in a tuple or list; beside no `kwargs` also one tensor, a dict (by name) or `(tuple, dict)`.
        kwargs: By name; None where `args` are all.

    Raises:
        UsageError: They have none of these forms.
    """
    if kwargs is None:
        return read_call(args, "args")
    if not isinstance(kwargs, Mapping):
        raise UsageError(f"kwargs is of type {type(kwargs).__name__}", fix="give a dict of example inputs by name")
    if isinstance(args, torch.Tensor):
        args = (args,)
    if not isinstance(args, (tuple, list)):
        raise UsageError(
            f"args is of type {type(args).__name__} beside kwargs", fix="give a tuple of example inputs by position"
        )
    return tuple(args), _by_name(kwargs, "kwargs")


def _by_name(value: Mapping[Any, Any], name: str) -> dict[str, Any]:
    wrong = [key for key in value if not isinstance(key, str)]
    if wrong:
        raise UsageError(
            f"{name} gives keyword arguments with the key {wrong[0]!r}",
            fix="if forward takes a dict, put it into a tuple: ({...},)",
        )
    return dict(value)


def apply_input_shapes(
    module: torch.nn.Module, call: Call, shapes: Mapping[str, tuple[int, ...]]
) -> tuple[Call, list[str]]:
    """Draw float example inputs anew where another shape is asked for.

    Returns:
        The call, and a notice for each input drawn.

    Raises:
        UsageError: There is no such input, or it is not a float tensor.
    """
    args, kwargs = call
    register_dataclasses((args, kwargs))
    signature = inspect.signature(module.forward)
    kwargs = in_signature_order(signature, kwargs)
    leaves = name_inputs(name_positional(signature, len(args)), args, kwargs)
    tensors = [leaf.name for leaf in leaves if leaf.is_tensor]
    _refuse_unknown(shapes, tensors)
    generator = torch.Generator().manual_seed(SEED)
    values, notices = [], []
    for leaf in leaves:
        value = leaf.value
        if leaf.name in shapes:
            if not value.is_floating_point():
                raise UsageError(
                    f"--input-shape {leaf.name}: the input is {value.dtype}, and random integers may be out of range",
                    fix="give example inputs of that shape in the model's file",
                )
            value = torch.randn(shapes[leaf.name], generator=generator).to(value.dtype)
            notices.append(f"input {leaf.name} is random, with shape {tuple(value.shape)} and seed {SEED}")
        values.append(value)
    args, kwargs = pytree.tree_unflatten(values, pytree.tree_structure((args, kwargs)))
    return (args, kwargs), notices


def make_inputs(
    module: torch.nn.Module, shapes: Mapping[str, tuple[int, ...]], description: str
) -> tuple[Call, list[str]]:
    """Random float32 inputs by the names of forward's parameters.

    Raises:
        UsageError: A parameter without a default has no shape, or a shape has no parameter.
    """
    parameters = inspect.signature(module.forward).parameters
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    names = [name for name, parameter in parameters.items() if parameter.kind not in variadic]
    takes_any = any(p.kind == inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    if not takes_any:
        _refuse_unknown(shapes, names)
    missing = [name for name in names if name not in shapes and parameters[name].default is inspect.Parameter.empty]
    if missing:
        raise UsageError(f"{description} has no example inputs for {', '.join(missing)}", fix=_advise_inputs(missing))
    generator = torch.Generator().manual_seed(SEED)
    made = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    only_positional = [n for n in made if n in parameters and parameters[n].kind == inspect.Parameter.POSITIONAL_ONLY]
    args = tuple(made.pop(name) for name in only_positional)
    listed = ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
    notice = [f"the example inputs are random float32 with seed {SEED}: {listed}"] if shapes else []
    return (args, made), notice


# Parameters that take whole numbers, as decoders call them: ids `[1, n]`, and where a text goes on, `[1]`.
_IDS = ("tokens", "ids", "input_ids", "token_ids", "idx")
_POSITIONS = ("position", "pos", "input_pos", "start_pos", "cache_position")


def _advise_inputs(missing: Sequence[str]) -> str:
    """What to add where example inputs are missing."""
    whole = {**dict.fromkeys(_IDS, "torch.zeros(1, 8, dtype=torch.int64)")}
    whole |= dict.fromkeys(_POSITIONS, "torch.zeros(1, dtype=torch.int64)")
    values = ", ".join(whole.get(name, "torch.randn(1, 3, 224, 224)") for name in missing)
    lines = ["add to the file, with your own shapes,", "       def get_args():", f"           return ({values},)"]
    if not any(name in whole for name in missing):
        flags = " ".join(f"--input-shape {name}=1x3x224x224" for name in missing)
        lines.append(f"       or make random float inputs with {flags}")
    if len(missing) == 2 and missing[0] in _IDS and missing[1] in _POSITIONS:
        lines[0] = (
            "--llm --context N takes a decoder with its cache, and needs none; for one run of any other model "
            + lines[0]
        )
    return "\n".join(lines)


def _refuse_unknown(shapes: Mapping[str, tuple[int, ...]], known: list[str]) -> None:
    for name in shapes:
        if name not in known:
            raise UsageError(f"--input-shape {name}: there is no such input", why=nearest_name(name, known))
