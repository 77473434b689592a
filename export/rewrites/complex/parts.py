"""Complex values as pairs of real ones, while the operators of a program are replaced one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.graph.schema import leaves_of
from edgex.export.rewrites.editing.building import Replacement

_aten = torch.ops.aten


class NotTaken(Exception):
    """An operator is used in a way that has no real form here."""


def is_complex(node: Node) -> bool:
    """Whether a node gives something complex."""
    return any(isinstance(leaf, torch.Tensor) and leaf.is_complex() for leaf in leaves_of(node.meta.get("val")))


@dataclass(frozen=True)
class Pair:
    """A complex value: real part, and imaginary part or None for zero. Of several values, their nodes have tuples."""

    real: Node
    imag: Node | None


def each(pair: Pair, change: Callable[[Node], Node]) -> Pair:
    """The same for both parts."""
    return Pair(change(pair.real), None if pair.imag is None else change(pair.imag))


@dataclass
class Work:
    """What the operators of one program share while they are replaced.

    Attributes:
        constants: Values of weights and constants, by node of the original.
        pairs: What became of the values so far, by node of the original.
        made: Every operator that was added.
        added: Constants that were added, by name.
    """

    constants: Mapping[Node, torch.Tensor]
    pairs: dict[Node, Pair] = field(default_factory=dict)
    made: list[Node] = field(default_factory=list)
    added: dict[str, Node] = field(default_factory=dict)


class Step:
    """One operator being replaced: reads pairs, adds real operators."""

    def __init__(self, replacement: Replacement, work: Work) -> None:
        self._replacement = replacement
        self._work = work

    def call(self, target: Any, *args: Any, **kwargs: Any) -> Node:
        """Add an operator."""
        node = self._replacement.call(target, *args, **kwargs)
        self._work.made.append(node)
        return node

    def constant(self, name: str, tensor: torch.Tensor) -> Node:
        """Add a constant, once for all operators that give the same name."""
        if name not in self._work.added:
            self._work.added[name] = self._replacement.constant(name, tensor.contiguous())
        return self._work.added[name]

    def value(self, node: Node) -> torch.Tensor:
        """The value of a weight or constant."""
        if node not in self._work.constants:
            raise NotTaken
        return self._work.constants[node]

    def pair(self, value: Any) -> Pair:
        """A node of the original as real and imaginary part; a real one has none."""
        if not isinstance(value, Node):
            raise NotTaken
        if value in self._work.pairs:
            return self._work.pairs[value]
        if not is_complex(value):
            return Pair(self._replacement.read(value), None)
        if value not in self._work.constants:
            raise NotTaken
        tensor = self._work.constants[value].resolve_conj()
        pair = Pair(
            self.constant(f"{value.name}_real", tensor.real),
            self.constant(f"{value.name}_imag", tensor.imag.resolve_neg()),
        )
        self._work.pairs[value] = pair
        return pair

    def add(self, one: Node | None, other: Node | None, minus: bool = False) -> Node | None:
        """The sum or difference of two parts; None is zero."""
        if other is None:
            return one
        if one is None:
            return self.call(_aten.neg.default, other) if minus else other
        return self.call(_aten.sub.Tensor if minus else _aten.add.Tensor, one, other)

    def times(self, one: Node | None, other: Any) -> Node | None:
        """The product of two parts; None is zero."""
        return None if one is None or other is None else self.call(_aten.mul.Tensor, one, other)

    def imag(self, pair: Pair) -> Node:
        """The imaginary part, zeros where there is none."""
        return pair.imag if pair.imag is not None else self.call(_aten.zeros_like.default, pair.real)
