"""Outputs that say where the largest values are, judged by these values: equals have no order.

```
values, indices = torch.topk(scores, 3)      # scores [2, 1, 1, 1]: PyTorch says [0, 1, 2], an engine [0, 3, 1]
```

Where such an output is not eager's, the case gets the values that are chosen from, and what the indices of both choose
is compared. Scores that differ by less than rounding may change places like equal ones.

Where the model goes on with what it chose, every output may follow: `boxes[indices]` of a detector. How far eager's own
answer moves when the scores that it chooses from do, by a few of their last bits, says what such a case can prove.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.provenance import source_of
from edgex.delegates.graph.schema import is_tuple, named_arguments, operator_name
from edgex.export.rewrites.discrete import Watch
from edgex.export.rewrites.editing.editor import input_values
from edgex.export.source.eager import reference_conditions
from edgex.runtime.artifact.golden import Case, Ranked
from edgex.runtime.session.numerics import EXACT_SQNR_DB, measure_sqnr_db

aten = torch.ops.aten

# Result that holds indices, by operator.
_CHOOSING = {
    **dict.fromkeys((aten.topk.default, aten.sort.default, aten.sort.stable, aten.kthvalue.default), 1),
    **dict.fromkeys((aten.max.dim, aten.min.dim, aten.median.dim), 1),
    **dict.fromkeys((aten.argmax.default, aten.argmin.default, aten.argsort.default), None),
}
# Those whose order among equals PyTorch leaves open.
_UNORDERED = frozenset((aten.topk.default, aten.sort.default, aten.argsort.default, aten.kthvalue.default))
# How far scores are moved, as a share of the largest: a few last bits, as sums in another order round them.
_MOVED_BY = 8 * float(np.finfo(np.float32).eps)
# Eager moves as far where the artifact is at most three times as far from it.
_AS_FAR_DB = 20 * math.log10(3)
# Two of them keep their order one time in two.
_MOVES = 12
# Operators that keep the numbers and their places.
_CONVERSIONS = frozenset(f"aten::{name}" for name in ("to", "_to_copy", "clone", "detach", "alias", "contiguous"))


@dataclass(frozen=True)
class _Choice:
    """An output that holds indices of one operator, and along which axis (None: of all values in a row)."""

    output: str
    node: Node
    axis: int | None


def judge_by_values(cases: Sequence[Case], verdict: Mapping[str, Any], program: CapturedProgram) -> tuple[Case, ...]:
    """The cases, with the values that indices choose from where an output of indices was not eager's.

    Args:
        cases: What was to be proved.
        verdict: The `edgex.verify/1` object of an artifact that did not pass.
        program: What was lowered, before it was quantized.
    """
    failed = {(found["name"], found["output"]) for found in verdict["cases"] if found["verdict"] == "fail"}
    choices = {choice.output: choice for choice in _find_choices(program)}
    wrong = [(name, choices[output]) for name, output in failed if output in choices]
    return tuple(_with_ranks(case, [choice for name, choice in wrong if name == case.name], program) for case in cases)


def _find_choices(program: CapturedProgram) -> list[_Choice]:
    results = program.exported.graph.output_node().args[0]
    assert is_tuple(results)
    names = [spec.name for spec in program.outputs]
    found = []
    for name, result in zip(names, results[len(results) - len(names) :], strict=True):
        choice = _choice_of(result)
        if choice is not None:
            axis = named_arguments(choice).get("dim", -1)
            found.append(_Choice(name, choice, axis))
    return found


def _choice_of(result: Any) -> Node | None:
    """The operator whose indices a result is; None where it is something else."""
    while isinstance(result, Node) and operator_name(result) in _CONVERSIONS:
        result = result.args[0]
    if not isinstance(result, Node):
        return None
    if result.target in _CHOOSING:
        return result if _CHOOSING[result.target] is None else None
    source = result.args[0] if result.args else None
    if isinstance(source, Node) and source.target in _CHOOSING and len(result.args) > 1:
        return source if result.args[1] == _CHOOSING[source.target] else None
    return None


def _with_ranks(case: Case, choices: Sequence[_Choice], program: CapturedProgram) -> Case:
    """The case with what its outputs choose from; as it is, where it has several steps."""
    if not choices or len(case.steps) != 1 or (case.kind, case.reference) != ("compare", "eager"):
        return case
    (step,) = case.steps
    tensors = tensors_of(step.inputs, program)
    watch = Watch(program, {choice.node.all_input_nodes[0] for choice in choices})
    with reference_conditions():
        watch.run(*input_values(program, tensors))
    ranked = {}
    for choice in choices:
        values = watch.values[choice.node.all_input_nodes[0]]
        flat = values.reshape(-1) if choice.axis is None else values
        axis = 0 if choice.axis is None else choice.axis % max(1, values.ndim)
        ranked[choice.output] = Ranked(flat.reshape(1) if flat.ndim == 0 else flat, axis)
    return replace(case, steps=(replace(step, ranked=ranked),))


def measure_order_db(
    case: Case, program: CapturedProgram, enough_db: Mapping[str, float], moved_by: float = _MOVED_BY
) -> dict[str, float]:
    """SQNR in dB of eager's outputs against those where scores that it sorts move by their last bits.

    Args:
        case: Whose answer is eager's.
        program: What was lowered, before it was quantized.
        enough_db: Outputs to look at; the search ends when each has moved as far.
        moved_by: How far scores are moved, as a share of the largest.

    Returns:
        The least of a few by output; nothing where the program sorts nothing, or the case has several steps.
    """
    if len(case.steps) != 1 or not any(node.target in _UNORDERED for node in program.exported.graph.nodes):
        return {}
    (step,) = case.steps
    least = dict.fromkeys(enough_db, EXACT_SQNR_DB)
    for seed in range(_MOVES):
        with reference_conditions():
            results = _Shake(program, seed, moved_by).run(*input_values(program, tensors_of(step.inputs, program)))
        for spec, result in zip(program.outputs, results[len(results) - len(program.outputs) :], strict=True):
            if spec.name in least:
                least[spec.name] = min(least[spec.name], _distance_db(step.outputs[spec.name], result))
        if all(least[name] <= enough for name, enough in enough_db.items()):
            break
    return least


def describe_order(
    case: Case, found_db: Mapping[str, float], limit_db: float, program: CapturedProgram
) -> tuple[float, str] | None:
    """Say so where nearly equal scores alone may be what sets an artifact apart from eager.

    The queries of a detector with random weights are such: 300 of 8,400 scores are taken that lie closer together than
    rounding in the layers before moves them. No engine passes then, nor does eager in float64.

    Args:
        case: One that failed.
        found_db: SQNR in dB of its outputs that are not eager's.
        limit_db: What it had to have.
        program: What was lowered, before it was quantized.

    Returns:
        How far in dB eager's floats move, and what decides; None where its answer moves less than the artifact's does.
    """
    enough_db = {output: found + _AS_FAR_DB for output, found in found_db.items()}
    # As far as a score may be from eager's where it is an output itself.
    allowed = 10 ** (-limit_db / 20)
    moved_db = measure_order_db(case, program, enough_db, allowed)
    if not moved_db or any(moved_db[output] > enough for output, enough in enough_db.items()):
        return None
    node = next(node for node in program.exported.graph.nodes if node.target in _UNORDERED)
    sorting = str(node.target).split(".")[1]
    where = source_of(node, program.source_root) or "an unknown line"
    least_db = min((moved for moved in moved_db.values() if moved > -EXACT_SQNR_DB), default=limit_db)
    how = f"({least_db:.0f} dB) " if least_db < limit_db else ""
    return least_db, (
        f"nearly equal scores decide: eager's own answer moves as far {how}when what {sorting} sorts at {where} moves "
        f"by {allowed:.2g} of the largest, which is as far as numbers may be from eager's"
    )


def tensors_of(inputs: Mapping[str, np.ndarray], program: CapturedProgram) -> list[torch.Tensor]:
    """A step's inputs in the order of the program's."""
    return [torch.from_numpy(np.array(inputs[spec.name])).to(getattr(torch, spec.dtype)) for spec in program.inputs]


def _distance_db(expected: np.ndarray, found: torch.Tensor) -> float:
    """As the proof judges: integers are equal or not, NaN and infinity stand at the same places."""
    if not found.dtype.is_floating_point:
        return EXACT_SQNR_DB if np.array_equal(expected, found.numpy()) else -EXACT_SQNR_DB
    actual = found.float().numpy()
    if not np.array_equal(np.isfinite(expected), np.isfinite(actual)):
        return -EXACT_SQNR_DB
    return measure_sqnr_db(expected, actual)


class _Shake(torch.fx.Interpreter):
    """Moves the scores of whatever sorts."""

    def __init__(self, program: CapturedProgram, seed: int, moved_by: float) -> None:
        super().__init__(program.exported.graph_module)
        self._moved_by = moved_by
        self._random = torch.Generator().manual_seed(seed)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target in _UNORDERED and args[0].is_floating_point() and args[0].numel():
            scores = args[0]
            largest = torch.nan_to_num(scores, 0.0, 0.0, 0.0).abs().max()
            noise = torch.rand(scores.shape, generator=self._random, dtype=scores.dtype) * 2 - 1
            # All zero is a tie as well: every score was masked.
            args = (scores + noise * (largest if largest > 0 else 1.0) * self._moved_by, *args[1:])
        return super().call_function(target, args, kwargs)
