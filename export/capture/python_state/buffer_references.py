"""Buffers that Python objects refer to as well, such as the layers of a cache, and buffers that are assigned.

```
self.cache = Cache()                                # an object, no module
self.register_buffer("keys", self.cache.keys)
forward:  self.cache.keys.index_copy_(...)          # state, reached through the object
```

While torch.export traces, a module's buffers are stand-ins without values, and the object would still refer to the
tensor itself: a constant of the program, which nothing may change. So the object is given the stand-in too.

```
self.register_buffer("past", torch.zeros(1, 8, 2))  # of a layer, somewhere in the model
forward:  x = torch.cat((self.past, x), -1)
          self.past = x[..., -2:]                   # lost: torch.export looks at the model's own attributes alone
traced:   self.past.copy_(x[..., -2:])              # when the model's forward ends
```
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from typing import Any

import torch

from edgex.export.capture.python_state.holders import (
    container_items,
    find_holders,
    replace_content,
    watched_items,
)


@contextlib.contextmanager
def references_followed(module: torch.nn.Module) -> Iterator[None]:
    """Let objects refer to the module's buffers as they are when forward begins; the caller puts the objects back."""
    names = {id(tensor): name for name, tensor in module.named_buffers()}
    referring = [
        (holder.values, key)
        for holder in find_holders(module)
        for key, value in watched_items(holder)
        if _refers(value, names)
    ]
    if not referring:
        yield
        return

    def follow(*_: Any) -> None:
        now = dict(module.named_buffers())
        for values, key in referring:
            dict.__setitem__(values, key, _replaced(values[key], names, now))

    handle = module.register_forward_pre_hook(follow)
    try:
        yield
    finally:
        handle.remove()


@contextlib.contextmanager
def assignments_copied(module: torch.nn.Module, state: Collection[str]) -> Iterator[None]:
    """Record what forward assigns to buffers, once it has ended: until then its layers read what they assigned.

    Args:
        module: What is traced.
        state: Names of the buffers that a run changes.
    """
    owners = [
        (owner, key, f"{path}.{key}" if path else key)
        for path, owner in module.named_modules()
        for key, _ in owner.named_buffers(recurse=False)
    ]
    assigned = [(owner, key) for owner, key, name in owners if name in state]
    before: list[torch.Tensor] = []

    def begin(*_: Any) -> None:
        before[:] = [getattr(owner, key) for owner, key in assigned]

    def end(*_: Any) -> None:
        for (owner, key), buffer in zip(assigned, before, strict=True):
            now = getattr(owner, key)
            # Of another shape or type it is no state; that is said elsewhere.
            alike = now.dtype == buffer.dtype and list(map(str, now.shape)) == list(map(str, buffer.shape))
            if now is not buffer and alike:
                buffer.copy_(now)
                setattr(owner, key, buffer)

    handles = (module.register_forward_pre_hook(begin), module.register_forward_hook(end)) if assigned else ()
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _refers(value: Any, names: dict[int, str], depth: int = 4) -> bool:
    if isinstance(value, torch.Tensor):
        return id(value) in names
    items = container_items(value) if depth else None
    return any(_refers(item, names, depth - 1) for _, item in items or ())


def _replaced(value: Any, names: dict[int, str], now: dict[str, torch.Tensor], depth: int = 4) -> Any:
    """The value with buffers as they are now; containers stay the same objects, except for tuples."""
    if isinstance(value, torch.Tensor):
        return now.get(names.get(id(value), ""), value)
    items = container_items(value) if depth and _refers(value, names, depth) else None
    if items is None:
        return value
    found = [(key, _replaced(item, names, now, depth - 1)) for key, item in items]
    if isinstance(value, tuple):
        return type(value)(*(item for _, item in found)) if hasattr(value, "_fields") else tuple(i for _, i in found)
    replace_content(value, found)
    return value
