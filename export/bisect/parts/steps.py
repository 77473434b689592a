"""A program as a row of steps that can be parted anywhere, and what a part of it takes along.

A step is an operator with the getitems that take its result apart. No steps are: what depends on constants alone,
sizes, and the conversions of a quantized program. Every part that reads one of these has its own copy, so that a
delegate finds `dequantize -> operator -> quantize` in a part as it does in the whole.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.provenance import is_conversion, module_path_of, source_of
from edgex.delegates.graph.schema import higher_order_name, overload_of
from edgex.export.rewrites.editing.editor import constant_tensors
from edgex.export.rewrites.editing.mutation import without_writes


@dataclass(frozen=True, eq=False)
class Step:
    """One operator.

    Attributes:
        node: Its node.
        nodes: The node, and the getitems behind it.
        region: Which call into the delegate it goes into; None where it stays outside, or where that is not known.
    """

    node: Node
    nodes: tuple[Node, ...]
    region: int | None = None

    @property
    def name(self) -> str:
        """The operator, for example `aten.gelu.default`."""
        return str(higher_order_name(self.node) or self.node.target)

    @property
    def module(self) -> str | None:
        """Path of the module that runs it."""
        return module_path_of(self.node)

    def source(self, root: Path) -> str | None:
        """The user's `file.py:line`."""
        return source_of(self.node, root)


@dataclass(frozen=True)
class Whole:
    """A program that is to be cut.

    Attributes:
        program: Without operators that write in place.
        steps: In program order, those of one region together as far as that goes.
    """

    program: CapturedProgram
    steps: tuple[Step, ...]

    @cached_property
    def constants(self) -> frozenset[Node]:
        """Nodes that depend on no input and no state: weights, and what is computed of them."""
        return _constants_of(self.program)

    @cached_property
    def results(self) -> frozenset[Node]:
        """What the program returns, new state included."""
        return frozenset(self.program.exported.graph.output_node().all_input_nodes)

    def is_taken_along(self, node: Node) -> bool:
        """Whether a part that reads this value computes it itself."""
        return node in self.constants or is_conversion_node(node)


def make_whole(program: CapturedProgram, regions: Mapping[str, int]) -> Whole:
    """The program as steps.

    Args:
        program: It is not changed.
        regions: See `LoweredModule.regions`.
    """
    program = without_writes(program)
    constants = _constants_of(program)
    steps = []
    for node in program.exported.graph.nodes:
        if node.op != "call_function" or node.target is operator.getitem or node in constants:
            continue
        if is_conversion_node(node) or not node.users or not _has_tensors(node.meta.get("val")):
            continue
        picked = tuple(user for user in node.users if user.target is operator.getitem)
        steps.append(Step(node, (node, *picked), regions.get(node.name)))
    return Whole(program, tuple(_regions_together(steps)))


def is_conversion_node(node: Node) -> bool:
    """Whether a node quantizes, dequantizes or finds the range for that."""
    while node.target is operator.getitem:
        node = node.all_input_nodes[0]
    return node.op == "call_function" and is_conversion(str(node.target))


def _constants_of(program: CapturedProgram) -> frozenset[Node]:
    found = set(constant_tensors(program))
    for node in program.exported.graph.nodes:
        if node.op == "get_attr" or (
            node.op == "call_function" and not _is_random(node) and found.issuperset(node.all_input_nodes)
        ):
            found.add(node)
    return frozenset(found)


def _is_random(node: Node) -> bool:
    overload = overload_of(node)
    return overload is not None and torch.Tag.nondeterministic_seeded in overload.tags


def _has_tensors(value: Any) -> bool:
    return any(isinstance(part, torch.Tensor) for part in (value if isinstance(value, list | tuple) else (value,)))


def _regions_together(steps: Sequence[Step]) -> list[Step]:
    """An order in which a region's steps follow one another where nothing stands in the way."""
    owner = {node: step for step in steps for node in step.nodes}
    waits: dict[Step, set[Step]] = {}
    for step in steps:
        seen: set[Node] = set()
        stack = [read for node in step.nodes for read in node.all_input_nodes]
        found = waits.setdefault(step, set())
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if node in owner:
                found.add(owner[node])
            else:
                stack += node.all_input_nodes
        found.discard(step)
    order: list[Step] = []
    done: set[Step] = set()
    left = list(steps)
    while left:
        ready = [step for step in left if waits[step] <= done]
        region = order[-1].region if order else None
        step = next((one for one in ready if region is not None and one.region == region), ready[0])
        order.append(step)
        done.add(step)
        left.remove(step)
    return order
