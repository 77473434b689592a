"""What forward changes besides buffers: attributes, globals, random generators.

torch.export drops such changes without a word: `self.calls += 1` becomes the constant that it was during
tracing. So the model is watched while eager runs on the example.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from edgex.export.capture.python_state.holders import (
    Holder,
    find_holders,
    has_fields,
    model_modules,
    user_modules,
    watched_items,
)
from edgex.export.capture.torch_internals import writes_to
from edgex.export.source.user_code.code_search import Place, file_of, find_call, find_write

# How deep and how far containers are looked into; a change further down is not seen.
_DEPTH = 4
_ITEMS = 256
_ARRAY_BYTES = 1 << 20

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
        rebound: Only other objects took the place of objects: nothing grew, counted, or was written to.
        place: The line that changes it, where found.
        holder: Holds the value under `key`; None for a random generator.
        key: See `holder`.
    """

    kind: Literal["attribute", "global", "random"]
    name: str
    before: str = ""
    after: str = ""
    value: Any = None
    rebound: bool = False
    place: Place | None = None
    holder: Holder | None = None
    key: str = ""


@dataclass(frozen=True)
class _Seen:
    fingerprint: Any
    words: str = ""
    value: Any = None
    holder: Holder | None = None
    key: str = ""


class PythonState:
    """The Python values around a module as they are now."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module
        self._before = self._take()

    def changes(self) -> list[Change]:
        """What differs from the time of the snapshot, each at the innermost object that it is an attribute of."""
        now = self._take()
        gone = _Seen(None, "missing")
        found = []
        for key in dict.fromkeys([*self._before, *now]):
            before, after = self._before.get(key, gone), now.get(key, gone)
            if before.fingerprint != after.fingerprint:
                kind, name = key
                place = self._find_place(kind, name, after if after.holder else before)
                rebound = _only_rebound(before.fingerprint, after.fingerprint)
                found.append(
                    Change(kind, name, before.words, after.words, after.value, rebound, place, after.holder, after.key)
                )
        names = [change.name for change in found]
        return [c for c in found if not any(name.startswith((f"{c.name}.", f"{c.name}[")) for name in names)]

    def _take(self) -> dict[tuple[Any, str], _Seen]:
        state: dict[tuple[Any, str], _Seen] = {}
        # A buffer that an object refers to as well is state of the model, wherever Python reaches it.
        registered = {id(t) for t in [*self._module.buffers(), *self._module.parameters()]}
        for holder in find_holders(self._module):
            for key, value in watched_items(holder):
                fingerprint = _fingerprint(value, _DEPTH, registered)
                state[holder.kind, holder.name_of(key)] = _Seen(fingerprint, _in_words(value), value, holder, key)
        numpy_state: Any = np.random.get_state(legacy=True)
        state["random", "random"] = _Seen(hash(random.getstate()))
        state["random", "numpy.random"] = _Seen((numpy_state[1].tobytes(), *numpy_state[2:]))
        state["random", "torch"] = _Seen(torch.get_rng_state().numpy().tobytes())
        return state

    def _find_place(self, kind: str, name: str, seen: _Seen) -> Place | None:
        if kind == "random":
            homes = [str(home.__file__) for home in user_modules(self._module)]
            return next(filter(None, (find_call(file, _RANDOM_CALLS[name]) for file in homes)), None)
        if seen.holder is None:
            return None
        if kind == "global":
            return find_write(getattr(seen.holder.owner, "__file__", None), seen.key, on_self=False)
        # Its class and the classes above it; else anywhere in the model's code.
        kinds = [kind for kind in type(seen.holder.owner).__mro__ if kind not in (object, torch.nn.Module)]
        found = [find_write(file_of(kind), seen.key, on_self=True, within=kind.__name__) for kind in kinds]
        others = (str(home.__file__) for home in model_modules(self._module))
        found += [find_write(file, seen.key, on_self=True) for file in others]
        return next(filter(None, found), None)


def _fingerprint(value: Any, depth: int, registered: set[int]) -> Any:
    """Something that compares equal as long as the value does not change."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return (type(value).__name__, repr(value))
    if isinstance(value, torch.Tensor):
        if id(value) in registered:
            return ("registered", id(value))
        return ("tensor", id(value), None if value.is_inference() else writes_to(value))
    if isinstance(value, np.ndarray):
        return ("array", id(value), value.shape, hash(value.tobytes()) if value.nbytes <= _ARRAY_BYTES else None)
    if depth == 0:
        return ("opaque", id(value))
    if isinstance(value, Mapping):
        items = list(value.items())[:_ITEMS]
        return ("mapping", len(value), [(repr(key), _fingerprint(item, depth - 1, registered)) for key, item in items])
    if isinstance(value, (set, frozenset)):
        return ("set", len(value), sorted(map(repr, list(value)[:_ITEMS])))
    if isinstance(value, (list, tuple, deque)):
        items = list(value)[:_ITEMS]
        return ("sequence", len(value), [_fingerprint(item, depth - 1, registered) for item in items])
    if has_fields(value):
        fields = list(value.__dict__.items())[:_ITEMS]
        return ("object", type(value).__name__, [(k, _fingerprint(item, depth - 1, registered)) for k, item in fields])
    return ("opaque", id(value))


def _only_rebound(before: Any, after: Any) -> bool:
    """Whether two fingerprints differ in the identity of tensors and of opaque objects alone."""
    if before == after:
        return True
    if type(before) is not type(after) or not isinstance(before, (tuple, list)) or len(before) != len(after):
        return False
    if isinstance(before, tuple) and before[0] == after[0] and before[0] in ("tensor", "opaque"):
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
