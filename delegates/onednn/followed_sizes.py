"""Sizes that a region cannot follow: a region computes all its sizes from those of the tensors that it is given.

```
y = aten.slice.Tensor(x, 0, 0, n)       # x: [128, 16]; n: the length of another input
z = aten.relu.default(y)                # y, z: [n, 16]
```

A region of both would be given x alone. Without the first it is given y, which has the size.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import torch
from torch.fx import Node


def find_unfollowed(region: Collection[Node]) -> frozenset[Node]:
    """The operators of a region that bring in a size which neither they nor the region read from a tensor."""
    inside = set(region)
    given = {
        symbol for node in region for read in node.all_input_nodes if read not in inside for symbol in _given_by(read)
    }
    return frozenset(
        node for node in region if not _symbols(node) <= given.union(*(_symbols(read) for read in node.all_input_nodes))
    )


def _given_by(node: Node) -> Iterator[Any]:
    """Symbols that a tensor's sizes give: those that are alone in one of them."""
    for size in _sizes(node):
        if len(size.free_symbols) == 1:
            yield from size.free_symbols


def _symbols(node: Node) -> set[Any]:
    return {symbol for size in _sizes(node) for symbol in size.free_symbols}


def _sizes(node: Node) -> Iterator[Any]:
    value = node.meta.get("val")
    for tensor in value if isinstance(value, list | tuple) else [value]:
        if isinstance(tensor, torch.Tensor):
            sizes: tuple[Any, ...] = tuple(tensor.shape)
            yield from (size.node.expr for size in sizes if isinstance(size, torch.SymInt))
