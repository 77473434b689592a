"""Run an artifact's golden cases and compare every output with eager's: `edgex verify`, wherever it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgex.errors import ArtifactError, EdgexError, RunError
from edgex.runtime.artifact.artifact import Artifact, CheckLevel
from edgex.runtime.artifact.golden import STRESS, Case, Layout, Reference, Step, read_golden
from edgex.runtime.artifact.shapes import SPECIAL_INPUTS
from edgex.runtime.execute.base import Executor, Progress, no_progress
from edgex.runtime.execute.request import Arrays, MethodInputs, RunRequest, RunResult
from edgex.runtime.session.agreement import Agreement, measure_agreement
from edgex.runtime.session.numerics import (
    Tolerance,
    Verdict,
    compare_choices,
    compare_limits,
    compare_output,
    round_significant,
)
from edgex.runtime.session.repeats import (
    LIMIT_SECONDS,
    Difference,
    Repeat,
    RepeatVerdict,
    farthest,
    merge_repeats,
    same_bits,
)
from edgex.runtime.session.special_values import SpecialValues, compare_special_values

# An output that depends on no input may be computed when the artifact is made, and differ in its last bits.
_LAST_BITS = 1e-6


@dataclass(frozen=True)
class CaseResult:
    """The verdict on one output of one case, or on a case that must be refused or was skipped.

    Attributes:
        name: The case, with its step where it has several.
        output: The output's name; None for refusals and skipped cases.
        max_abs_error: Largest absolute error; None when unknown.
        sqnr_db: Signal-to-quantization-noise ratio in dB; None for integers and where it says nothing.
        reference_max: Largest absolute value of eager's output.
        verdict: `pass`, `fail`, `inconclusive`, `skipped`, or `warning` where NaN or infinity come out otherwise.
        reason: Why, when there is something to say.
        reference: What it was compared with: `eager` or `quantized`; see `edgex.runtime.artifact.golden.Case`.
        special_values: How NaN and infinity come out otherwise than in eager.
        method: What ran it, where the artifact has several methods.
    """

    name: str
    output: str | None
    verdict: Verdict
    max_abs_error: float | None = None
    sqnr_db: float | None = None
    reference_max: float | None = None
    reason: str | None = None
    reference: Reference = "eager"
    special_values: tuple[SpecialValues, ...] = ()
    method: str | None = None

    def to_json(self) -> dict[str, Any]:
        """One entry of `cases`, figures rounded to two digits (SQNR to whole dB)."""
        return {
            "name": self.name,
            **self.of_method,
            "output": self.output,
            "reference": self.reference,
            "max_abs_error": round_significant(self.max_abs_error),
            "sqnr_db": round_significant(self.sqnr_db),
            "reference_max": round_significant(self.reference_max),
            "verdict": self.verdict,
            "reason": self.reason,
        }

    @property
    def of_method(self) -> dict[str, str]:
        """The key `method` of what is told of it; none where the artifact has one method."""
        return {} if self.method is None else {"method": self.method}


@dataclass(frozen=True)
class Verification:
    """The verdict on an artifact.

    Attributes:
        passed: No case failed, and every output was really compared in at least one.
        cases: Every verdict.
        tolerance: What the float outputs were held to.
        quantized_tolerance: The same where the reference is the quantized program; None for float artifacts.
        executed_on: Who ran them.
        reason: Why it did not pass, one sentence.
        verified_on: `target`, `simulator`, or `cpu-reference` where the engine's CPU stood in for a device that is not
            here.
        assignment: How many nodes each provider of the engine ran; None where the engine does not tell.
        repeats: What the cases gave when they were run once more; None where they were not.
        simulator: What ran them in place of the device; None where nothing did.
        agreement: Of a quantized language model, how far its choices are from eager's.
    """

    passed: bool
    cases: tuple[CaseResult, ...]
    tolerance: Tolerance
    executed_on: str
    reason: str | None = None
    verified_on: str = "target"
    assignment: Mapping[str, int] | None = None
    quantized_tolerance: Tolerance | None = None
    repeats: tuple[RepeatVerdict, ...] | None = None
    simulator: str | None = None
    agreement: Agreement | None = None

    @property
    def max_abs_error(self) -> float | None:
        """The largest error of all cases."""
        return max((c.max_abs_error for c in self.cases if c.max_abs_error is not None), default=None)

    @property
    def min_sqnr_db(self) -> float | None:
        """The lowest SQNR of all cases, in dB."""
        return min((c.sqnr_db for c in self.cases if c.sqnr_db is not None), default=None)

    def to_json(self) -> dict[str, Any]:
        """The `edgex.verify/1` object without its schema key; also the manifest's `verification`."""
        return {
            "passed": self.passed,
            "reason": self.reason,
            "executed_on": self.executed_on,
            "verified_on": self.verified_on,
            "simulator": self.simulator,
            "assignment": None if self.assignment is None else dict(self.assignment),
            "max_abs_error": round_significant(self.max_abs_error),
            "min_sqnr_db": round_significant(self.min_sqnr_db),
            "tolerance": self.tolerance.to_json(),
            "quantized_tolerance": None if self.quantized_tolerance is None else self.quantized_tolerance.to_json(),
            "cases": [case.to_json() for case in self.cases],
            "repeats": None if self.repeats is None else [found.to_json() for found in self.repeats],
            **({} if self.agreement is None else {"agreement": self.agreement.to_json()}),
            "nan_inf": [{**found.to_json(), **case.of_method} for case in self.cases for found in case.special_values],
        }


def verify(
    executor: Executor,
    artifact: Artifact,
    *,
    threads: int | None = None,
    options: Mapping[str, Any] | None = None,
    check: CheckLevel = "hash",
    progress: Progress = no_progress,
    repeat_seconds: float = LIMIT_SECONDS,
    methods: Sequence[str] = (),
) -> tuple[Verification, RunResult]:
    """Run every golden case of an artifact, and compare its outputs with eager's, here.

    Each method's cases run in a session of that method.

    Args:
        executor: Where it runs.
        artifact: Gives the cases and, in its manifest, the tolerance and whether inconclusive outputs are allowed.
            Where a method of it is selected, only that method's cases run.
        threads: Threads of a run; None leaves it to the engine.
        options: Engine settings by name.
        check: How the artifact is checked before it is loaded.
        progress: Told about each stage, with a detail.
        methods: Whose cases run, where not all of the artifact's do and none is selected.
        repeat_seconds: How long the cases may be run once more in each way, where the executor can do that.

    Raises:
        ArtifactError: The golden data cannot be read, or there are no cases.
        RunError: The engine does not load it.
        DeviceError: The device failed.
    """
    manifest = artifact.manifest
    names = [method.name for method in manifest.methods] if manifest.selected is None else [manifest.selected]
    names = [name for name in names if not methods or name in methods]
    cases = read_golden(artifact)
    given = {name: [case for case in cases if (case.method or manifest.methods[0].name) == name] for name in names}
    found = [
        _verify_method(
            executor,
            artifact if len(manifest.methods) == 1 else artifact.select(name),
            own,
            RunRequest((), threads, options or {}, check, repeat_seconds=repeat_seconds),
            progress,
        )
        # The first has cases in any case, or says that it has none.
        for name, own in given.items()
        if own or name == names[0]
    ]
    return _merge([verdict for verdict, _ in found]), found[0][1]


def _verify_method(
    executor: Executor, artifact: Artifact, cases: Sequence[Case], request: RunRequest, progress: Progress
) -> tuple[Verification, RunResult]:
    """The verdict on one method's cases."""
    played = [case for case in cases if case.kind != "skipped"]
    if not any(case.kind == "compare" for case in played):
        raise ArtifactError("the artifact holds no golden cases", artifact.path.name, "export the model again")
    sequences = [tuple(_inputs_of(step, case) for step in case.steps) for case in played]
    result = executor.execute(artifact, replace(request, sequences=tuple(sequences)), progress)
    verdict = _with_repeats(judge_outputs(artifact, cases, result), artifact, cases, result)
    if len(artifact.manifest.methods) > 1:
        name = artifact.manifest.method.name
        reason = None if verdict.reason is None else f"method {name}: {verdict.reason}"
        own = tuple(replace(case, method=name) for case in verdict.cases)
        verdict = replace(verdict, cases=own, reason=reason)
    return verdict, result


def _name_step(case: Case, at: int) -> str:
    method = case.steps[at].method if at < len(case.steps) else None
    own = "" if method is None else f" ({method})"
    return case.name if len(case.steps) <= 1 else f"{case.name}, step {at + 1}{own}"


def _inputs_of(step: Step, case: Case) -> Mapping[str, Any]:
    inputs = {key: lay_out(value, case.layout) for key, value in step.inputs.items()}
    return inputs if step.method in (None, case.method) else MethodInputs(str(step.method), inputs)


def _merge(verdicts: Sequence[Verification]) -> Verification:
    """The verdict on all methods: passed where each has."""
    first, *others = verdicts
    if not others:
        return first
    failed = next((verdict for verdict in verdicts if not verdict.passed), first)
    return replace(
        first,
        passed=failed.passed,
        reason=failed.reason,
        cases=tuple(case for verdict in verdicts for case in verdict.cases),
        repeats=merge_repeats([verdict.repeats for verdict in verdicts]),
        agreement=next((verdict.agreement for verdict in verdicts if verdict.agreement is not None), None),
    )


def _with_repeats(verdict: Verification, artifact: Artifact, cases: Sequence[Case], result: RunResult) -> Verification:
    """The verdict with that on what came out otherwise when the cases were run once more."""
    if result.repeats is None:
        return verdict
    judged = tuple(_judge_repeat(repeat, artifact, cases, result) for repeat in result.repeats)
    failure = next((found.failure for found in judged if found.failure is not None), None)
    if verdict.passed and failure is not None:
        verdict = replace(verdict, passed=False, reason=failure)
    return replace(verdict, repeats=judged)


def _judge_repeat(repeat: Repeat, artifact: Artifact, cases: Sequence[Case], result: RunResult) -> RepeatVerdict:
    """What came out otherwise is held to what the first run was held to."""
    if not repeat.outputs:
        return RepeatVerdict(repeat)
    outputs = [repeat.outputs.get(number, found) for number, found in enumerate(result.outputs)]
    refused = {number: error for number, error in result.refused.items() if number not in repeat.outputs}
    again = judge_outputs(artifact, cases, replace(result, outputs=outputs, refused={**refused, **repeat.refused}))
    verdicts = {(found.name, found.output): found for found in again.cases}
    differences: list[Difference] = []
    for number, case in enumerate(case for case in cases if case.kind != "skipped"):
        if number not in repeat.outputs:
            continue
        first, later = result.outputs[number], repeat.outputs[number]
        for at in range(max(len(first), len(later), 1)):
            name = _name_step(case, at)
            if at >= min(len(first), len(later)):
                found = verdicts.get((name, None))
                reason = "it ran in one of the runs only" if found is None else found.reason
                differences.append(Difference(name, None, None, "fail", reason))
                break
            for output in first[at]:
                if same_bits({output: first[at][output]}, {output: later[at][output]}):
                    continue
                found = verdicts[name, output]
                apart = farthest(first[at][output], later[at][output])
                differences.append(Difference(name, output, apart, found.verdict, found.reason))
    return RepeatVerdict(repeat, tuple(differences))


def judge_outputs(artifact: Artifact, cases: Sequence[Case], result: RunResult) -> Verification:
    """The verdict on what the cases that are not skipped gave, in their order."""
    tolerance, quantized_tolerance = read_tolerances(artifact)
    names = [spec.name for spec in artifact.manifest.method.outputs]
    results: list[CaseResult] = []
    ordinary = _ordinary_rms(cases) if quantized_tolerance is not None else {}
    agreement: Agreement | None = None
    number = 0
    for case in cases:
        if case.kind == "skipped":
            results.append(CaseResult(case.name, None, "skipped", reason=case.reason))
            continue
        outputs, refused = result.outputs[number], result.refused.get(number)
        left_out = result.left_out.get(number)
        number += 1
        if left_out is not None:
            results.append(CaseResult(case.name, None, "skipped", reason=left_out))
            continue
        if case.kind == "refuse":
            results.append(_judge_refusal(case, refused))
        elif case.kind == "report":
            results += _report_case(case, names, outputs, refused)
        elif case.reference == "quantized" and quantized_tolerance is not None:
            least = quantized_tolerance.min_sqnr_db if case.min_sqnr_db is None else case.min_sqnr_db
            strict_own = replace(quantized_tolerance, min_sqnr_db=least)
            results += _judge_case(case, names, outputs, refused, strict_own, ordinary)
        else:
            if artifact.manifest.language_method is not None and len(case.steps) == len(outputs) > 1:
                # A source that was encoded before the text is none of it.
                read = [pair for pair in zip(case.steps, outputs, strict=True) if pair[0].method is None]
                agreement = measure_agreement(
                    [step.outputs[names[0]] for step, _ in read], [found[names[0]] for _, found in read]
                )
            own = tolerance if case.min_sqnr_db is None else Tolerance(case.min_sqnr_db, min_equal=tolerance.min_equal)
            results += _judge_case(case, names, outputs, refused, own, {})
    asked = artifact.manifest.verification or {}
    constant = frozenset(asked.get("constant_outputs", ()))
    reason = _find_shortfall(results, names, bool(asked.get("allow_inconclusive")), constant)
    return Verification(
        reason is None,
        tuple(results),
        tolerance,
        result.place,
        reason,
        _verified_on(artifact, result),
        result.assignment,
        quantized_tolerance,
        simulator=result.simulator,
        agreement=agreement if quantized_tolerance is not None else None,
    )


def read_tolerances(artifact: Artifact) -> tuple[Tolerance, Tolerance | None]:
    """What cases are held to whose reference is eager, and those whose reference is the quantized program.

    Raises:
        ArtifactError: The manifest does not say.
    """
    settings = artifact.manifest.verification
    if settings is None:
        raise ArtifactError(
            "the manifest names no tolerance to hold outputs to", artifact.path.name, "export the model again"
        )
    quantized = settings.get("quantized_tolerance")
    return Tolerance.from_json(settings["tolerance"]), None if quantized is None else Tolerance.from_json(quantized)


def _ordinary_rms(cases: Sequence[Case]) -> dict[str, float]:
    """The root mean square of each float output on the example."""
    example = next((case for case in cases if case.kind == "compare"), None)
    outputs = example.steps[0].outputs.items() if example is not None else ()
    return {
        name: float(np.sqrt(np.mean(np.square(array[np.isfinite(array)], dtype=np.float64))))
        for name, array in outputs
        if array.dtype.kind == "f" and np.isfinite(array).any()
    }


def _verified_on(artifact: Artifact, result: RunResult) -> str:
    """`cpu-reference` when an artifact for another device was run on the engine's CPU, however it came about."""
    assignment = result.assignment
    if result.simulator is not None:
        return "simulator"
    if artifact.manifest.options.get("execution_provider") is None or assignment is None:
        return "target"
    return "target" if any(name != "CPUExecutionProvider" for name in assignment) else "cpu-reference"


def lay_out(array: np.ndarray, layout: Layout) -> np.ndarray:
    """The same values in another memory order.

    Args:
        array: Any C-contiguous array.
        layout: `transposed` reverses the order of the axes in memory; `channels_last` moves axis 1 last in memory
            (rank 3 and more).
    """
    if layout == "transposed" and array.ndim >= 2:
        return np.ascontiguousarray(array.T).T
    if layout == "channels_last" and array.ndim >= 3:
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)
    return array


def _judge_case(
    case: Case,
    names: Sequence[str],
    outputs: Sequence[Arrays],
    refused: EdgexError | None,
    tolerance: Tolerance,
    floors: Mapping[str, float],
) -> list[CaseResult]:
    """The verdicts on one case; `floors` is the ordinary root mean square by output."""
    results: list[CaseResult] = []
    for at, step in enumerate(case.steps):
        name = _name_step(case, at)
        if at >= len(outputs):
            reason = " ".join(str(refused or "it gave no outputs").split())
            results.append(CaseResult(name, None, "fail", reason=reason, reference=case.reference))
            break
        for output in step.outputs if step.method is not None else names:
            if output not in outputs[at]:
                raise RunError(f"there is no output {output!r}", case.name, why=f"there is {', '.join(outputs[at])}")
            found = compare_output(step.outputs[output], outputs[at][output], tolerance, floors.get(output, 0.0))
            if found.verdict == "fail" and output in step.ranked:
                ranked = step.ranked[output]
                found = compare_choices(
                    step.outputs[output], outputs[at][output], ranked.values, ranked.axis, tolerance
                )
            if found.verdict == "fail" and output in step.between:
                limits = step.between[output]
                found = compare_limits(step.outputs[output], outputs[at][output], limits.least, limits.most)
            results.append(
                CaseResult(
                    name,
                    output,
                    found.verdict,
                    found.max_abs_error,
                    found.sqnr_db,
                    found.reference_max,
                    found.reason,
                    case.reference,
                )
            )
    return results


def _report_case(
    case: Case, names: Sequence[str], outputs: Sequence[Arrays], refused: EdgexError | None
) -> list[CaseResult]:
    """What an artifact makes of NaN and infinity, told for each output."""
    if not outputs:
        reason = "the engine fails" if refused is None else f"the engine fails: {refused.what}"
        return [CaseResult(case.name, None, "warning", reason=reason)]
    results = []
    for output in names:
        fed = case.name.removeprefix(STRESS)
        found = tuple(compare_special_values(fed, output, case.steps[0].outputs[output], outputs[0][output]))
        reason = "; ".join(entry.sentence for entry in found)
        verdict: Verdict = "warning" if found else "pass"
        results.append(CaseResult(case.name, output, verdict, reason=reason or None, special_values=found))
    return results


def _judge_refusal(case: Case, refused: EdgexError | None) -> CaseResult:
    """Sizes outside the bounds must be refused: an engine that computed something with them computed garbage."""
    if refused is not None:
        return CaseResult(case.name, None, "pass", reason=f"refused: {refused.what}")
    return CaseResult(case.name, None, "fail", reason="it ran although the size is outside the bounds")


def _find_shortfall(
    results: Sequence[CaseResult], outputs: Sequence[str], allow_inconclusive: bool, constant: frozenset[str]
) -> str | None:
    """Why the verification did not pass, or None; `constant` outputs depend on no input, and have to agree."""
    failed = [result for result in results if result.verdict == "fail"]
    if failed:
        first = failed[0]
        shown = f"{first.name}{', ' + first.output if first.output else ''}: {first.reason}"
        return shown if len(failed) == 1 else f"{shown} (and {len(failed) - 1} more)"
    if allow_inconclusive:
        return None
    reported = {f"{STRESS}{fed}" for fed in SPECIAL_INPUTS}
    for name in outputs:
        verdicts = {result.verdict for result in results if result.output == name and result.name not in reported}
        if "pass" not in verdicts and not (name in constant and _agrees(name, results)):
            return f"{name}: eager's output is constant or near zero in every case, so nothing was proved"
    return None


def _agrees(output: str, results: Sequence[CaseResult]) -> bool:
    """Whether an output is eager's in every case, but for the last bits of a float32."""
    found = [result for result in results if result.output == output and result.max_abs_error is not None]
    return bool(found) and all(
        error <= _LAST_BITS * (one.reference_max or 0.0) for one in found if (error := one.max_abs_error) is not None
    )
