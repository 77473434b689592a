"""The whole flow on one screen: find -> capture -> rewrite -> quantize -> lower -> package -> prove -> artifact.

`export_model` is the Python door, `export_to_targets` the command line's. Each stage is a function from value to
value; this module only calls them in order, checks the border between them and takes the time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgex._version import __version__
from edgex.delegates.recipes import describe_recipe
from edgex.errors import EdgexError, LoweringError, UsageError, VerificationError
from edgex.export.debug_files import write_debug
from edgex.export.package import hashing, list_files, publish, scratch_folder, staged, write_manifest
from edgex.export.result import ExportedArtifact, ExportReport, Failure, StageClock, peak_rss_bytes
from edgex.export.settings import ExportSettings, Job, check_settings
from edgex.export.verification import (
    carried_cases,
    explain_failure,
    make_cases,
    require_state_shown,
    verify_in_fresh_process,
)
from edgex.runtime.artifact import Artifact, open_artifact
from edgex.runtime.engines.registry import get_engine
from edgex.runtime.golden import Case, replace_golden, write_golden
from edgex.runtime.manifest import Manifest
from edgex.runtime.numerics import QUANTIZED_TOLERANCE, Tolerance
from edgex.runtime.plugins import installed_version

if TYPE_CHECKING:
    from edgex.delegates.base import CapturedProgram, Delegate, LoweredModule
    from edgex.delegates.plan import PartitionPlan
    from edgex.export.eager import EagerModel
    from edgex.export.quantization.ladder import Ladder
    from edgex.export.quantization.speed import SpeedCheck
    from edgex.export.quantization.stage import QuantizedModel
    from edgex.export.rewrites.proof import ProvedRewrites
    from edgex.export.source import ModelSource

# Below this share of delegated work an artifact is written with a warning; --min-delegation makes it an error.
WARN_BELOW_DELEGATION = 0.9

Progress = Callable[[str, str], None]


def export_model(
    model: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    target: str,
    output: str | Path | None = None,
    dynamic_shapes: Any = None,
    precision: str | None = None,
    quantize: str | None = None,
    calibration: Any = None,
    observer: str | None = None,
    group_size: int | None = None,
    max_drop: float | None = None,
    evaluate: Callable[..., float] | None = None,
    tolerance: Tolerance | None = None,
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
    force: bool = False,
) -> Artifact:
    """Export a module or an ExportedProgram to one target, prove it, and write it.

    Args:
        model: An `nn.Module` (it is captured in eval mode) or an `ExportedProgram`.
        args: Example inputs by position.
        kwargs: Example inputs by name.
        target: A delegate's name, for example `xnnpack`.
        output: Folder for `NAME.TARGET.edgex`, or a path that ends in `.edgex`; None is the current folder.
        dynamic_shapes: As `torch.export.export` takes it.
        precision: `fp32` (default), `fp16` or `bf16`.
        quantize: A recipe's name; every target refuses those that it does not offer.
        calibration: Data for recipes that need some: a list of samples in the form of the example inputs, a function
            that gives one, or what the command line's `--calibration` takes.
        observer: `histogram` (default), `minmax` or `percentile`: how ranges are found in the data.
        group_size: Weights that share a scale, for recipes with 4-bit weights.
        max_drop: Accuracy budget: how much less than eager float32 `evaluate` may give.
        evaluate: Takes a function that runs a model, gives a number, higher for better ones; None measures noise.
        tolerance: How far outputs may be from eager's; None is the default of the precision or recipe.
        options: The delegate's options.
        name: The artifact's NAME; None is the class name in lower case.
        force: Replace an existing artifact.

    Raises:
        EdgexError: Whatever stage failed; nothing is left on disk then.
    """
    from edgex.export.source import wrap_model

    settings = ExportSettings(
        targets=(target,),
        output=None if output is None else Path(output),
        force=force,
        precision=precision or "fp32",
        quantize=quantize,
        calibration=calibration,
        observer=observer,
        group_size=group_size,
        max_drop=max_drop,
        tolerance=tolerance,
        options=options or {},
    )
    source = replace(wrap_model(model, tuple(args), dict(kwargs or {}), dynamic_shapes, name), evaluate=evaluate)
    report = export_to_targets(lambda: source, settings, name=source.name, stop_at_failure=True)
    return open_artifact(str(report.artifacts[0].path), check="size")


def export_to_targets(
    find: Callable[[], ModelSource],
    settings: ExportSettings,
    *,
    name: str,
    progress: Progress = lambda _stage, _detail: None,
    stop_at_failure: bool = False,
    dry_run: bool = False,
) -> ExportReport:
    """Export one model to several targets; one that fails does not stop the others.

    Args:
        find: Gives the model; called after the settings were checked.
        settings: What the user asked for.
        name: The artifacts' NAME.
        progress: Called with a stage and a detail as work goes on.
        stop_at_failure: Raise the first target's failure instead of reporting it.
        dry_run: Stop at each target's plan and write nothing.

    Raises:
        EdgexError: A flag is wrong, or the model cannot be found or captured.
    """
    clock = StageClock()
    with clock.stage("check"):
        if dry_run and settings.max_drop is not None:
            raise UsageError("--dry-run measures nothing", fix="leave --max-drop or --dry-run out")
        jobs = check_settings(settings, name)
    prepared = _prepare(find, settings, [job.delegate for job in jobs], clock, progress, with_cases=not dry_run)
    artifacts: list[ExportedArtifact] = []
    failures: list[Failure] = []
    for job in jobs:
        try:
            step = _plan_one if dry_run else _export_one
            artifact = step(job, prepared, settings, clock.copy(), progress)
            artifacts.append(artifact)
            if artifact.shortfall is not None:
                failures.append(Failure(artifact.target, artifact.shortfall))
        except EdgexError as error:
            if stop_at_failure:
                raise
            failures.append(Failure(job.delegate.name, error))
    source = prepared.source
    return ExportReport(source.description, source.parameters, tuple(artifacts), tuple(failures), prepared.notices)


@dataclass(frozen=True)
class _Prepared:
    """What all targets share, and the program of each in its precision."""

    source: ModelSource
    programs: Mapping[str, ProvedRewrites]
    cases: Mapping[str, Sequence[Case]]
    notices: tuple[str, ...]
    quantized: Mapping[str, QuantizedModel]
    eager: EagerModel

    def cases_of(self, target: str, settings: ExportSettings, progress: Progress) -> Sequence[Case]:
        """What a target's artifact has to prove, with the answers."""
        steps = [self.eager.flatten(args, kwargs) for args, kwargs in self.source.example_sequence or ()]
        model = self.quantized.get(target)
        cases = make_cases(
            self.programs[target].program,
            self.eager,
            steps,
            settings.skip_cases,
            lambda case: progress("reference", case),
            None if model is None else model.reference,
        )
        require_state_shown(cases, settings.allow_inconclusive)
        return cases

    def program(self, target: str) -> CapturedProgram:
        """What a target lowers."""
        model = self.quantized.get(target)
        return self.programs[target].program if model is None else model.quantized.program

    def warnings(self, target: str) -> tuple[str, ...]:
        """What is to be said of the target's program before it is lowered."""
        model = self.quantized.get(target)
        return (*self.programs[target].dropped, *(() if model is None else model.warnings))

    def describe_quantization(self, target: str) -> Mapping[str, Any] | None:
        """The manifest's `quantization`; what a delegate does itself while it lowers is in its plan and options."""
        model = self.quantized.get(target)
        recipe = self.programs[target].program.recipe
        if model is not None:
            return model.to_json()
        return None if recipe is None else describe_recipe(recipe)

    def rewrites(self, target: str) -> tuple[Mapping[str, Any], ...]:
        """What was rewritten for a target, for the report and the manifest."""
        return tuple(asdict(rewrite) for rewrite in self.programs[target].applied)


def _prepare(
    find: Callable[[], ModelSource],
    settings: ExportSettings,
    delegates: Sequence[Delegate],
    clock: StageClock,
    progress: Progress,
    *,
    with_cases: bool,
) -> _Prepared:
    """Find, capture, rewrite, and let eager answer every case."""
    with clock.stage("import"):
        progress("import", "torch")
        from edgex.export.program import capture
        from edgex.export.rewrites import wanted_rewrites
        from edgex.export.rewrites.precision import convert_precision
        from edgex.export.rewrites.proof import ProvedRewrites, rewrite_and_prove
        from edgex.export.weights import check_weights
    with clock.stage("find"):
        progress("find", "the model and its example inputs")
        source = find()
        check_weights(source.module)
    with clock.stage("capture"):
        progress("capture", source.description)
        captured = capture(
            source.module,
            source.args,
            source.kwargs,
            source.dynamic_shapes,
            source_root=source.source_root,
            dynamic=settings.dynamic,
        )
    programs: dict[str, ProvedRewrites] = {}
    with clock.stage("rewrite"):
        # Targets that ask for the same rewrites share their program.
        made: dict[tuple[str, ...], ProvedRewrites] = {}
        for delegate in delegates:
            wanted = wanted_rewrites(delegate)
            if wanted not in made:
                proved = ProvedRewrites(captured.program, ())
                if settings.rewrite:
                    progress("rewrite", "what helps the targets")
                    proved = rewrite_and_prove(captured.program, captured.eager, wanted)
                made[wanted] = replace(proved, program=convert_precision(proved.program, settings.precision))
                _check_border(captured.program, made[wanted].program)
            programs[delegate.name] = made[wanted]
    quantized: dict[str, QuantizedModel] = {}
    recipe = settings.recipe
    if recipe is not None:
        with clock.stage("quantize"):
            from edgex.export.quantization.stage import quantize_for_targets

            floats = {name: proved.program for name, proved in programs.items()}
            common = frozenset(node.name for node in captured.program.exported.graph.nodes)
            quantized = quantize_for_targets(
                floats, common, delegates, recipe, source, captured.eager, settings, progress
            )
            for name, model in quantized.items():
                _check_border(floats[name], model.quantized.program)
            programs = {
                name: replace(proved, program=replace(proved.program, recipe=recipe))
                for name, proved in programs.items()
            }
    notices = (*source.notices, *captured.notices)
    prepared = _Prepared(source, programs, {}, notices, quantized, captured.eager)
    cases: dict[str, Sequence[Case]] = {}
    if with_cases:
        with clock.stage("reference"):
            known: dict[int, Sequence[Case]] = {}
            for name in programs:
                reference = id(quantized.get(name))
                if reference not in known:
                    known[reference] = prepared.cases_of(name, settings, progress)
                cases[name] = known[reference]
    return replace(prepared, cases=cases)


def _plan_one(
    job: Job, prepared: _Prepared, settings: ExportSettings, clock: StageClock, progress: Progress
) -> ExportedArtifact:
    """A dry run's answer: what the target would take."""
    program = prepared.program(job.delegate.name)
    with clock.stage("plan"):
        progress("plan", job.delegate.name)
        plan = job.delegate.plan(program, job.options)
        warnings = (*prepared.warnings(job.delegate.name), *_check_delegation(plan, settings, job.delegate.name))
    return ExportedArtifact(
        job.delegate.name,
        "planned",
        program.inputs,
        program.outputs,
        plan,
        clock.seconds,
        rewrites=prepared.rewrites(job.delegate.name),
        peak_rss_bytes=peak_rss_bytes(),
        warnings=warnings,
        quantization=prepared.describe_quantization(job.delegate.name),
    )


def _export_one(
    job: Job, prepared: _Prepared, settings: ExportSettings, clock: StageClock, progress: Progress
) -> ExportedArtifact:
    """Lower, write under a temporary name, prove in a fresh process, publish."""
    target = job.delegate.name
    ladder: Ladder | None = None
    if settings.max_drop is not None:
        with clock.stage("budget"):
            prepared, ladder = _meet_budget(job, prepared, settings, progress)
    program, cases = prepared.program(target), prepared.cases[target]
    with clock.stage("lower"):
        progress("lower", target)
        lowered = job.delegate.lower(program, job.options)
        _check_lowered_border(program, lowered)
        warnings = (*prepared.warnings(target), *lowered.warnings, *_check_delegation(lowered.plan, settings, target))
        if lowered.assembled_reason is not None:
            warnings = (*warnings, f"assembled, not verified: {lowered.assembled_reason}; proved on the CPU instead")
    with staged(job.destination) as folder:
        with clock.stage("package"):
            progress("package", target)
            lowered.write(folder)
            compression = _describe_compression(prepared, target)
            write_debug(folder, lowered.debug, program, compression)
            write_golden(folder, cases)
            manifest = _make_manifest(job, prepared, lowered, settings, ladder)
            write_manifest(folder, replace(manifest, files=list_files(folder, hashed=False)))
        memory = peak_rss_bytes()
        with clock.stage("verify"), hashing(folder, lowered.files) as wait_for_hashes:
            progress("verify", f"{target}, in a fresh process")
            verdict = verify_in_fresh_process(folder, cpu_reference=lowered.assembled_reason is not None)
            if not verdict["passed"]:
                raise explain_failure(verdict, target)
            hashes = wait_for_hashes()
        speed: SpeedCheck | None = None
        if settings.recipe is not None and settings.speed_check:
            with clock.stage("time"):
                speed, doubts = _check_speed(job, prepared, settings, folder, lowered, progress)
                warnings = (*warnings, *doubts)
        with clock.stage("package"):
            replace_golden(folder, cases, carried_cases(cases))
            proof = {**verdict, "allow_inconclusive": settings.allow_inconclusive}
            manifest = replace(
                manifest,
                verification=proof,
                status="verified" if lowered.assembled_reason is None else "assembled",
                status_reason=lowered.assembled_reason,
                files=list_files(folder, hashes),
            )
            write_manifest(folder, manifest)
            size = sum(entry.bytes for entry in manifest.files)
            publish(folder, job.destination)
    return ExportedArtifact(
        target,
        manifest.status,
        program.inputs,
        program.outputs,
        lowered.plan,
        clock.seconds,
        job.destination.path,
        size,
        verdict,
        prepared.rewrites(target),
        memory,
        warnings,
        _describe_outcome(manifest.quantization, compression, ladder, speed),
        None if ladder is None or ladder.chosen.holds else _over_budget(target, ladder),
    )


def _meet_budget(
    job: Job, prepared: _Prepared, settings: ExportSettings, progress: Progress
) -> tuple[_Prepared, Ladder]:
    """The target's program with as many layers in floating point as its accuracy budget needs.

    Raises:
        VerificationError: Nothing meets the budget, and the best is not to be kept.
    """
    from edgex.export.quantization.budget import Rungs
    from edgex.export.quantization.metric import choose_metric

    assert settings.max_drop is not None
    target = job.delegate.name
    proved, model = prepared.programs[target], prepared.quantized.get(target)
    held_out = () if model is None else [sample for _, sample in model.reference.held_out]
    progress("budget", f"{target}, eager float32")
    metric, baseline = choose_metric(prepared.source, prepared.eager, held_out)

    def assemble(program: CapturedProgram, folder: Path) -> None:
        lowered = job.delegate.lower(program, job.options)
        folder.mkdir(parents=True)
        lowered.write(folder)
        manifest = _make_manifest(job, prepared, lowered, settings)
        write_manifest(folder, replace(manifest, files=list_files(folder, hashed=False)))

    example = prepared.cases[target][0].steps[0].inputs
    rungs = Rungs(target, proved.program, model, prepared.eager, example, metric, baseline, assemble)
    with scratch_folder(job.destination) as scratch:
        ladder = rungs.climb(settings.max_drop, scratch, progress)
    if not ladder.chosen.holds and not settings.keep_best:
        raise _over_budget(target, ladder)
    if ladder.kept:
        program, model = rungs.keeping(frozenset(ladder.kept))
        if model is None:
            prepared = replace(prepared, programs={**prepared.programs, target: replace(proved, program=program)})
        else:
            prepared = replace(prepared, quantized={**prepared.quantized, target: model})
        prepared = replace(prepared, cases={**prepared.cases, target: prepared.cases_of(target, settings, progress)})
    return prepared, ladder


def _over_budget(target: str, ladder: Ladder) -> VerificationError:
    from edgex.export.quantization.budget import describe_shortfall

    return VerificationError(
        f"{target}: no artifact meets --max-drop {ladder.max_drop:g}",
        why=describe_shortfall(ladder),
        fix="allow more with --max-drop, use another --quantize recipe or --observer, give more calibration data, or "
        "save the best with --keep-best",
    )


def _check_speed(
    job: Job,
    prepared: _Prepared,
    settings: ExportSettings,
    folder: Path,
    lowered: LoweredModule,
    progress: Progress,
) -> tuple[SpeedCheck | None, tuple[str, ...]]:
    """Time the artifact against the same model lowered in floating point; the warnings that follow.

    Raises:
        VerificationError: It is not faster, and the user requires that.
    """
    from edgex.export.quantization.speed import time_against_float

    target = job.delegate.name
    if lowered.assembled_reason is not None:
        return None, (f"not timed against float32: {lowered.assembled_reason}",)
    progress("time", f"{target} against its float32 sibling")
    program = replace(prepared.programs[target].program, recipe=None, float_modules=frozenset())
    plain = replace(settings, quantize=None, group_size=None)
    example = prepared.cases[target][0].steps[0].inputs
    with scratch_folder(job.destination) as sibling:
        try:
            other = job.delegate.lower(program, job.options)
        except EdgexError as error:
            return None, (f"not timed against float32, which {target} does not take: {error.what}",)
        sibling.mkdir(parents=True)
        other.write(sibling)
        manifest = replace(_make_manifest(job, prepared, other, plain), quantization=None)
        write_manifest(sibling, replace(manifest, files=list_files(sibling, hashed=False)))
        speed = time_against_float(folder, sibling, example)
    if settings.require_speedup and speed.verdict != "faster":
        raise VerificationError(
            f"{target}: the quantized artifact is not faster than float32",
            why=speed.text,
            fix="leave --require-speedup out, or use another --quantize recipe",
        )
    return speed, ((speed.text,) if speed.verdict == "slower" else ())


def _describe_compression(prepared: _Prepared, target: str) -> dict[str, Any] | None:
    """The compression report; None where the delegate quantizes while it lowers, or nothing is quantized."""
    model = prepared.quantized.get(target)
    if model is None:
        return None
    from edgex.export.quantization.compression import describe_compression

    held_out = [sample for _, sample in model.reference.held_out]
    return describe_compression(model.quantized, [prepared.eager.example, *held_out])


def _describe_outcome(
    quantization: Mapping[str, Any] | None,
    compression: Mapping[str, Any] | None,
    ladder: Ladder | None,
    speed: SpeedCheck | None,
) -> dict[str, Any] | None:
    """The report's `quantization`: the manifest's, with what was measured; times never enter an artifact."""
    if quantization is None:
        return None
    return {
        **quantization,
        "compression": compression,
        "budget": None if ladder is None else ladder.to_json(),
        "speed": None if speed is None else speed.to_json(),
    }


def _make_manifest(
    job: Job,
    prepared: _Prepared,
    lowered: LoweredModule,
    settings: ExportSettings,
    ladder: Ladder | None = None,
) -> Manifest:
    """The manifest before the proof: it tells the verifying process what to hold the outputs to."""
    quantized = prepared.quantized.get(job.delegate.name)
    engine = get_engine(job.delegate.engine)
    packages = {name: installed_version(name) for name in job.delegate.packages}
    producer = {**engine.versions(), **{name: found for name, found in packages.items() if found}}
    return Manifest(
        name=prepared.source.name,
        target=job.delegate.name,
        engine=job.delegate.engine,
        precision=settings.precision,
        methods=lowered.methods,
        files=(),
        producer={"edgex": __version__, **dict(sorted(producer.items()))},
        delegation=lowered.plan.to_json(),
        requirements=lowered.requirements,
        quantization=_with_accuracy(prepared.describe_quantization(job.delegate.name), ladder),
        verification={
            "tolerance": settings.effective_tolerance.to_json(),
            "quantized_tolerance": None if quantized is None else QUANTIZED_TOLERANCE.to_json(),
            "allow_inconclusive": settings.allow_inconclusive,
        },
        status_reason=None,
        rewrites=prepared.rewrites(job.delegate.name),
        options=lowered.options,
        model={
            "source": prepared.source.description,
            "parameters": prepared.source.parameters,
            "card": dict(prepared.source.model_card),
        },
    )


def _with_accuracy(quantization: Mapping[str, Any] | None, ladder: Ladder | None) -> Mapping[str, Any] | None:
    """The manifest's `quantization` with what a budget came to."""
    if quantization is None or ladder is None:
        return quantization
    return {**quantization, "accuracy": ladder.to_manifest()}


def _check_border(before: CapturedProgram, after: CapturedProgram) -> None:
    """A rewrite keeps the name, dtype and shape of every input and output: the graph's, not only what is said of it."""
    from edgex.export.rewrites.editor import border_of

    for word, old, new in (
        ("input", before.inputs, after.inputs),
        ("output", before.outputs, after.outputs),
        ("graph's border", border_of(before.exported), border_of(after.exported)),
    ):
        if old != new:
            raise AssertionError(f"a rewrite changed the {word} from {old} to {new}")


def _check_lowered_border(program: CapturedProgram, lowered: LoweredModule) -> None:
    """A delegate keeps the border too, and every state tensor."""
    method = lowered.methods[0]
    if method.inputs != program.inputs or method.outputs != program.outputs:
        raise AssertionError(f"the delegate changed the border of the program to {method}")
    if {state.name for state in method.state} != {state.name for state in program.state}:
        raise LoweringError(
            "the delegate dropped state that the model keeps between runs",
            why=f"the model has {[s.name for s in program.state]}, the result {[s.name for s in method.state]}",
        )


def _check_delegation(plan: PartitionPlan, settings: ExportSettings, target: str) -> tuple[str, ...]:
    """The gate of --min-delegation, or the warning that stands in for it."""
    share = plan.fraction if plan.work_fraction is None else plan.work_fraction
    kind = "operators" if plan.work_fraction is None else "work"
    left = ", ".join(f"{f.count} x {f.op} ({f.code}, {f.source or 'no line'})" for f in plan.fallbacks[:4])
    if settings.min_delegation is not None and share < settings.min_delegation:
        raise VerificationError(
            f"{target} takes {share:.0%} of the {kind}, --min-delegation asks for {settings.min_delegation:.0%}",
            why=f"left out: {left}",
            fix="try another --target, or lower --min-delegation",
        )
    if share < WARN_BELOW_DELEGATION:
        return (f"{target} takes {share:.0%} of the {kind}; left out: {left}",)
    return ()
