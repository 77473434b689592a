"""What fp16 and bf16 can be held to: the error of PyTorch's own kernels in the same precision.

A deep convolutional network in bfloat16 is 25 to 30 dB from float32 in any engine, in eager too: each of its layers
rounds to eight bits. So where a case fails the fixed limit, PyTorch runs the converted program once, and errors are
compared: the artifact's may be `MULTIPLE` times PyTorch's, never more than what is `FLOOR_DB` below the fixed limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from edgex.export.proof.references.float64_errors import DISTANCE_DB, Judged
from edgex.export.proof.references.movement import tensors_of
from edgex.export.proof.references.own_errors import rounded_down
from edgex.export.quantization.running import GraphRunner
from edgex.runtime.artifact.golden import Case
from edgex.runtime.session.numerics import EXACT_SQNR_DB, measure_sqnr_db

if TYPE_CHECKING:
    from edgex.delegates.base import CapturedProgram
    from edgex.export.source.eager import EagerModel

# The noise of an output is then at most a tenth of it in bf16, where 30 dB are asked for.
FLOOR_DB = 10.0


def judge_by_precision(
    cases: Sequence[Case], verdict: Mapping[str, Any], eager: EagerModel, program: CapturedProgram
) -> Judged:
    """Give failed cases the limit that PyTorch's own error in this precision allows.

    Args:
        cases: What was to be proved.
        verdict: The `edgex.verify/1` object of an artifact in fp16 or bf16 that did not pass.
        eager: The user's model.
        program: What was lowered, in the artifact's precision.
    """
    limit = float(verdict["tolerance"]["min_sqnr_db"])
    failed: dict[str, float] = {}
    for found in verdict["cases"]:
        if found["verdict"] == "fail":
            measured = -EXACT_SQNR_DB if found["sqnr_db"] is None else float(found["sqnr_db"])
            failed[str(found["name"])] = min(measured, failed.get(str(found["name"]), EXACT_SQNR_DB))
    if min(failed.values(), default=limit) < limit - FLOOR_DB:
        return Judged(tuple(cases))
    runner = GraphRunner(program)
    changed: dict[str, Case] = {}
    sentences = []
    for case in cases:
        if case.name not in failed or case.kind != "compare" or case.reference != "eager":
            continue
        own = _measure_own_error_db(case, eager, runner)
        allowed = max(limit - FLOOR_DB, rounded_down(own - DISTANCE_DB))
        if allowed < limit:
            changed[case.name] = replace(case, min_sqnr_db=allowed)
            whose = f"PyTorch's own {program.precision} is {own:.0f} dB from float32"
            sentences.append(f"{case.name}: held to {allowed:g} dB, not {limit:g}: {whose}")
    return Judged(tuple(changed.get(case.name, case) for case in cases), tuple(sentences))


def _measure_own_error_db(case: Case, eager: EagerModel, runner: GraphRunner) -> float:
    """SQNR in dB of the converted program's outputs, as PyTorch computes them, against eager float32's; the least."""
    runner.reset()
    found = [EXACT_SQNR_DB]
    for step in case.steps:
        outputs = runner.run(tensors_of(step.inputs, eager))
        for spec, tensor in zip(eager.outputs, outputs, strict=True):
            if tensor.dtype.is_floating_point and spec.name in step.outputs:
                found.append(measure_sqnr_db(step.outputs[spec.name], tensor.float().numpy()))
    return min(found)
