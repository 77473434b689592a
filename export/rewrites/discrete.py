"""Outputs that are made discrete at the end, and what they may be: rounding decides between neighbours.

```
image = (features * 255).round().clamp(0, 255).to(torch.uint8)      # 127.49999 in eager, 127.50001 in an engine
mask = scores > 0.5
```

Such an output lies between what eager's own operators make of eager's features, moved down and up by as much as the
tolerance lets a float output be off. An engine that rounds where eager truncates gives values outside.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.fx import Interpreter, Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import is_tuple, leaves_of, operator_name
from edgex.export.rewrites.editing.editor import input_values
from edgex.export.source.eager import reference_conditions
from edgex.runtime.session.numerics import Tolerance

# Of one tensor, each element by itself, and never up in one place and down in another; and those that move elements.
_MONOTONE = frozenset(
    f"aten::{name}"
    for name in (
        *("to", "_to_copy", "clone", "detach", "alias", "contiguous", "lift_fresh_copy", "relu", "relu_"),
        *("round", "floor", "ceil", "trunc", "fix", "round_", "floor_", "clamp", "clamp_min", "clamp_max", "clamp_"),
        *("gt", "ge", "lt", "le", "add", "sub", "mul", "div", "neg", "mul_", "add_"),
        *("view", "reshape", "permute", "transpose", "squeeze", "unsqueeze", "flatten", "select", "slice", "flip"),
        *("movedim", "expand"),
    )
)
_DISCRETE = frozenset(f"aten::{name}" for name in ("round", "floor", "ceil", "trunc", "fix", "round_", "floor_"))


@dataclass(frozen=True)
class Chain:
    """An output, the features that it is made of, and the operators between them in their order."""

    output: str
    features: Node
    steps: tuple[Node, ...]


def find_chains(program: CapturedProgram) -> dict[str, Chain]:
    """The discrete outputs of a program, by name."""
    results = program.exported.graph.output_node().args[0]
    assert is_tuple(results)
    named = zip(program.outputs, results[len(results) - len(program.outputs) :], strict=True)
    found = (_chain_of(spec.name, result) for spec, result in named if isinstance(result, Node))
    return {chain.output: chain for chain in found if chain is not None}


def _chain_of(output: str, result: Node) -> Chain | None:
    steps: list[Node] = []
    node = result
    while operator_name(node) in _MONOTONE and node.all_input_nodes == [node.args[0]]:
        steps.insert(0, node)
        node = node.all_input_nodes[0]
    features = node.meta.get("val")
    if not steps or not isinstance(features, torch.Tensor) or features.dtype != torch.float32:
        return None
    stays_float = all(step.meta["val"].is_floating_point() for step in steps)
    if stays_float and not any(operator_name(step) in _DISCRETE for step in steps):
        return None
    return Chain(output, node, tuple(steps))


def limits_of(
    program: CapturedProgram, inputs: Sequence[torch.Tensor], chains: Collection[Chain], tolerance: Tolerance
) -> Mapping[str, tuple[np.ndarray, np.ndarray]]:
    """The least and the largest value of each element, by output; booleans as 0 and 1.

    Args:
        program: Whose operators are followed.
        inputs: The tensors of one run, from the initial state.
        chains: Outputs of the program.
        tolerance: How far features may be off.
    """
    watch = Watch(program, {chain.features for chain in chains})
    with reference_conditions():
        watch.run(*input_values(program, inputs))
    limits = {}
    for chain in chains:
        features = torch.from_numpy(watch.values[chain.features])
        finite = features[features.isfinite()]
        largest = float(finite.abs().max()) if finite.numel() else 0.0
        moved = tolerance.max_abs_allowed(largest)
        if moved is None:
            moved = largest * 10 ** (-tolerance.min_sqnr_db / 20)
        ends = [_follow(program, chain, features + by) for by in (-moved, moved)]
        limits[chain.output] = torch.minimum(*ends).numpy(), torch.maximum(*ends).numpy()
    return limits


def _follow(program: CapturedProgram, chain: Chain, features: torch.Tensor) -> torch.Tensor:
    """What the chain's operators make of other features."""
    runner = Interpreter(program.exported.graph_module)
    runner.env[chain.features] = features
    with reference_conditions():
        for step in chain.steps:
            runner.env[step] = runner.run_node(step)
    found: torch.Tensor = runner.env[chain.steps[-1]]
    return found.to(torch.uint8) if found.dtype == torch.bool else found


class Watch(Interpreter):
    """Keeps some values of a run."""

    def __init__(self, program: CapturedProgram, watched: set[Node]) -> None:
        super().__init__(program.exported.graph_module)
        self._watched = watched
        self.values: dict[Node, np.ndarray] = {}

    def run_node(self, n: Node) -> Any:
        """As the interpreter's own, beside which the value is kept."""
        value = super().run_node(n)
        if n in self._watched:
            (tensor,) = leaves_of(value)
            tensor = tensor.detach()
            self.values[n] = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).clone().numpy()
        return value
