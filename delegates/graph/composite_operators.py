"""PyTorch's list of composite operators, made once while a program is lowered.

Each decomposition asks for all composite operators of each of the dozen namespaces, and each time every operator of the
dispatcher is looked up again: a third of a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def composites_listed_once() -> Iterator[None]:
    """Within it, operators are looked up in the dispatcher once, and again when more of them are registered."""
    import torch
    from torch._export import utils

    look_up = utils._materialize_cpp_cia_ops
    listed = 0

    def only_new() -> None:
        nonlocal listed
        registered = len(torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd"))
        if registered != listed:
            look_up()
            listed = registered

    utils._materialize_cpp_cia_ops = only_new
    try:
        yield
    finally:
        utils._materialize_cpp_cia_ops = look_up
