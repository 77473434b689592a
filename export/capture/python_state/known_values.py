"""Numbers that forward reads out of a module's own tensors: they are the same in every run, and known while tracing.

```
self.register_buffer("initted", torch.tensor(True))
self.register_buffer("stride", torch.tensor(2))

forward:  if not self.initted: ...                              # torch.export: "data-dependent control flow"
          padding = int(torch.ceil(length / self.stride)) * self.stride - length
          x = F.pad(x, (0, int(padding)))                       # … and a size that only a run finds
```

torch.export traces on stand-ins without values. Beside each stand-in of a small tensor goes a copy with its values;
what is computed from such tensors alone is computed on the copies too, and what Python asks of one (`int`, `bool`,
`item`, `tolist`, `equal`, a place or size) is answered from its copy. A buffer that forward writes to is state, and
none of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from edgex.delegates.graph.torch_internals import FakeTensor, pytree
from edgex.export.capture.torch_internals import tensor_stores, without_tracing

# Counts, flags, strides, tables of sizes; nothing that is work to compute.
_MOST_ELEMENTS = 64

# How Python asks for values.
READERS = frozenset(
    [
        *(torch.Tensor.item, torch.Tensor.tolist, torch.Tensor.is_nonzero, torch.is_nonzero),
        *(torch.Tensor.__bool__, torch.Tensor.__int__, torch.Tensor.__float__, torch.Tensor.__index__),
        *(torch.Tensor.equal, torch.equal, torch.Tensor.allclose, torch.allclose, torch.Tensor.__contains__),
        torch.Tensor.__format__,  # the name of a module: `self.experts[f"expert_{index}"]`
    ]
)

# They make tensors of nothing but numbers.
_FACTORIES = frozenset(
    [torch.tensor, torch.as_tensor, torch.scalar_tensor, torch.arange, torch.zeros, torch.ones, torch.full]
)

# They take a tensor of one integer for a size or a place.
_TAKE_INTEGERS = frozenset(
    [
        *(torch.nn.functional.pad, torch.nn.functional.interpolate, torch.Tensor.__getitem__, torch.Tensor.__setitem__),
        *(torch.Tensor.view, torch.Tensor.reshape, torch.reshape, torch.Tensor.expand, torch.Tensor.repeat),
        *(torch.Tensor.narrow, torch.narrow, torch.Tensor.split, torch.split, torch.zeros, torch.ones, torch.arange),
    ]
)
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8)


@contextlib.contextmanager
def values_known(module: torch.nn.Module, state: Collection[str], *, made: bool = False) -> Iterator[None]:
    """Answer what forward asks of tensors whose values are the same in every run.

    Args:
        module: With its buffers, parameters and plain attributes.
        state: Buffers that forward writes to, by all of their names.
        made: Know what forward makes of nothing but numbers also where the module has none of these.
    """
    written = {id(tensor) for name, tensor in module.named_buffers(remove_duplicate=False) if name in state}
    found = [
        (store, key, value.detach().clone())
        for part in module.modules()
        for store in tensor_stores(part)
        for key, value in store.items()
        if isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor)
        if id(value) not in written and _is_small(value)
    ]
    if not found and not made:
        yield
        return
    mode = _KnownValues()

    def learn(*_: Any) -> None:
        mode.known = {id(store[key]): (store[key], value) for store, key, value in found}

    handle = module.register_forward_pre_hook(learn)
    try:
        with mode:
            yield
    finally:
        handle.remove()


def _is_small(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and tensor.numel() <= _MOST_ELEMENTS


class _KnownValues(TorchFunctionMode):
    """Computes on the copies what is computed on the stand-ins, as long as all of an operator's tensors have one."""

    def __init__(self) -> None:
        super().__init__()
        # By identity: the stand-in, which must not go away and leave its identity to another, and the copy.
        self.known: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """As torch calls it."""
        kwargs = kwargs or {}
        if func in _TAKE_INTEGERS:
            first = () if func in _FACTORIES else args[:1]
            args = (*first, *(self._with_integers(arg) for arg in args[len(first) :]))
            kwargs = {name: self._with_integers(arg) for name, arg in kwargs.items()}
        leaves = pytree.tree_leaves((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if not (tensors or func in _FACTORIES) or not all(id(tensor) in self.known for tensor in tensors):
            found = func(*args, **kwargs)
            self._forget_written(func, args, kwargs)
            return found
        if any(isinstance(leaf, torch.SymInt | torch.SymFloat | torch.SymBool) for leaf in leaves):
            return func(*args, **kwargs)
        own_args, own_kwargs = pytree.tree_map_only(torch.Tensor, lambda x: self.known[id(x)][1], (args, kwargs))
        if func in READERS:
            with without_tracing():
                return func(*own_args, **own_kwargs)
        found = func(*args, **kwargs)
        if not writes(func, kwargs) and not any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(found)):
            return found
        with without_tracing():
            values = func(*own_args, **own_kwargs)
        for tensor, value in zip(pytree.tree_leaves(found), pytree.tree_leaves(values), strict=True):
            if isinstance(tensor, torch.Tensor) and isinstance(value, torch.Tensor) and _is_small(value):
                self.known[id(tensor)] = tensor, value
        return found

    def _with_integers(self, given: Any) -> Any:
        """An argument with numbers in place of known tensors of one integer, in tuples, lists and slices too."""
        if isinstance(given, slice):
            return slice(*(self._with_integers(item) for item in (given.start, given.stop, given.step)))
        if type(given) in (tuple, list):
            return type(given)(self._with_integers(item) for item in given)
        if id(given) in self.known and (value := self.known[id(given)][1]).dim() == 0 and value.dtype in _INTEGERS:
            with without_tracing():
                return value.item()
        return given

    def _forget_written(self, func: Any, args: Any, kwargs: Any) -> None:
        """What is written with something unknown is not known any more, nor is what shares its memory."""
        if not writes(func, kwargs):
            return
        for tensor in pytree.tree_leaves((args[:1], kwargs.get("out"))):
            if isinstance(tensor, torch.Tensor) and id(tensor) in self.known:
                memory = self.known[id(tensor)][1].untyped_storage().data_ptr()
                self.known = {
                    key: pair for key, pair in self.known.items() if pair[1].untyped_storage().data_ptr() != memory
                }


def writes(func: Any, kwargs: Any) -> bool:
    """Whether a function changes a tensor: `add_`, `__setitem__`, `out=`."""
    name = getattr(func, "__name__", "")
    in_place = name.endswith("_") and not name.endswith("__")
    return in_place or name.startswith("__i") or name == "__setitem__" or name == "__set__" or "out" in kwargs
