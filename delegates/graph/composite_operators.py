"""PyTorch's list of composite operators, made once in a plan.

Each decomposition asks for all composite operators of each of the dozen namespaces, and each time every operator of the
dispatcher is looked up again: a third of a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def composites_listed_once() -> Iterator[None]:
    """Within it, operators are looked up in the dispatcher once; none may be defined."""
    from torch._export import utils

    look_up = utils._materialize_cpp_cia_ops
    listed = False

    def once() -> None:
        nonlocal listed
        if not listed:
            look_up()
            listed = True

    utils._materialize_cpp_cia_ops = once
    try:
        yield
    finally:
        utils._materialize_cpp_cia_ops = look_up
