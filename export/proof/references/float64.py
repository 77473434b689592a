"""Run the user's model in float64: weights widened for as long as it takes, and what operators are given with them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from edgex.delegates.graph.schema import schema_of
from edgex.delegates.graph.torch_internals import OpOverload, TorchDispatchMode, pytree

_NARROW = (torch.float32, torch.float16, torch.bfloat16)


@contextlib.contextmanager
def in_float64(module: Any) -> Iterator[None]:
    """Within it, whatever is computed with floating-point numbers is computed in float64.

    Args:
        module: Its parameters and buffers are float64 within, and the same tensors with the same values afterwards; may
            be any callable, whose tensors are then widened wherever an operator reads them.
    """
    tensors = [*module.parameters(), *module.buffers()] if isinstance(module, torch.nn.Module) else []
    saved = [(tensor, tensor.data) for tensor in tensors if tensor.dtype in _NARROW and not tensor.is_inference()]
    try:
        for tensor, data in saved:
            tensor.data = data.double()
        with _Widened():  # type: ignore[no-untyped-call]  # its parent has no types
            yield
    finally:
        for tensor, data in saved:
            tensor.data = data


class _Widened(TorchDispatchMode):  # type: ignore[no-untyped-call]  # its parent has no types
    """Widens what operators are given: constants made in forward, dtypes asked for, tensors that are no weights."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        originals: list[tuple[torch.Tensor, torch.Tensor]] = []

        def widen(value: Any) -> Any:
            if isinstance(value, torch.Tensor) and value.dtype in _NARROW:
                wide = value.double()
                originals.append((value, wide))
                return wide
            return torch.float64 if isinstance(value, torch.dtype) and value in _NARROW else value

        args, kwargs = pytree.tree_map(widen, (args, kwargs or {}))
        result = func(*args, **kwargs)
        if isinstance(func, OpOverload) and schema_of(func).is_mutable:
            for narrow, wide in originals:
                narrow.copy_(wide)
        return pytree.tree_map(lambda value: value.double() if _is_narrow(value) else value, result)


def _is_narrow(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in _NARROW
