"""Attention over the part of the cache that is filled, not over all of it.

The shapes of a program are known when it is made, and so is that of the cache: without more, every step multiplies the
query with the keys of the whole context and weighs most of them with zero. So the model is shown the beginning of its
cache, up to the last token that has been written:

```
before:  scores = query @ keys.transpose(2, 3) + mask                  # keys [1, heads, context, size], a buffer
after:   seen = min(context, round_up(position + n, step)).item()
         scores = query @ keys[:, :, :seen].transpose(2, 3) + mask[..., :seen]
```

It is done while the model runs, in eager as under torch.export, so that no pattern of operators need be recognised:
whatever reads a buffer of the cache reads its beginning, and where scores meet a mask of the whole context, the mask is
cut. Lengths are multiples of a step, so that an engine that prepares itself for a shape meets few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

# A context is divided into so many lengths, of which none is shorter than the least.
_STEPS = 16
_LEAST_STEP = 16

# Properties that depend on what of a tensor is seen; a shape as well, since models build masks and expansions by it.
_PROPERTIES = frozenset({"shape", "T", "mT", "H", "mH"})
# Where scores and a mask meet.
_ELEMENTWISE = frozenset(
    {"add", "sub", "mul", "where", "masked_fill", "logical_and", "logical_or", "bitwise_and", "bitwise_or", "maximum",
     "minimum", "and", "or"}
)  # fmt: skip


@dataclass(frozen=True)
class PrefixLengths:
    """Which buffers are a cache, and what of it is shown.

    Attributes:
        buffers: Names of the buffers, and which dimension of each has the length of the context.
        context: How many tokens the cache holds.
        step: What the length shown is a multiple of, unless it is the context.
    """

    buffers: Mapping[str, int]
    context: int
    step: int

    def shown(self, module: torch.nn.Module, tokens: torch.Tensor, position: torch.Tensor) -> ShownPrefix:
        """What to enter while the module reads tokens.

        Args:
            module: Has the buffers.
            tokens: int64 `[1, n]`.
            position: Of the first of them, int64 `[1]`.
        """
        seen = ((position + tokens.shape[1] + (self.step - 1)) // self.step * self.step).clamp(max=self.context).item()
        torch._check(seen >= 1)  # type: ignore[no-untyped-call]
        torch._check(seen <= self.context)  # type: ignore[no-untyped-call]
        named = dict(module.named_buffers())
        return ShownPrefix([(named[name], dim) for name, dim in self.buffers.items()], self.context, seen)


def find_prefix(rows: Mapping[str, int], context: int) -> PrefixLengths | None:
    """The lengths to show of a cache; None where there is none, or it is too short to gain.

    Args:
        rows: Of each buffer that has a place for every token, the dimension of the places; see `find_rows`.
        context: How many tokens it holds.
    """
    step = max(_LEAST_STEP, -(-context // _STEPS))
    return PrefixLengths(dict(rows), context, step) if rows and step < context else None


def try_capture(module: torch.nn.Module, text: np.ndarray) -> None:
    """Find out whether torch.export can follow a module whose cache has a length that only the run knows.

    Args:
        module: Takes tokens and a position.
        text: A chunk of tokens.

    Raises:
        Exception: It cannot, for a reason of its own or of the model's code.
    """
    args = (torch.from_numpy(text[None]), torch.zeros(1, dtype=torch.int64))
    length = torch.export.Dim.AUTO if len(text) > 1 else torch.export.Dim.STATIC
    with torch.no_grad():
        torch.export.export(module, args, dynamic_shapes=({1: length}, None), strict=False)


class ShownPrefix(TorchFunctionMode):
    """While it is entered, whatever reads the cache reads its first `seen` tokens."""

    def __init__(self, cache: list[tuple[torch.Tensor, int]], context: int, seen: Any) -> None:
        """Show the first `seen` of `context` tokens of the buffers, along their dimensions."""
        super().__init__()
        self._cache, self._context, self._seen = cache, context, seen

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call a function of torch, with the beginnings in place of the buffers that it reads."""
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        if name == "__get__" and getattr(getattr(func, "__self__", None), "__name__", "") not in _PROPERTIES:
            return func(*args, **kwargs)
        # What is written is the buffer itself: its first argument.
        kept = 1 if name == "__setitem__" or (name.endswith("_") and not name.endswith("__")) else 0
        args = (*args[:kept], *(self._show(arg) for arg in args[kept:]))
        kwargs = {key: self._show(value) for key, value in kwargs.items()}
        if name == "scaled_dot_product_attention":
            args, kwargs = self._cut_mask(args, kwargs)
        elif name == "baddbmm":
            product = args[2] if len(args) > 2 else kwargs["batch2"]
            args = (self._cut(args[0]) if self._shorter(product) else args[0], *args[1:])
        elif _is_elementwise(name) and any(self._shorter(arg) for arg in args):
            args = tuple(self._cut(arg) for arg in args)
        return func(*args, **kwargs)

    def _show(self, given: Any) -> Any:
        if isinstance(given, list | tuple):
            return type(given)(self._show(item) for item in given) if type(given) in (list, tuple) else given
        for buffer, dim in self._cache:
            if given is buffer:
                return buffer.narrow(dim, 0, self._seen)
        return given

    def _cut_mask(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The mask of a fused attention, as long as its keys."""
        key = args[1] if len(args) > 1 else kwargs["key"]
        if not self._shorter(key, -2):
            return args, kwargs
        if len(args) > 3:
            return (*args[:3], self._cut(args[3]), *args[4:]), kwargs
        return args, {name: self._cut(value) if name == "attn_mask" else value for name, value in kwargs.items()}

    def _cut(self, given: Any) -> Any:
        """A tensor over the whole context, as long as what is seen of it; anything else as it is."""
        whole = isinstance(given, torch.Tensor) and given.dim() > 0 and _is(given.shape[-1], self._context)
        return given.narrow(-1, 0, self._seen) if whole else given

    def _shorter(self, given: Any, dim: int = -1) -> bool:
        """Whether it is a tensor over neither the whole context nor a single number, which would fit to both."""
        if not isinstance(given, torch.Tensor) or given.dim() < -dim:
            return False
        return not _is(given.shape[dim], self._context) and not _is(given.shape[dim], 1)


def _is_elementwise(name: str) -> bool:
    """`add`, `__add__`, `__radd__`, `__iadd__`, `add_`."""
    bare = name.strip("_")
    return bare in _ELEMENTWISE or (name.startswith("__") and bare[1:] in _ELEMENTWISE)


def _is(size: Any, number: int) -> bool:
    """Whether a size is this number for certain; a size that is known only at run time is not."""
    return isinstance(size, int) and size == number
