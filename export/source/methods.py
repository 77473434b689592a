"""`methods()` of a user's file: several methods that become one artifact.

```python
def methods():
    model = Translator()
    tokens, memory = torch.zeros(1, 8, dtype=torch.int64), torch.randn(1, 16, 32)
    return {
        "encode": (model.encode, (torch.zeros(1, 16, dtype=torch.int64),)),
        "decode": (model.decode, (tokens, memory), {"tokens": {1: torch.export.Dim("n", min=2, max=64)}}),
    }
```

A method is a module, or a method of a module; its example inputs, in any form that `get_args()` has; and its dynamic
shapes, if there are some. The first is the one that is meant where none is named.
"""

from __future__ import annotations

import functools
import inspect
import keyword
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any

import torch

from edgex.errors import UsageError, nearest_name
from edgex.export.source.example_inputs import Call, read_call

NAME = "methods"
# What a manifest lists at most.
MOST = 100

_SEQUENCE_FORM = """give runs in a row, each with its method, for instance
       example_sequence = [("prefill", (tokens, start)), ("decode", (token, position)), ...]"""
_FORM = """return a dict of (module or its method, example inputs), for instance
       return {"encode": (model.encode, (audio,)), "decode": (model.decode, (tokens, memory))}"""


class BoundMethod(torch.nn.Module):
    """A method of a module as a module whose `forward` it is, with the method's own parameters.

    Attributes:
        model: The module that it is bound to.
    """

    model: torch.nn.Module

    def __init__(self, method: Callable[..., Any], owner: torch.nn.Module) -> None:
        super().__init__()
        self.model = owner
        self.training = False  # the owner's mode is what counts, and what the user is told of
        self.__dict__["forward"] = _as_forward(method, owner)


def _as_forward(method: Callable[..., Any], owner: torch.nn.Module) -> Callable[..., Any]:
    """The method with its code named `forward`: torch notes source lines in functions of that name only."""
    function = getattr(method, "__func__", None)
    if not isinstance(function, FunctionType):
        return method
    code = function.__code__.replace(co_name="forward")
    named = FunctionType(code, function.__globals__, None, function.__defaults__, function.__closure__)
    named.__kwdefaults__ = function.__kwdefaults__
    return MethodType(functools.update_wrapper(named, function), owner)


@dataclass(frozen=True)
class MethodExample:
    """One method, with a call of it.

    Attributes:
        name: What the artifact calls it.
        module: Its `forward` is the method.
        owner: The user's module.
        call: Example inputs.
        dynamic_shapes: As torch.export takes it, or None.
    """

    name: str
    module: torch.nn.Module
    owner: torch.nn.Module
    call: Call
    dynamic_shapes: Any = None


def read_methods(value: Any, place: str) -> tuple[MethodExample, ...]:
    """Read what `methods()` returns.

    Args:
        value: By name, `(module or its method, example inputs)` or `(…, …, dynamic shapes)`.
        place: What gave it, for messages: `net.py:methods()`.

    Raises:
        UsageError: It is of another form, is empty, or a name, a module or an example is not as it must be.
    """
    if not isinstance(value, Mapping):
        raise UsageError(f"{place} gives an object of type {type(value).__name__}", fix=_FORM)
    if not value:
        raise UsageError(f"{place} gives no method", fix=_FORM)
    if len(value) > MOST:
        raise UsageError(f"{place} gives {len(value)} methods; an artifact has {MOST} at most")
    known: dict[str, str] = {}
    for name in value:
        _check_name(name, place)
        other = known.setdefault(name.lower(), name)
        if other != name:
            raise UsageError(f"{place} has both {other!r} and {name!r}", fix="name them apart by more than capitals")
    return tuple(_read_method(name, entry, f"{place}[{name!r}]") for name, entry in value.items())


def _check_name(name: Any, place: str) -> None:
    if isinstance(name, str) and name.isascii() and name.isidentifier() and not keyword.iskeyword(name):
        return
    raise UsageError(
        f"{place} names a method {name!r}",
        why="a method's name is a Python identifier of ASCII letters, since files and flags have it too",
        fix="name it like a function, for example 'encode'",
    )


def read_method_sequence(
    value: Any, methods: Sequence[MethodExample], place: str
) -> tuple[tuple[str, Call], ...] | None:
    """Read an `example_sequence` over methods: runs in a row, each `(method, example inputs)`.

    Args:
        value: What the user gives; None where there is none.
        methods: Those of the artifact.
        place: What gave it, for messages.

    Raises:
        UsageError: It is of another form, or a step does not fit its method.
    """
    if value is None:
        return None
    if not isinstance(value, list | tuple):
        raise UsageError(f"{place} is of type {type(value).__name__}", fix=_SEQUENCE_FORM)
    known = {method.name: method for method in methods}
    steps = []
    for at, step in enumerate(value):
        where = f"{place}[{at}]"
        if not isinstance(step, tuple) or len(step) != 2 or not isinstance(step[0], str):
            raise UsageError(f"{where} is not (method, example inputs)", fix=_SEQUENCE_FORM)
        if step[0] not in known:
            raise UsageError(f"{where} names no method: {step[0]!r}", why=nearest_name(step[0], known))
        call = read_call(step[1], where)
        check_fits(known[step[0]].module, call, where)
        steps.append((step[0], call))
    return tuple(steps)


def _read_method(name: str, entry: Any, place: str) -> MethodExample:
    if not isinstance(entry, tuple) or len(entry) not in (2, 3):
        raise UsageError(f"{place} is not (module or its method, example inputs)", fix=_FORM)
    given, examples, *shapes = entry
    owner = given if isinstance(given, torch.nn.Module) else getattr(given, "__self__", None)
    if not isinstance(owner, torch.nn.Module):
        raise UsageError(
            f"{place} is of type {type(given).__name__}, neither a module nor a method of one",
            fix="give a torch.nn.Module, or a method that is bound to one: model.encode",
        )
    module = given if owner is given else BoundMethod(given, owner)
    call = read_call(examples, place)
    check_fits(module, call, place)
    return MethodExample(name, module, owner, call, shapes[0] if shapes else None)


def check_fits(module: torch.nn.Module, call: Call, place: str) -> None:
    """Refuse example inputs that a module cannot be called with.

    Raises:
        UsageError: They do not fit its parameters.
    """
    args, kwargs = call
    try:
        inspect.signature(module.forward).bind(*args, **kwargs)
    except TypeError as error:
        raise UsageError(
            f"the example inputs of {place} do not fit {describe_parameters(module)}",
            why=str(error),
            fix="give one value for each parameter, in order in a tuple or by name in a dict",
        ) from error


def describe_parameters(module: torch.nn.Module) -> str:
    """`forward(tokens, memory)`, or what the method is called."""
    signature = inspect.signature(module.forward)
    return f"{getattr(module.forward, '__name__', 'forward')}({', '.join(signature.parameters)})"
