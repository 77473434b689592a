"""What every operator of a program computes in PyTorch, on the inputs of one case.

Values are not kept: a program of any size would hold all of its activations at once. Whoever needs some runs it again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import content_of, leaves_of
from edgex.export.quantization.running import GraphRunner

# Called with each node and its value, in program order.
Watch = Callable[[Node, Any], Any]


@dataclass(frozen=True)
class Feed:
    """The inputs of one case.

    Attributes:
        name: Of the case.
        steps: Tensors of each run in a row, in the order of the program's inputs; the last one is looked at.
        state: State that other methods left before, by name; what is not in it is as at the start.
    """

    name: str
    steps: tuple[tuple[torch.Tensor, ...], ...]
    state: Mapping[str, torch.Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class TensorForm:
    """A tensor without its values: shape, strides in elements, dtype."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype

    @property
    def text(self) -> str:
        """For example `float32`."""
        return str(self.dtype).removeprefix("torch.")


@dataclass(frozen=True)
class Recording:
    """One program on one feed.

    Attributes:
        program: What ran.
        feed: On what.
        forms: By node name, the node's value with forms in place of tensors; numbers as they are.
        unsteady: First node that gave other values the second time, though its inputs were the same; None where
            repeated runs agree.
        not_finite: First node that made NaN or infinity of finite inputs; None where none did.
    """

    program: CapturedProgram
    feed: Feed
    forms: Mapping[str, Any]
    unsteady: Node | None
    not_finite: Node | None

    def values(self, names: Collection[str]) -> dict[str, torch.Tensor]:
        """The values of some nodes, by name; the program runs once more."""
        found: dict[str, torch.Tensor] = {}

        def keep(node: Node, value: Any) -> None:
            if node.name in names and isinstance(value, torch.Tensor):
                found[node.name] = value.detach().clone()

        run_watched(self.program, self.feed, keep)
        return found


def record(program: CapturedProgram, feed: Feed) -> Recording:
    """Run a program twice, and note the form of every value and where the runs part.

    Args:
        program: Without operators that write in place; see `edgex.export.bisect.parts.steps.Whole`.
        feed: The inputs.
    """
    forms: dict[str, Any] = {}
    digests: dict[str, str] = {}
    first: dict[str, Node] = {}
    finite: dict[str, bool] = {}

    def note(node: Node, value: Any) -> None:
        forms[node.name] = _form_of(value)
        digests[node.name] = _digest(value)
        finite[node.name] = _is_finite(value)
        inputs_are_finite = all(finite.get(read.name, True) for read in node.all_input_nodes)
        if not finite[node.name] and node.op == "call_function" and inputs_are_finite:
            first.setdefault("not finite", node)

    def again(node: Node, value: Any) -> None:
        if _digest(value) != digests[node.name]:
            first.setdefault("unsteady", node)

    run_watched(program, feed, note)
    run_watched(program, feed, again)
    return Recording(program, feed, forms, first.get("unsteady"), first.get("not finite"))


def run_watched(program: CapturedProgram, feed: Feed, watch: Watch) -> list[torch.Tensor]:
    """Run a feed's steps in a row; `watch` sees every value of the last one.

    Args:
        program: It is not changed.
        feed: Inputs of each run, and the state before the first.
        watch: What it returns, unless that is None, takes the value's place.

    Returns:
        The outputs of the last step.
    """
    seen: list[bool] = [False]

    class Watched(Interpreter):
        def run_node(self, n: Node) -> Any:
            value = super().run_node(n)
            if not seen[0]:
                return value
            other = watch(n, value)
            return value if other is None else other

    def interpret(module: GraphModule) -> Interpreter:
        return Watched(module)

    runner = GraphRunner(program, interpreter=interpret)
    runner.set_state(feed.state)
    outputs: list[torch.Tensor] = []
    for at, inputs in enumerate(feed.steps):
        seen[0] = at == len(feed.steps) - 1
        outputs = runner.run(inputs)
    return outputs


def _form_of(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return TensorForm(tuple(value.shape), tuple(value.stride()), value.dtype)
    if isinstance(value, list | tuple):
        return tuple(_form_of(part) for part in value)
    return value


def _digest(value: Any) -> str:
    found = hashlib.blake2b(digest_size=16)
    for leaf in leaves_of(value):
        if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided and leaf.numel():
            found.update(content_of(leaf).numpy().tobytes())
    return found.hexdigest()


def _is_finite(value: Any) -> bool:
    tensors = [leaf for leaf in leaves_of(value) if isinstance(leaf, torch.Tensor)]
    return all(bool(torch.isfinite(t).all()) for t in tensors if t.is_floating_point() or t.is_complex())
