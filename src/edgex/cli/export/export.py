"""`edgex export`: find the model, capture it, lower it to each target, prove it, write it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgex.cli.failure import advise, print_json, report_failure
from edgex.cli.options.command import make_command, option
from edgex.cli.options.language import language_options
from edgex.cli.options.shared import (
    RENAMED,
    Share,
    calibration_option,
    common_options,
    dynamic_option,
    group_size_option,
    input_shape_option,
    model_argument,
    output_option,
    precision_option,
    rewrite_option,
    sizes_option,
    target_options_option,
    targets_option,
)
from edgex.cli.supervisor import leftovers_remover, supervise

if TYPE_CHECKING:
    from edgex.export.result import ExportReport
    from edgex.export.settings import ExportSettings
    from edgex.export.source.source import ModelSource


@make_command("export", renamed=RENAMED)
@model_argument
@targets_option(
    "What to export to: several by comma or repeated, or all that work here; `edgex targets` lists them.", required=True
)
@output_option("The folder for the artifacts, or one artifact's path, which ends in .edgex; default: here.")
@precision_option
@option(
    "--quantize",
    default="none",
    show_default=True,
    metavar="RECIPE",
    group="Precision and quantization",
    help="Quantize by a recipe: int8, a16w8, int8-dynamic, 8da8w, 8da4w, int8-weight or int4-weight.",
)
@group_size_option
@calibration_option
@option(
    "--calibration-samples",
    type=int,
    metavar="N",
    group="Precision and quantization",
    help="Use at most this many samples of the calibration data.",
)
@option(
    "--observer",
    metavar="NAME",
    group="Precision and quantization",
    help="How ranges are found: histogram, minmax or percentile.",
)
@option(
    "--max-drop",
    type=Share(),
    metavar="X",
    group="Precision and quantization",
    help="Budget: how much evaluate(run) may lose, 0.01 or 1%; without evaluate, the share of noise in the outputs.",
)
@option(
    "--keep-best",
    is_flag=True,
    group="Precision and quantization",
    help="Save the best artifact even if none meets --max-drop.",
)
@option(
    "--speed-check/--no-speed-check",
    default=True,
    show_default=True,
    group="Precision and quantization",
    help="Time a quantized artifact against float32.",
)
@option(
    "--require-speedup",
    is_flag=True,
    group="Precision and quantization",
    help="Refuse a quantized artifact that is not faster.",
)
@language_options()
@input_shape_option
@dynamic_option
@sizes_option
@option(
    "--atol",
    type=float,
    metavar="X",
    group="Proof and limits",
    help="Largest absolute error of a floating-point output.",
)
@option(
    "--rtol",
    type=float,
    metavar="X",
    group="Proof and limits",
    help="Largest error of a floating-point output, as a share of the reference's maximum.",
)
@option(
    "--min-sqnr",
    type=float,
    metavar="DB",
    group="Proof and limits",
    help="Least SQNR of a floating-point output, in dB.",
)
@option(
    "--min-delegation",
    type=Share(),
    metavar="SHARE",
    group="Proof and limits",
    help="Least share of the work that must be delegated, 0 to 1 or in percent. Work is counted in multiply-adds, "
    "not measured: `edgex profile` shows the share of the time.",
)
@target_options_option
@rewrite_option("Apply the rewrites of the graph that help the targets.")
@option(
    "--skip-case",
    "skip_cases",
    multiple=True,
    metavar="NAME",
    group="Proof and limits",
    help="Leave out a verification case by its name; repeatable.",
)
@option(
    "--allow-inconclusive",
    is_flag=True,
    group="Proof and limits",
    help="Accept outputs about which nothing could be proved: constants, and what rounding decides in eager itself.",
)
@option(
    "--verify-data",
    metavar="SOURCE",
    group="Proof and limits",
    help="Judge on held-out samples too: data.npz, file.py:function, or calibration_data() of the model file.",
)
@option(
    "--exclude",
    multiple=True,
    metavar="OP[@MODULE]",
    group="Target",
    help="Keep an operator out of the delegate, everywhere or inside a module; repeatable.",
)
@option(
    "--bisect/--no-bisect",
    default=True,
    show_default=True,
    group="Proof and limits",
    help="Where the proof fails, look for the operators at fault, for 60 seconds at most.",
)
@option(
    "--memory-check/--no-memory-check",
    default=True,
    show_default=True,
    group="Proof and limits",
    help="Refuse, before the slow steps, a model that memory will not hold.",
)
@option("--dry-run", is_flag=True, group="General", help="Capture and plan, but write nothing.")
@common_options(force=True)
def command(
    model: str,
    targets: tuple[str, ...],
    output: Path | None,
    precision: str,
    quantize: str,
    group_size: int | None,
    calibration: str | None,
    calibration_samples: int | None,
    observer: str | None,
    max_drop: float | None,
    keep_best: bool,
    speed_check: bool,
    require_speedup: bool,
    llm: bool,
    context: int | None,
    chunk: int | None,
    source: int | None,
    head: str | None,
    embedding: str | None,
    kv: str | None,
    shapes: tuple[str, ...],
    dynamic: tuple[str, ...],
    fixed: tuple[str, ...],
    atol: float | None,
    rtol: float | None,
    min_sqnr: float | None,
    min_delegation: float | None,
    options: tuple[str, ...],
    rewrite: bool,
    skip_cases: tuple[str, ...],
    allow_inconclusive: bool,
    verify_data: str | None,
    exclude: tuple[str, ...],
    bisect: bool,
    memory_check: bool,
    timeout: float | None,
    dry_run: bool,
    force: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Export MODEL (`file.py`, `file.py:name`, `package.module:name` or `file.pt2`) to one or several targets."""

    def body() -> int:
        from edgex.cli.flags import parse_dynamic, parse_key_values, parse_shapes, split_list
        from edgex.export.language_model.request import read_request
        from edgex.export.methods.sizes import parse_sizes
        from edgex.export.next_commands import name_model
        from edgex.export.settings import BISECT_SECONDS, ExportSettings, Limits

        language = read_request(llm, context, chunk, source, head, embedding, kv)
        sizes = parse_shapes(shapes)
        recipe = None if quantize == "none" else quantize
        settings = ExportSettings(
            targets=split_list("-t", targets),
            output=output,
            force=force,
            precision=precision,
            quantize=recipe,
            group_size=group_size,
            calibration=calibration,
            calibration_samples=calibration_samples,
            observer=observer,
            max_drop=max_drop,
            keep_best=keep_best,
            speed_check=speed_check,
            require_speedup=require_speedup,
            tolerance=None if min_sqnr is atol is rtol is None else Limits(min_sqnr, atol, rtol),
            min_delegation=min_delegation,
            options=parse_key_values(options),
            rewrite=rewrite,
            allow_inconclusive=allow_inconclusive,
            skip_cases=skip_cases,
            dynamic=parse_dynamic(dynamic),
            sizes=parse_sizes(fixed),
            memory_check=memory_check,
            exclude=split_list("--exclude", exclude),
            verify_data=verify_data,
            bisect_seconds=BISECT_SECONDS if bisect else 0.0,
            language=language,
        )
        report = _export(model, settings, sizes, dry_run=dry_run, quiet=quiet)
        for failure in report.failures:
            name_model(failure.error, model, language)
        return _show(report, as_json=as_json, quiet=quiet, verbose=verbose)

    home = (output.parent if output.suffix == ".edgex" else output) if output else Path()
    supervise(
        body, timeout_seconds=timeout, as_json=as_json, verbose=verbose, model=model, clean_up=leftovers_remover(home)
    )


def _export(
    model: str, settings: ExportSettings, shapes: dict[str, tuple[int, ...]], *, dry_run: bool, quiet: bool
) -> ExportReport:
    """Run the pipeline; what fails before the first target is every target's failure."""
    from edgex.cli.environment.targets import describe_targets
    from edgex.cli.progress import StageProgress
    from edgex.errors import EdgexError, UsageError
    from edgex.export.all_targets import ALL, expand_all
    from edgex.export.pipeline import export_to_targets
    from edgex.export.result import ExportReport, Failure
    from edgex.export.source.naming import parse_model_name

    def find() -> ModelSource:
        from edgex.export.source.source import find_model

        return find_model(model, input_shapes=shapes, language=settings.language is not None, several=True)

    try:
        name = parse_model_name(model).artifact_name
        if settings.language is not None and shapes:
            raise UsageError("--input-shape does not go with --llm", fix="say the sizes by --context and --chunk")
        lacking = {found["name"]: found["reason"] for found in describe_targets()} if ALL in settings.targets else {}
        settings, notices = expand_all(settings, lacking)
        with StageProgress(quiet=quiet) as progress:
            report = export_to_targets(find, settings, name=name, progress=progress, dry_run=dry_run)
        return replace(report, notices=(*notices, *report.notices))
    except EdgexError as error:
        return ExportReport(None, None, failures=tuple(Failure(target, error) for target in settings.targets))


def _show(report: ExportReport, *, as_json: bool, quiet: bool, verbose: bool) -> int:
    from edgex.cli.render import print_export

    for notice in () if quiet else report.notices:
        click.echo(f"note: {notice}", err=True)
    for failure in report.failures:
        advise(failure.error)
    document = report.to_json()
    print_json(document) if as_json else print_export(document, verbose=verbose)
    told: set[int] = set()
    for failure in report.failures:
        if id(failure.error) not in told:
            told.add(id(failure.error))
            shared = len(report.failures) > 1 and all(other.error is failure.error for other in report.failures)
            named = failure.error.what.startswith((f"{failure.target}:", f"{failure.target} "))
            if not (shared or named) and len(report.failures) + len(report.artifacts) > 1:
                click.echo(f"{failure.target}:", err=True)
            report_failure(failure.error, trace=verbose)
    return report.exit_code
