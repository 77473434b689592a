"""Proof before writing: eager's answers to every case, then a fresh process that must give the same ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgex.delegates.recipes.tolerances import QUANTIZED_TOLERANCE
from edgex.errors import VerificationError
from edgex.export.proof.case_names import AS_QUANTIZED, EXAMPLE, check_left_out
from edgex.export.proof.sequences import STATE_NOT_SHOWN, make_sequence_case
from edgex.export.proof.stress import StressInput, in_plain_form, make_stress_inputs
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.artifact.golden import Arrays, Case, Kind, Step
from edgex.runtime.artifact.specs import StateSpec
from edgex.runtime.execute.here.fresh_process import FreshProcess
from edgex.runtime.execute.verification import verify
from edgex.runtime.session.numerics import EXACT_SQNR_DB, measure_sqnr_db
from edgex.runtime.support.native_stderr import capture_native_stderr, stdout_on_stderr
from edgex.runtime.support.process.child import ChildEnded

if TYPE_CHECKING:
    import torch

    from edgex.delegates.base import CapturedProgram
    from edgex.export.quantization.running import GraphRunner
    from edgex.export.source.eager import EagerModel

# Above this size (inputs and outputs of one case together) a case is proved at export but not carried along.
CARRIED_CASE_BYTES = 32 << 20
# Golden data may take as much as the model, and this much in any case.
CARRIED_BYTES = 8 << 20

# Of two programs that are equally far from the truth, by errors that have nothing to do with each other: 10 log10(2).
BOTH_ROUND_DB = 3.0
# An output of nothing but zeros is 0 dB from any reference, one of another scale or sign is below.
LEAST_SQNR_DB = 1.0


def make_cases(
    program: CapturedProgram,
    eager: EagerModel,
    sequence: Sequence[Sequence[torch.Tensor]] | None = None,
    skip: Sequence[str] = (),
    progress: Callable[[str], None] = lambda _: None,
    quantized: QuantizedReference | None = None,
) -> list[Case]:
    """Everything that the artifact has to prove, with eager float32's answers.

    A quantized artifact is compared with eager on the example and on samples that were not calibrated on. How true the
    engine is on other inputs is judged against the quantized program: ranges were measured on typical inputs, and what
    lies outside is clipped on purpose.

    Args:
        program: Gives names, bounds and state.
        eager: The user's model.
        sequence: Inputs of several steps in a row for a stateful model; None repeats the example.
        skip: Names of cases that the user chose to leave out; they are listed as skipped.
        progress: Called with each case's name.
        quantized: The quantized program, where there is one.

    Raises:
        UsageError: `skip` names a case that does not exist.
    """
    answers = Answers(program, eager)
    example = answers.arrays_of(eager.example)
    progress("example")
    cases = [Case(EXAMPLE, "compare", (Step(example, answers.outputs_of(eager.example_outputs)),))]
    others: list[Case] = []
    if quantized is not None:
        for number, sample in quantized.held_out:
            progress(f"held-out sample {number}")
            cases.append(Case(f"held-out sample {number}", "compare", (answers.step(answers.arrays_of(sample)),)))
        answers = Answers(program, quantized.model)
        progress("the quantized program")
        others.append(Case(AS_QUANTIZED, "compare", (answers.step(example),)))
    if program.state:
        progress("state")
        others.append(
            make_sequence_case(
                lambda inputs, fresh: answers.step(inputs, from_reset=fresh),
                [answers.arrays_of(step) for step in sequence or ()],
                example,
            )
        )
    for stress in make_stress_inputs(program.inputs, example, program.precision, quantized=program.recipe is not None):
        progress(stress.name)
        others.append(_answer_stress(answers, stress))
    if quantized is not None:
        in_float = Answers(program, eager)
        others = [allow_for_rounding(replace(case, reference="quantized"), in_float, example) for case in others]
    return leave_out([*cases, *others], skip)


@dataclass(frozen=True)
class QuantizedReference:
    """PyTorch running the quantized program.

    Attributes:
        model: Runs it.
        held_out: Samples that were not calibrated on, with their numbers.
    """

    model: GraphRunner
    held_out: tuple[tuple[int, Sequence[torch.Tensor]], ...] = ()


class Answers:
    """Eager's answers as arrays by name."""

    def __init__(self, program: CapturedProgram, eager: EagerModel | GraphRunner) -> None:
        self._program = program
        self._eager = eager

    def arrays_of(self, tensors: Sequence[torch.Tensor]) -> dict[str, np.ndarray]:
        """Input tensors as arrays by input name; bfloat16 as float32."""
        return {spec.name: to_array(t) for spec, t in zip(self._program.inputs, tensors, strict=True)}

    def outputs_of(self, tensors: Sequence[torch.Tensor]) -> dict[str, np.ndarray]:
        """Output tensors as arrays by output name."""
        return {spec.name: to_array(t) for spec, t in zip(self._program.outputs, tensors, strict=True)}

    def again(self, step: Step, *, from_reset: bool) -> Step:
        """The answer to the inputs of a step that somebody else has answered."""
        return self.step(step.inputs, from_reset=from_reset)

    def step(self, inputs: Arrays, *, from_reset: bool = True) -> Step:
        """Eager's outputs for inputs, from the initial state or from where the last step left it."""
        import torch

        if from_reset:
            self._eager.reset()
        tensors = [
            torch.from_numpy(np.array(inputs[spec.name])).to(getattr(torch, spec.dtype))
            for spec in self._program.inputs
        ]
        return Step(inputs, self.outputs_of(self._eager.run(tensors)))


class AnswersOverMethods(Answers):
    """The answers of several methods that share state, to steps that name theirs."""

    def __init__(self, methods: Mapping[str, Answers], usual: str) -> None:
        """Put them together.

        Args:
            methods: By name; their models keep one state.
            usual: Answers steps that name no method.
        """
        super().__init__(methods[usual]._program, methods[usual]._eager)
        self._methods = methods
        self._usual = usual

    def again(self, step: Step, *, from_reset: bool) -> Step:
        """As `Answers.again`, by the step's own method."""
        return self._methods[step.method or self._usual].step(step.inputs, from_reset=from_reset)


def answer_inputs(
    program: CapturedProgram,
    eager: EagerModel,
    inputs: Arrays,
    name: str,
    quantized: QuantizedReference | None = None,
) -> list[Case]:
    """Inputs of the user's as a case with eager's answer, and one with the quantized program's where there is one.

    Args:
        program: Gives names and dtypes.
        eager: The user's model.
        inputs: By name, as a Session takes them.
        name: Of the case.
        quantized: The quantized program, where there is one.
    """
    cases = [Case(name, "compare", (Answers(program, eager).step(inputs),))]
    if quantized is not None:
        step = Answers(program, quantized.model).step(inputs)
        cases.append(Case(f"{name}, as quantized", "compare", (step,), reference="quantized"))
    return cases


def _answer_stress(answers: Answers, stress: StressInput) -> Case:
    """The case with eager's answer; a case on which eager itself raises is listed as skipped."""
    if stress.must_be_refused:
        return Case(stress.name, "refuse", (Step(stress.inputs, {}),))
    raised = ""
    for attempt in (stress, in_plain_form(stress)):
        try:
            kind: Kind = "report" if stress.only_reported else "compare"
            with capture_native_stderr(), stdout_on_stderr():
                step = answers.step(attempt.inputs)
                # 0 / 0 of eager's own: as with NaN in the inputs, what an engine makes of it is told and not judged.
                if any(array.dtype.kind == "f" and np.isnan(array).any() for array in step.outputs.values()):
                    kind = "report"
                return Case(stress.name, kind, (step,), stress.layout)
        except Exception as error:  # the user's own code: whatever it raises makes this case meaningless
            raised = f"eager itself raises {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return Case(stress.name, "skipped", reason=raised)


def allow_for_rounding(case: Case, in_float: Answers, example: Arrays) -> Case:
    """The case with a lower limit where rounding alone takes the quantized program far from float32.

    Zeros into a transformer leave the normalizations little but rounding to enlarge. An engine that rounds elsewhere,
    or less, then differs from the program by the rounding of both: where the program has S dB beside float32, by as
    little as S - 3 dB. Inputs larger than the example's are another matter: what is clipped must be clipped alike.
    """
    if case.kind != "compare" or any(
        _reach(step.inputs[key]) > _reach(example[key])
        for step in case.steps
        for key in example.keys() & step.inputs.keys()
    ):
        return case
    found = [
        measure_sqnr_db(reference, step.outputs[name])
        for at, step in enumerate(case.steps)
        for name, reference in in_float.again(step, from_reset=at == 0).outputs.items()
        if reference.dtype.kind == "f"
    ]
    least = math.floor(10 * (min(found, default=EXACT_SQNR_DB) - BOTH_ROUND_DB)) / 10
    if least >= QUANTIZED_TOLERANCE.min_sqnr_db:
        return case
    return replace(case, min_sqnr_db=max(least, LEAST_SQNR_DB))


def _reach(array: np.ndarray) -> float:
    """The largest absolute value; zero for inputs that are not quantized."""
    return float(np.abs(array).max(initial=0.0)) if array.dtype.kind == "f" else 0.0


def require_state_shown(cases: Sequence[Case], state: Sequence[StateSpec], allow_inconclusive: bool) -> None:
    """A stateful model must show its state, or a dropped state would pass; the error names its buffers.

    Raises:
        VerificationError: The steps of the sequence do not depend on what came before.
    """
    for case in cases:
        if case.reason == STATE_NOT_SHOWN and not allow_inconclusive:
            raise VerificationError(
                f"the example inputs do not show that the model keeps state: {', '.join(spec.name for spec in state)}",
                why=f"{case.name}: {case.reason}",
                fix="define `example_sequence`, a list of inputs run in a row, in the model's file, "
                "or accept this with --allow-inconclusive",
            )


def carried_cases(cases: Sequence[Case], model_bytes: int) -> list[Case]:
    """The cases that travel with the artifact; the proof of the others stays in the manifest.

    Args:
        cases: All that was proved. The first of a method that is compared, its example, comes first; then the smallest,
            as long as all together are no larger than the model, or than `CARRIED_BYTES`.
        model_bytes: Size of the native files.
    """
    room = max(CARRIED_BYTES, model_bytes)
    examples: dict[str | None, Case] = {}
    for case in cases:
        if case.kind == "compare":
            examples.setdefault(case.method, case)

    def is_example(case: Case) -> bool:
        return examples.get(case.method) is case

    carried: set[int] = set()
    for at, case in sorted(enumerate(cases), key=lambda item: (not is_example(item[1]), _bytes_of(item[1]))):
        size = _bytes_of(case)
        if size <= CARRIED_CASE_BYTES and (size <= room or is_example(case)):
            carried.add(at)
            room -= size
    return [case if at in carried else _not_carried(case) for at, case in enumerate(cases)]


def _not_carried(case: Case) -> Case:
    return case.skip(f"proved at export; its {_bytes_of(case) / 1e6:.1f} MB are not carried along")


def _bytes_of(case: Case) -> int:
    return sum(step.nbytes for step in case.steps)


LEFT_OUT = "left out by --skip-case"


def leave_out(cases: Sequence[Case], skip: Sequence[str]) -> list[Case]:
    """The cases, with those of these names skipped.

    Raises:
        UsageError: There is no case of such a name.
    """
    check_left_out([case.name for case in cases], skip)
    return [case.skip(LEFT_OUT) if case.name in skip else case for case in cases]


def verify_in_fresh_process(
    folder: Path, process: FreshProcess, *, cpu_reference: bool = False, methods: Sequence[str] = ()
) -> Mapping[str, Any]:
    """Have a fresh process load the artifact and run its cases, and judge what comes back.

    Args:
        folder: The artifact, under its temporary name.
        process: Runs it; where the artifact does not pass, the next one is started: it may be judged otherwise.
        cpu_reference: The engine's CPU stands in for a device that is not here.
        methods: Whose cases; none named is all methods'.

    Returns:
        The verification object (`edgex.verify/1`), passed or not.

    Raises:
        VerificationError: The process ended early; a signal that killed it is named.
        EdgexError: It could not load or run the artifact; its own error, passed on.
    """
    options = {"cpu_reference": True} if cpu_reference else {}
    try:
        artifact = open_artifact(folder, "size")
        verdict, _ = verify(process, artifact, options=options, check="size", methods=methods)
    except ChildEnded as error:
        what = error.what.replace(folder.name, "the artifact")
        kind = ProofTimedOut if error.timed_out else VerificationError
        raise kind(what, fix=error.fix or _suggest(error), why=error.why) from error
    if not verdict.passed:
        process.prepare(artifact.manifest.engine)
    return verdict.to_json()


class ProofTimedOut(VerificationError):
    """A simulator did not end a case in its time."""


def _suggest(error: ChildEnded) -> str:
    """What to do about a process that did not end its proof."""
    if error.timed_out:
        return "smaller inputs, which take less to simulate, or another --target"
    if error.signal == "SIGKILL":
        return "systems end so what runs them out of memory: smaller inputs, or a machine with more of it"
    return "this is a fault of the engine on this model; try another --target, and please report it"


class ProofFailed(VerificationError):
    """An artifact ran, and its outputs are not eager's.

    Attributes:
        verdict: The `edgex.verify/1` object.
        undecided: Whether rounding decides eager's own answer in the cases that failed.
    """

    verdict: Mapping[str, Any]
    undecided: bool = False


_KEEP_FLOAT = "keep the most sensitive layers in floating point: --max-drop 0.01, say"


def explain_failure(document: Mapping[str, Any], target: str) -> ProofFailed:
    """The error for a verification that did not pass: the worst outputs, and the tolerance that would pass."""
    failed = [case for case in document["cases"] if case["verdict"] == "fail"]
    lines = [str(document["reason"])]
    if len(failed) > 1:
        names = [f"method {c['method']}: {c['name']}" if "method" in c else c["name"] for c in failed[:6]]
        outputs = [f", {c['output']}" if c["output"] else "" for c in failed[:6]]
        lines = [f"{name}{own}: {c['reason']}" for name, own, c in zip(names, outputs, failed, strict=False)]
        lines += [f"… and {len(failed) - 6} more"] if len(failed) > 6 else []
    numeric = [case["sqnr_db"] for case in failed if case["sqnr_db"] is not None]
    what = f"{target}: the artifact's outputs are not eager's"
    # It computes what was meant, which is checked too, and what was meant is too far from float32.
    lossy = document.get("quantized_tolerance") is not None and all(case["reference"] == "eager" for case in failed)
    repeats = document["repeats"] or ()
    differing = {repeat["how"] for repeat in repeats if any(one["verdict"] == "fail" for one in repeat["differences"])}
    if differing == {"threads"}:
        fix = "the engine gives other numbers with other threads; try another --target, and please report it"
    elif differing:
        fix = "the engine gives other numbers each time; try another --target, and please report it"
    elif not failed:
        what = f"{target}: nothing was proved of an output"
        fix = "give inputs on which the outputs vary, or accept this with --allow-inconclusive"
    elif numeric and len(numeric) == len(failed) and min(numeric) > 10:
        loosest = max((case["max_abs_error"] or 0.0) for case in failed)
        fix = f"if this accuracy is enough: --min-sqnr {int(min(numeric)) - 1} --atol {loosest * 1.1:.2g}"
        fix += f"; {_KEEP_FLOAT}" if lossy else ""
    elif lossy:
        what = f"{target}: quantizing loses more than it may"
        fix = f"{_KEEP_FLOAT}, or use another --quantize recipe or --observer, or data like real inputs"
    else:
        fix = "the numbers are wrong, so nothing was written; try another --target, or --no-rewrite"
    error = ProofFailed(what, why="\n".join(lines), fix=fix)
    error.verdict = document
    return error


def to_array(tensor: torch.Tensor) -> np.ndarray:
    """A tensor's values as they cross the signature: bfloat16 as float32, contiguous, a copy."""
    import torch

    tensor = tensor.detach()
    tensor = tensor.to(torch.float32) if tensor.dtype == torch.bfloat16 else tensor
    return tensor.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format).numpy()
