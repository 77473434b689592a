"""What rules ask of a sum of Einstein: its letters, and which of its factors are weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.values import largest_size
from edgex.export.rewrites.editing.editor import constant_tensors
from edgex.export.rewrites.editing.substitution import static
from edgex.export.rewrites.matrices.contraction import same_size

# A weight that others read may be stored in another order, too, up to this many bytes.
_COPY_BYTES = 1 << 20
# What a size without a bound counts for.
_UNBOUNDED = 1 << 10


class Use(Enum):
    """What a factor is."""

    COMPUTED = "computed"
    WEIGHT = "weight"
    SHARED = "shared"  # a large weight that something else reads as well


@dataclass(frozen=True)
class Weights:
    """The weights of a program, by name: rules are asked about its edited copy, too."""

    by_name: Mapping[str, Use]

    def use(self, factor: Any) -> Use:
        """What a factor of a product is."""
        return self.by_name.get(factor.name, Use.COMPUTED) if isinstance(factor, Node) else Use.COMPUTED


def weights_of(program: CapturedProgram) -> Weights:
    """The weights of a program, and which of them are large and read by several operators."""
    return Weights(
        {
            node.name: Use.SHARED
            if len(node.users) > 1 and tensor.numel() * tensor.element_size() > _COPY_BYTES
            else Use.WEIGHT
            for node, tensor in constant_tensors(program).items()
        }
    )


def read_equation(
    equation: str, operands: Sequence[torch.Tensor], *, varying: bool = False
) -> tuple[list[str], str, dict[str, int]] | None:
    """The letters of each factor and of the result, and their sizes.

    Args:
        equation: As `einsum` takes it.
        operands: Its factors.
        varying: Take sizes that only a run knows, too; they are given as what they are at most.

    Returns:
        None for what has an ellipsis, no result, a letter twice in a word, one element that is repeated, no element,
        sizes that only a run knows, or factors of other types than one of floats.
    """
    given, _, out = equation.replace(" ", "").partition("->")
    words = given.split(",")
    if "." in equation or not out or not set(given).issuperset(out):
        return None
    if any(len(set(word)) < len(word) for word in (*words, out)):
        return None
    if not varying and not all(static(*one.shape) for one in operands):
        return None
    if len({one.dtype for one in operands}) > 1 or not operands[0].is_floating_point():
        return None
    given_sizes: dict[str, Any] = {}
    for word, operand in zip(words, operands, strict=True):
        for letter, size in zip(word, operand.shape, strict=True):
            if not same_size(given_sizes.setdefault(letter, size), size):
                return None
    sizes = {letter: largest_size(size) or (0 if static(size) else _UNBOUNDED) for letter, size in given_sizes.items()}
    return None if 0 in sizes.values() else (words, out, sizes)
