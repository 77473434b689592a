"""Outputs that are rounded from numbers, judged by these: the cases get what such an output may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from edgex.delegates.base import CapturedProgram
from edgex.export.proof.references.ranks import tensors_of
from edgex.export.rewrites.discrete import Chain, find_chains, limits_of
from edgex.runtime.artifact.golden import Between, Case
from edgex.runtime.session.numerics import Tolerance


def judge_by_features(cases: Sequence[Case], verdict: Mapping[str, Any], program: CapturedProgram) -> tuple[Case, ...]:
    """The cases, with what a discrete output may be where it was not eager's.

    Args:
        cases: What was to be proved.
        verdict: The `edgex.verify/1` object of an artifact that did not pass.
        program: What was lowered, before it was quantized.
    """
    chains = find_chains(program)
    failed = {(found["name"], found["output"]) for found in verdict["cases"] if found["verdict"] == "fail"}
    wrong = [(name, chains[output]) for name, output in failed if output in chains]
    tolerance = Tolerance.from_json(verdict["tolerance"])
    return tuple(
        _with_limits(case, [chain for name, chain in wrong if name == case.name], program, tolerance) for case in cases
    )


def _with_limits(case: Case, chains: Sequence[Chain], program: CapturedProgram, tolerance: Tolerance) -> Case:
    """The case with what its outputs may be; as it is, where it has several steps."""
    if not chains or len(case.steps) != 1 or (case.kind, case.reference) != ("compare", "eager"):
        return case
    (step,) = case.steps
    limits = limits_of(program, tensors_of(step.inputs, program), chains, tolerance)
    between = {name: Between(*ends) for name, ends in limits.items() if step.outputs[name].shape == ends[0].shape}
    return replace(case, steps=(replace(step, between=between),)) if between else case
