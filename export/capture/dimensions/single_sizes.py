"""Ranges within which something has one element: `x[:, :-1]` where there are two.

Whether a size is 1 torch.export asks all the time (is it repeated? does it lie in order?), and of `n - 1` and of what a
convolution with stride 2 leaves of `n` it gives up: "Not all values of n satisfy the generated guard n - 1 != 1". For a
size of 1 a program seldom is another one: so the question is answered with no, and program and model are compared where
it is 1 after all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from edgex.delegates.graph.torch_internals import pytree
from edgex.export.capture.dimensions.dynamic import Asked, resize
from edgex.export.capture.torch_internals import whole_solutions
from edgex.export.source.eager import BufferSnapshot, reference_conditions
from edgex.export.source.leaves import Leaf
from edgex.runtime.session.numerics import measure_sqnr_db

# Sizes of one dimension at which program and model are compared, the smallest.
_MOST_COMPARED = 3
# Ranges of more numbers are not looked through.
_MOST_NUMBERS = 1 << 20
# The same operators in another order of additions.
_LEAST_SQNR_DB = 80.0

_COMPLAINT = re.compile(
    r"^\s+- (?:Not all values of (\w+) = (\S+) in .*satisfy the generated guard (.+) != (\d+)\.|.+)$"
)


def left_out_sizes(message: str, asked: Sequence[Asked]) -> Mapping[str, list[int]] | None:
    """The sizes within their ranges that torch.export does not take because something has one element then.

    Args:
        message: Its error.
        asked: What is dynamic.

    Returns:
        By the dimension's name, none where the condition holds for all; None where it complains of something else.
    """
    if "Constraints violated" not in message:
        return None
    complaints = message.partition("\nSuggested fixes:")[0].splitlines()[1:]
    found: dict[str, set[int]] = {}
    dims = {item.name: item.dim for item in asked if type(item.dim).__name__ == "Dim"}
    for complaint in filter(str.strip, complaints):
        if not complaint.lstrip().startswith("- "):
            break
        match = _COMPLAINT.match(complaint)
        if match is None or match[1] not in dims or match[4] not in ("0", "1"):
            return None
        dim = dims[match[1]]
        if not isinstance(dim.max, int) or dim.max - dim.min >= _MOST_NUMBERS:
            return None
        sizes = whole_solutions(match[3], match[2], int(match[4]), range(dim.min, dim.max + 1))
        if sizes is None:
            return None
        found.setdefault(match[1], set()).update(sizes)
    return {name: sorted(sizes)[:_MOST_COMPARED] for name, sizes in found.items()} or None


def describe_left_out(sizes: Mapping[str, Sequence[int]]) -> list[str]:
    """What the user should know of a program that was captured all the same; nothing where no size was left out."""
    listed = ", ".join(f"{name} = {size}" for name, several in sizes.items() for size in several)
    if not listed:
        return []
    return [
        f"torch.export leaves out {listed}, where a size becomes 1 or 0: the program gives what the model gives there"
    ]


def gives_the_same(
    module: torch.nn.Module,
    program: torch.export.ExportedProgram,
    structure: Any,
    leaves: Sequence[Leaf],
    asked: Sequence[Asked],
    sizes: Mapping[str, Sequence[int]],
) -> bool:
    """Whether a program gives what the model gives at these sizes.

    Args:
        module: The model; its buffers are what they were afterwards.
        program: Captured from it, over the same buffers.
        structure: Of the call's arguments, as a pytree.
        leaves: The example inputs.
        asked: What is dynamic.
        sizes: By the dimension's name.
    """
    buffers = BufferSnapshot(module)
    captured = program.module()
    for name, size in ((name, size) for name, several in sizes.items() for size in several):
        axes = [(item.input, item.axis) for item in asked if item.name == name]
        values = []
        for leaf in leaves:
            value = leaf.value
            for owner, axis in axes:
                value = resize(value, axis, size) if leaf.is_tensor and leaf.name == owner else value
            values.append(value)
        args, kwargs = pytree.tree_unflatten(values, structure)
        answers = []
        try:
            for call in (module, captured):
                with reference_conditions():
                    answers.append([one for one in pytree.tree_leaves(call(*args, **kwargs)) if _is_tensor(one)])
                buffers.restore()
        except Exception:  # the user's code, or what torch.export found in it
            buffers.restore()
            return False
        expected, found = answers
        if len(expected) != len(found) or not all(map(_alike, expected, found)):
            return False
    return True


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _alike(expected: torch.Tensor, found: torch.Tensor) -> bool:
    if expected.shape != found.shape or not expected.is_floating_point() or not expected.numel():
        return expected.shape == found.shape and (expected.is_floating_point() or torch.equal(expected, found))
    one, other = (torch.nan_to_num(part.detach().float()).cpu().numpy() for part in (expected, found))
    return not one.any() or measure_sqnr_db(one, other) >= _LEAST_SQNR_DB
