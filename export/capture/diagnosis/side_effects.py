"""What forward changes besides buffers: attributes, globals, random generators.

torch.export drops such changes without a word: `self.calls += 1` becomes the constant that it was during
tracing. So the model is watched while eager runs on the example.
"""

from __future__ import annotations

import contextlib
import random
import sys
import types
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from edgex.export.source.code_search import Place, file_of, find_call, find_write
from edgex.export.source.user_line import is_installed

# How deep and how far containers are looked into; a change further down is not seen.
_DEPTH = 3
_ITEMS = 256
_ARRAY_BYTES = 1 << 20

# What nn.Module keeps itself; parameters and buffers are watched elsewhere.
_INTERNAL = frozenset(vars(torch.nn.Module())) | {"_compiled_call_impl"}

_RANDOM_CALLS: Mapping[str, tuple[str, ...]] = {
    "random": ("random.",),
    "numpy.random": ("np.random.", "numpy.random."),
    "torch": (
        *("torch.rand", "torch.normal", "torch.bernoulli", "torch.multinomial"),
        *("F.dropout", "F.alpha_dropout", "nn.functional.dropout", "torch.nn.functional.dropout", "torch.dropout"),
    ),
}


@dataclass(frozen=True)
class Change:
    """Something that forward changed.

    Attributes:
        kind: What it is.
        name: `self.calls`, with the submodule's path `block.calls`, a global's name, or the random generator.
        before: Its value before, for people.
        after: Its value after.
        value: The value itself.
        rebound: Only other tensors took the place of tensors: nothing grew, counted, or was written to.
        place: The line that changes it, where found.
    """

    kind: Literal["attribute", "global", "random"]
    name: str
    before: str = ""
    after: str = ""
    value: Any = None
    rebound: bool = False
    place: Place | None = None


@dataclass(frozen=True)
class _Seen:
    fingerprint: Any
    words: str = ""
    value: Any = None
    home: Any = None


class PythonState:
    """The Python values around a module as they are now."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module
        self._before = self._take()

    def changes(self) -> list[Change]:
        """What differs from the time of the snapshot."""
        now = self._take()
        gone = _Seen(None, "missing")
        found = []
        for key in dict.fromkeys([*self._before, *now]):
            before, after = self._before.get(key, gone), now.get(key, gone)
            if before.fingerprint != after.fingerprint:
                kind, name = key
                place = self._find_place(kind, name, after.home or before.home)
                rebound = _only_rebound(before.fingerprint, after.fingerprint)
                found.append(Change(kind, name, before.words, after.words, after.value, rebound, place))
        return found

    def _take(self) -> dict[tuple[Any, str], _Seen]:
        state: dict[tuple[Any, str], _Seen] = {}
        for path, part in self._module.named_modules():
            for key, value in vars(part).items():
                if key not in _INTERNAL and not isinstance(part, torch.fx.GraphModule):
                    state["attribute", f"{path or 'self'}.{key}"] = _see(value, part)
        for home in self._user_modules():
            for key, value in vars(home).items():
                if _is_data(value) and not key.startswith("__"):
                    state["global", key] = _see(value, home)
        numpy_state: Any = np.random.get_state(legacy=True)
        state["random", "random"] = _Seen(hash(random.getstate()))
        state["random", "numpy.random"] = _Seen((numpy_state[1].tobytes(), *numpy_state[2:]))
        state["random", "torch"] = _Seen(torch.get_rng_state().numpy().tobytes())
        return state

    def _user_modules(self) -> list[types.ModuleType]:
        """The user's Python modules in which parts of the model are written."""
        names = dict.fromkeys(type(part).__module__ for part in self._module.modules())
        homes = [sys.modules[name] for name in names if name in sys.modules]
        return [home for home in homes if (file := getattr(home, "__file__", None)) and not is_installed(Path(file))]

    def _find_place(self, kind: str, name: str, home: Any) -> Place | None:
        if kind == "attribute":
            return find_write(file_of(type(home)), name.rpartition(".")[2], on_self=True)
        if kind == "global":
            return find_write(getattr(home, "__file__", None), name, on_self=False)
        places = (find_call(home.__file__, _RANDOM_CALLS[name]) for home in self._user_modules())
        return next((place for place in places if place is not None), None)


@contextlib.contextmanager
def attributes_kept(module: torch.nn.Module) -> Iterator[None]:
    """Undo what a trace leaves in a module's attributes: tensors without values, in caches that forward fills."""
    before = [(part, dict(vars(part))) for part in module.modules()]
    contents = [
        (value, value.copy())
        for _, attributes in before
        for key, value in attributes.items()
        if key not in _INTERNAL and isinstance(value, (dict, list, set))
    ]
    try:
        yield
    finally:
        for part, attributes in before:
            for key in [key for key in vars(part) if key not in attributes]:
                del vars(part)[key]
            vars(part).update({key: value for key, value in attributes.items() if key not in _INTERNAL})
        for container, content in contents:
            container.clear()
            (container.extend if isinstance(container, list) else container.update)(content)


def _see(value: Any, home: Any) -> _Seen:
    return _Seen(_fingerprint(value, _DEPTH), _in_words(value), value, home)


def _is_data(value: Any) -> bool:
    """Whether a global is data that code may change, and no module, class or function."""
    return isinstance(value, (bool, int, float, str, list, dict, set, deque, torch.Tensor, np.ndarray, type(None)))


def _fingerprint(value: Any, depth: int) -> Any:
    """Something that compares equal as long as the value does not change."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return (type(value).__name__, repr(value))
    if isinstance(value, torch.Tensor):
        return ("tensor", id(value), None if value.is_inference() else value._version)
    if isinstance(value, np.ndarray):
        return ("array", id(value), value.shape, hash(value.tobytes()) if value.nbytes <= _ARRAY_BYTES else None)
    if depth == 0 or isinstance(value, (torch.nn.Module, type, types.ModuleType, types.FunctionType)):
        return ("object", id(value))
    if isinstance(value, Mapping):
        items = list(value.items())[:_ITEMS]
        return ("mapping", len(value), [(repr(key), _fingerprint(item, depth - 1)) for key, item in items])
    if isinstance(value, (set, frozenset)):
        return ("set", len(value), sorted(map(repr, list(value)[:_ITEMS])))
    if isinstance(value, (list, tuple, deque)):
        return ("sequence", len(value), [_fingerprint(item, depth - 1) for item in list(value)[:_ITEMS]])
    fields = list(getattr(value, "__dict__", {}).items())[:_ITEMS]
    return ("object", id(value), [(key, _fingerprint(item, depth - 1)) for key, item in fields])


def _only_rebound(before: Any, after: Any) -> bool:
    """Whether two fingerprints differ in the identity of tensors alone."""
    if before == after:
        return True
    if type(before) is not type(after) or not isinstance(before, (tuple, list)) or len(before) != len(after):
        return False
    if isinstance(before, tuple) and before[0] == after[0] == "tensor":
        return bool(before[1] != after[1])
    return all(_only_rebound(old, new) for old, new in zip(before, after, strict=True))


def _in_words(value: Any) -> str:
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value) if len(repr(value)) <= 40 else f"a {type(value).__name__}"
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, (list, tuple, dict, set, deque)):
        return f"a {type(value).__name__} of length {len(value)}"
    return f"a {type(value).__name__}"
