"""Where a model can keep values in Python: attributes of its modules and of the objects they hold, and globals.

Everything is read and written through the built-in types themselves: a subclass may forbid its own methods, as a frozen
dict forbids `update`, and none of the user's code runs here.
"""

from __future__ import annotations

import enum
import sys
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from edgex.export.source.user_code.user_line import is_installed

# What nn.Module keeps itself; parameters and buffers are watched elsewhere.
MODULE_INTERNALS = frozenset(vars(torch.nn.Module())) | {"_compiled_call_impl"}

# A model of a hundred layers has some thousand; a data set kept in an attribute is not walked to its end.
_MOST_HOLDERS = 20_000
_MOST_ITEMS = 4096
_DEPTH = 12

# Each before the built-in type that it derives from.
_CONTAINERS: tuple[type, ...] = (OrderedDict, dict, list, deque, set)
_NO_OBJECTS = (torch.nn.Module, types.ModuleType, type, types.FunctionType, types.MethodType, types.BuiltinFunctionType)


@dataclass(frozen=True)
class Holder:
    """Something with named values that code may change.

    Attributes:
        kind: What its values are.
        path: How users know it: `self`, `block`, `self.cache.layers[0]`; empty for globals.
        owner: The module, the object, or the Python module.
        values: Its namespace itself, not a copy.
    """

    kind: Literal["attribute", "global"]
    path: str
    owner: Any
    values: dict[str, Any]

    def name_of(self, key: str) -> str:
        """How users know one of its values."""
        return f"{self.path}.{key}" if self.path else key


def find_holders(module: torch.nn.Module) -> list[Holder]:
    """The modules, the objects reached from their attributes, and the Python modules of the user that hold globals."""
    found: list[Holder] = []
    seen: set[int] = set()
    for path, part in module.named_modules():
        if not isinstance(part, torch.fx.GraphModule):
            _walk_owner(part, path or "self", found, seen, 0)
    for home in user_modules(module):
        found.append(Holder("global", "", home, vars(home)))
    return found


def watched_items(holder: Holder) -> Iterator[tuple[str, Any]]:
    """The values of a holder that a model may use to keep something."""
    for key, value in list(holder.values.items()):
        if holder.kind == "global":
            if not key.startswith("__") and _is_data(value):
                yield key, value
        elif not (isinstance(holder.owner, torch.nn.Module) and key in MODULE_INTERNALS):
            yield key, value


def user_modules(module: torch.nn.Module) -> list[types.ModuleType]:
    """The user's Python modules in which parts of the model are written."""
    return [home for home in model_modules(module) if not is_installed(Path(str(home.__file__)))]


def model_modules(module: torch.nn.Module) -> list[types.ModuleType]:
    """The Python modules in which parts of the model are written, PyTorch's own left out."""
    names = dict.fromkeys(kind.__module__ for part in module.modules() for kind in type(part).__mro__)
    homes = [sys.modules[name] for name in names if name in sys.modules and name.partition(".")[0] != "torch"]
    return [home for home in homes if getattr(home, "__file__", None)]


def has_fields(value: Any) -> bool:
    """Whether a value is an object of a library's or the user's class with attributes of its own."""
    if isinstance(value, (torch.Tensor, np.ndarray, enum.Enum, *_NO_OBJECTS)):
        return False
    home = type(value).__module__.partition(".")[0]
    if home in sys.stdlib_module_names and not isinstance(value, types.SimpleNamespace):
        return False
    return home != "torch" and _namespace_of(value) is not None


def container_items(value: Any) -> list[tuple[Any, Any]] | None:
    """Keys and values of a container, by position where it has no keys; None for what is no container."""
    if isinstance(value, tuple):
        return list(enumerate(tuple.__iter__(value)))
    base = _base_of(value)
    if base is None:
        return None
    if issubclass(base, dict):
        return list(base.items(value))
    return list(enumerate(base.__iter__(value)))


def replace_content(container: Any, items: list[tuple[Any, Any]]) -> None:
    """Give a dict, list, deque or set this content; a dict subclass by the methods of dict alone."""
    base: Any = _base_of(container)
    base.clear(container)
    for key, value in items:
        if issubclass(base, dict):
            base.__setitem__(container, key, value)
        elif base is set:
            set.add(container, value)
        else:
            base.append(container, value)


class KeptValues:
    """All that is held now, to be put back by identity later."""

    def __init__(self, holders: list[Holder]) -> None:
        self._namespaces: list[tuple[dict[str, Any], dict[str, Any], frozenset[str]]] = []
        self._containers: dict[int, tuple[Any, list[tuple[Any, Any]]]] = {}
        for holder in holders:
            watched = dict(watched_items(holder))
            kept_out = MODULE_INTERNALS if isinstance(holder.owner, torch.nn.Module) else frozenset()
            if holder.kind == "global":  # a new global may be a function or a module; it harms nothing
                kept_out = frozenset(holder.values) - frozenset(watched)
            self._namespaces.append((holder.values, watched, kept_out))
            for value in watched.values():
                self._keep_content(value, 0)

    def put_back(self) -> None:
        """Undo every change since, and touch nothing that did not change."""
        for container, items in self._containers.values():
            if not _same_items(container_items(container) or [], items):
                replace_content(container, items)
        for namespace, values, kept_out in self._namespaces:
            for key in [key for key in namespace if key not in values and key not in kept_out]:
                dict.__delitem__(namespace, key)
            for key, value in values.items():
                if key not in namespace or namespace[key] is not value:
                    dict.__setitem__(namespace, key, value)

    def _keep_content(self, value: Any, depth: int) -> None:
        items = None if id(value) in self._containers or depth > _DEPTH else container_items(value)
        if items is None:
            return
        if not isinstance(value, tuple):
            self._containers[id(value)] = (value, items)
        for _, item in items[:_MOST_ITEMS]:
            self._keep_content(item, depth + 1)


def _walk_owner(owner: Any, path: str, found: list[Holder], seen: set[int], depth: int) -> None:
    namespace = _namespace_of(owner)
    if namespace is None or id(owner) in seen or depth > _DEPTH or len(found) >= _MOST_HOLDERS:
        return
    seen.add(id(owner))
    holder = Holder("attribute", path, owner, namespace)
    found.append(holder)
    for key, value in watched_items(holder):
        _walk_value(value, holder.name_of(key), found, seen, depth + 1)


def _walk_value(value: Any, path: str, found: list[Holder], seen: set[int], depth: int) -> None:
    if has_fields(value):
        _walk_owner(value, path, found, seen, depth)
    if id(value) in seen and not has_fields(value):
        return
    items = container_items(value) if depth <= _DEPTH else None
    if items:
        seen.add(id(value))
        for key, item in items[:_MOST_ITEMS]:
            _walk_value(item, f"{path}[{key!r}]", found, seen, depth + 1)


def _same_items(first: list[tuple[Any, Any]], second: list[tuple[Any, Any]]) -> bool:
    """Whether the values are the same objects under the same keys; equal positions may be two objects."""
    return len(first) == len(second) and all(
        one is other and (key is old_key or (type(key) is int and key == old_key))
        for (key, one), (old_key, other) in zip(first, second, strict=True)
    )


def _base_of(value: Any) -> Any | None:
    return next((base for base in _CONTAINERS if isinstance(value, base)), None)


def _namespace_of(value: Any) -> dict[str, Any] | None:
    try:
        namespace = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return namespace if type(namespace) is dict else None


def _is_data(value: Any) -> bool:
    """Whether a global is data that code may change, and no module, class or function."""
    return isinstance(value, (bool, int, float, str, list, dict, set, deque, torch.Tensor, np.ndarray, type(None)))


def _is_cache(value: Any) -> bool:
    """Whether a global is a function with a cache as those of `functools`; objects may refuse to be asked."""
    try:
        return all(callable(getattr(value, name, None)) for name in ("cache_clear", "cache_info"))
    except Exception:
        return False


def cleared_caches(module: torch.nn.Module) -> Callable[[], None]:
    """A function that empties the `functools` caches around a model, where a trace leaves tensors without values."""
    caches = [
        value
        for home in model_modules(module)
        for scope in [home, *(v for v in vars(home).values() if isinstance(v, type) and v.__module__ == home.__name__)]
        for value in vars(scope).values()
        if _is_cache(value)
    ]

    def clear() -> None:
        for cache in caches:
            cache.cache_clear()

    return clear
