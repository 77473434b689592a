"""PyTorch's list of composite operators, made once while a program is lowered.

Each decomposition asks twice for the composite operators of each of dozens of namespaces, and looks up every operator
of the dispatcher for it. The hundreds that it found it gives new kernels, with type annotations that Python makes anew
for every one. Both are two thirds of the time that a network of three layers takes to be decomposed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any


@contextmanager
def composites_listed_once() -> Iterator[None]:
    """Within it, composite operators are looked up once in a process, and again when others are registered."""
    import torch
    from torch._export import utils
    from torch.export import decomp_utils, exported_program

    look_up = utils._collect_all_valid_cia_ops

    def look_up_new() -> frozenset[Any]:
        registered = torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
        return _look_up(look_up, tuple(registered))

    users: tuple[Any, ...] = (utils, decomp_utils, exported_program)
    for user in users:
        user._collect_all_valid_cia_ops = look_up_new
    try:
        with _kernels_without_annotations():
            yield
    finally:
        for user in users:
            user._collect_all_valid_cia_ops = look_up


@lru_cache(maxsize=1)
def _look_up(look_up: Callable[[], set[Any]], _registered: tuple[str, ...]) -> frozenset[Any]:
    """The composite operators while these are registered."""
    from torch._export import utils

    # What each of the namespaces would begin with.
    materialize: Any = utils._materialize_cpp_cia_ops
    materialize()
    utils._materialize_cpp_cia_ops = lambda: None
    try:
        return frozenset(look_up())
    finally:
        utils._materialize_cpp_cia_ops = materialize


@contextmanager
def _kernels_without_annotations() -> Iterator[None]:
    """Within it, a kernel for a dispatch key is put in its operator's table, and nothing else is done."""
    from torch._C import DispatchKey
    from torch._ops import OpOverload

    inherited = "py_impl" not in vars(OpOverload)
    general = OpOverload.py_impl

    def py_impl(self: Any, key: Any) -> Callable[[Any], Any]:
        if not isinstance(key, DispatchKey) or key in self.py_kernels:
            return general(self, key)

        def register(kernel: Any) -> Any:
            self.py_kernels[key] = kernel
            self._dispatch_cache.clear()
            return kernel

        return register

    operators: Any = OpOverload
    operators.py_impl = py_impl
    try:
        yield
    finally:
        if inherited:
            del operators.py_impl
        else:
            operators.py_impl = general
