"""Where an error that was born elsewhere grows: the engine's values put into eager's run, and followed from there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from edgex.export.bisect.parts.recording import Recording, run_watched
from edgex.export.bisect.parts.steps import Step, Whole
from edgex.export.proof.verification import to_array
from edgex.runtime.session.numerics import EXACT_SQNR_DB, measure_sqnr_db

# An operator whose output is this much further from eager's than its worst input has enlarged the error: twice as far.
GROWTH_DB = 6.0
MOST = 8


@dataclass(frozen=True)
class Amplified:
    """A step that enlarges an error which it did not make.

    Attributes:
        step: Which.
        input_db: Worst SQNR of what it reads.
        error_db: Of what it gives.
    """

    step: Step
    input_db: float
    error_db: float


def find_amplified(
    whole: Whole, recording: Recording, given: Mapping[str, np.ndarray], born: Collection[Step]
) -> list[Amplified]:
    """Follow the engine's values through eager.

    Args:
        whole: The program.
        recording: Of the case.
        given: By node name, what the engine computed there instead of eager's value.
        born: Steps that are at fault themselves.

    Returns:
        The steps that enlarge it most, in program order.
    """
    if not given:
        return []
    exact: dict[str, np.ndarray] = {}
    # Behind a quantized operator it is the dequantized value that is given.
    wanted = {node.name for step in whole.steps for node in step.nodes} | given.keys()
    exact = {name: to_array(value) for name, value in recording.values(wanted).items()}
    errors: dict[Node, float] = {}

    def follow(node: Node, value: Any) -> Any:
        other = None
        if node.name in given and isinstance(value, torch.Tensor):
            other = torch.from_numpy(np.array(given[node.name])).to(value.dtype)
        now = value if other is None else other
        if isinstance(now, torch.Tensor) and node.name in exact and now.is_floating_point():
            errors[node] = measure_sqnr_db(exact[node.name], to_array(now))
        return other

    run_watched(whole.program, recording.feed, follow)
    guilty = {node for step in born for node in step.nodes}
    found = []
    for step in whole.steps:
        if step.node in guilty:
            continue
        inputs = [errors[node] for node in _sources(step.node, errors) if node in errors]
        outputs = [errors[node] for node in step.nodes if node in errors]
        if inputs and outputs and min(outputs) < min(min(inputs), EXACT_SQNR_DB) - GROWTH_DB:
            found.append(Amplified(step, min(inputs), min(outputs)))
    worst = sorted(found, key=lambda item: item.error_db - item.input_db)[:MOST]
    return sorted(worst, key=lambda item: whole.steps.index(item.step))


def _sources(node: Node, errors: Mapping[Node, float]) -> list[Node]:
    """What a node reads, through conversions."""
    found, stack, seen = [], list(node.all_input_nodes), set[Node]()
    while stack:
        read = stack.pop()
        if read in seen:
            continue
        seen.add(read)
        if read in errors:
            found.append(read)
        elif read.op == "call_function":
            stack += read.all_input_nodes
    return found
