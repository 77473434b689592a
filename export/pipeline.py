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
from edgex.errors import EdgexError, LoweringError, VerificationError
from edgex.export.debug_files import write_debug
from edgex.export.package import hashing, list_files, publish, staged, write_manifest
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
        tolerance=tolerance,
        options=options or {},
    )
    source = wrap_model(model, tuple(args), dict(kwargs or {}), dynamic_shapes, name)
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
        jobs = check_settings(settings, name)
    prepared = _prepare(find, settings, [job.delegate for job in jobs], clock, progress, with_cases=not dry_run)
    artifacts: list[ExportedArtifact] = []
    failures: list[Failure] = []
    for job in jobs:
        try:
            step = _plan_one if dry_run else _export_one
            artifacts.append(step(job, prepared, settings, clock.copy(), progress))
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
    cases: dict[str, Sequence[Case]] = {}
    if with_cases:
        with clock.stage("reference"):
            steps = [captured.eager.flatten(args, kwargs) for args, kwargs in source.example_sequence or ()]
            known: dict[int, Sequence[Case]] = {}
            for delegate in delegates:
                found = quantized.get(delegate.name)
                if id(found) not in known:
                    known[id(found)] = make_cases(
                        programs[delegate.name].program,
                        captured.eager,
                        steps,
                        settings.skip_cases,
                        lambda case: progress("reference", case),
                        None if found is None else found.reference,
                    )
                    require_state_shown(known[id(found)], settings.allow_inconclusive)
                cases[delegate.name] = known[id(found)]
    return _Prepared(source, programs, cases, (*source.notices, *captured.notices), quantized)


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
            write_debug(folder, lowered.debug, program)
            write_golden(folder, cases)
            manifest = _make_manifest(job, prepared, lowered, settings)
            write_manifest(folder, replace(manifest, files=list_files(folder, hashed=False)))
        memory = peak_rss_bytes()
        with clock.stage("verify"), hashing(folder, lowered.files) as wait_for_hashes:
            progress("verify", f"{target}, in a fresh process")
            verdict = verify_in_fresh_process(folder, cpu_reference=lowered.assembled_reason is not None)
            if not verdict["passed"]:
                raise explain_failure(verdict, target)
            hashes = wait_for_hashes()
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
        manifest.quantization,
    )


def _make_manifest(job: Job, prepared: _Prepared, lowered: LoweredModule, settings: ExportSettings) -> Manifest:
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
        quantization=prepared.describe_quantization(job.delegate.name),
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
