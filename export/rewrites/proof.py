"""Compare a rewritten program with eager on the example inputs, and drop the rewrite that changes the numbers.

One run of the graph proves all rewrites together. Only where that fails is the program run behind each of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.export.graph_signature import OutputKind

from edgex.delegates.base import CapturedProgram
from edgex.delegates.recipes.tolerances import DEFAULT_TOLERANCES
from edgex.export.proof.references.own_errors import OwnError, measure_own_errors
from edgex.export.proof.references.undecided import Distance, find_movement
from edgex.export.rewrites import Rewrite, apply_rewrites, passes_of
from edgex.export.rewrites.discrete import find_chains, limits_of
from edgex.export.rewrites.editing.editor import input_values
from edgex.export.source.eager import EagerModel, reference_conditions
from edgex.runtime.artifact.golden import Case, Step
from edgex.runtime.session.numerics import Comparison, compare_limits, compare_output

# Which share of an output's integers a rewrite may change, or how far all of them as a share of the largest.
_FEW = 1e-3
# How many times eager's own error a rewrite may be from it: as much as one more answer like eager's.
_TIMES = 2**0.5
_TOLERANCES = {torch.float16: DEFAULT_TOLERANCES["fp16"], torch.bfloat16: DEFAULT_TOLERANCES["bf16"]}

# Why a rewrite that is right may change the numbers.
_CAUSES = {
    "sort_by_topk": "of equal numbers no certain one comes first in PyTorch, but with stable=True the first one: where "
    "the order of equals counts, sort so"
}


@dataclass(frozen=True)
class ProvedRewrites:
    """A rewritten program whose numbers are eager's.

    Attributes:
        program: With the rewrites that hold.
        applied: What they did.
        dropped: For each rewrite that changed the numbers a sentence that names it.
        captured: The program before all of them; None where it is not known.
    """

    program: CapturedProgram
    applied: tuple[Rewrite, ...]
    dropped: tuple[str, ...] = ()
    captured: CapturedProgram | None = None


def rewrite_and_prove(program: CapturedProgram, eager: EagerModel, wanted: Collection[str]) -> ProvedRewrites:
    """Apply the rewrites, and keep those that keep the numbers.

    Args:
        program: What capture made.
        eager: The model, with its answer to the example inputs.
        wanted: Names of the passes that the target asks for.
    """
    rewritten, applied = apply_rewrites(program, wanted)
    wrong = _difference(rewritten, eager) if applied else None
    if wrong is None or _difference(program, eager) is not None:
        # Where the captured program itself strays from eager, the proof of the artifact has to say so.
        return ProvedRewrites(rewritten, applied)
    current, kept, dropped = program, [], []
    for run in passes_of(wanted):
        candidate, rewrite = run(current)
        if rewrite is None:
            continue
        wrong = _difference(candidate, eager)
        if wrong is None:
            current = candidate
            kept.append(rewrite)
        else:
            cause = f" ({_CAUSES[rewrite.name]})" if rewrite.name in _CAUSES else ""
            dropped.append(f"the rewrite {rewrite.name} was dropped, since it changes the numbers: {wrong}{cause}")
    return ProvedRewrites(current, tuple(kept), tuple(dropped))


def _difference(program: CapturedProgram, eager: EagerModel) -> str | None:
    """How the program's outputs differ from eager's on the example inputs; None where they agree."""
    try:
        results = _run(program, eager.example)
    except Exception as error:  # an operator refuses what a rewrite gave it
        return f"it no longer runs: {type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    own: dict[str, OwnError] | None = None
    for spec, expected, actual in zip(program.outputs, eager.example_outputs, results, strict=True):
        tolerance = _TOLERANCES.get(expected.dtype, DEFAULT_TOLERANCES["fp32"])
        found = compare_output(_array(expected), _array(actual), tolerance)
        if found.verdict == "fail" and (chain := find_chains(program).get(spec.name)) is not None:
            # The rewritten features are as far from eager's as eager's from them.
            ends = limits_of(program, eager.example, [chain], tolerance)[spec.name]
            found = compare_limits(_array(actual), _array(expected), *ends)
            if _differ_in_few(_array(expected), *ends):
                continue
        if found.verdict == "fail" and _differ_little(_array(expected), _array(actual)):
            continue
        if found.verdict == "fail" and found.sqnr_db is not None and expected.dtype == torch.float32:
            own = (measure_own_errors(_example_of(program, eager), eager) or {}) if own is None else own
            if _is_roundings(spec.name, found, program, eager, own, tolerance.min_sqnr_db):
                continue
        if found.verdict == "fail":
            return f"{spec.name}: {found.reason}"
    return None


def _differ_in_few(expected: np.ndarray, least: np.ndarray, most: np.ndarray) -> bool:
    """Whether so few of eager's rounded numbers lie outside of what the rewritten ones may be that rounding decides."""
    wide = expected.astype(np.float64)
    return int(((wide < least) | (wide > most)).sum()) <= _FEW * wide.size


def _is_roundings(
    name: str,
    found: Comparison,
    program: CapturedProgram,
    eager: EagerModel,
    own: Mapping[str, OwnError],
    limit_db: float,
) -> bool:
    """Whether a float32 output is as near to eager's as eager's to float64's, or decided by rounding in eager itself.

    The artifact's proof has to say so too (`edgex.export.proof.references`).
    """
    known, distance = own.get(name), Distance(found.sqnr_db, found.max_abs_error, limit_db)
    if known is not None and known.excuses(distance.sqnr_db, distance.largest, limit_db, _TIMES):
        return True
    example = _example_of(program, eager)
    return find_movement(example, [example], eager, {name: distance}, limit_db) is not None


def _example_of(program: CapturedProgram, eager: EagerModel) -> Case:
    """The example inputs with eager's answer."""
    inputs = {spec.name: _array(tensor) for spec, tensor in zip(program.inputs, eager.example, strict=True)}
    outputs = {spec.name: _array(tensor) for spec, tensor in zip(program.outputs, eager.example_outputs, strict=True)}
    return Case("example", "compare", (Step(inputs, outputs),))


def _differ_little(expected: np.ndarray, actual: np.ndarray) -> bool:
    """Whether integers or truths differ as what rounding decides: the class of one pixel of many, counts of classes.

    The artifact's own proof asks eager which of them may be either (`edgex.export.proof.references.decisions`).
    """
    if expected.dtype.kind not in "iub" or expected.dtype != actual.dtype or expected.shape != actual.shape:
        return False
    apart = np.abs(actual.astype(np.float64) - expected.astype(np.float64))
    largest = float(np.abs(expected.astype(np.float64)).max(initial=0.0))
    return int((apart > 0).sum()) <= _FEW * apart.size or float(apart.max(initial=0.0)) <= _FEW * largest


def _run(program: CapturedProgram, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The user outputs of one run of the graph."""
    exported = program.exported
    with reference_conditions():
        results = torch.fx.Interpreter(exported.graph_module).run(*input_values(program, inputs))
    kinds = [spec.kind for spec in exported.graph_signature.output_specs]
    return [value for value, kind in zip(results, kinds, strict=True) if kind is OutputKind.USER_OUTPUT]


def _array(tensor: torch.Tensor) -> np.ndarray:
    detached = tensor.detach().resolve_conj().resolve_neg()
    return (detached.float() if detached.dtype == torch.bfloat16 else detached).numpy()
