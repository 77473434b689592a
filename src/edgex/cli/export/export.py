"""`edgex export`: find the model, capture it, lower it to each target, prove it, write it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgex.cli.failure import print_json, report_failure
from edgex.cli.supervisor import leftovers_remover, supervise

if TYPE_CHECKING:
    from edgex.export.result import ExportReport
    from edgex.export.settings import ExportSettings
    from edgex.export.source.source import ModelSource


@click.command("export")
@click.argument("model")
@click.option("-t", "--target", "targets", multiple=True, required=True, help="One or several, by comma or repeated.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder, or a path that ends in .edgex.")
@click.option("--precision", default="fp32", show_default=True, help="fp32, fp16 or bf16.")
@click.option("--quantize", default="none", show_default=True, help="A recipe, for example int8 or 8da4w.")
@click.option("--group-size", type=int, help="Weights that share a scale, for recipes with 4-bit weights.")
@click.option("--calibration", help="data.npz, file.py:function or random:N, instead of calibration_data().")
@click.option("--calibration-samples", type=int, help="Use at most so many samples.")
@click.option("--observer", help="How ranges are found: histogram, minmax or percentile.")
@click.option("--max-drop", type=float, help="Budget: how much evaluate(run) may lose; without it, share of noise.")
@click.option("--keep-best", is_flag=True, help="Save the best artifact even if no one meets --max-drop.")
@click.option("--speed-check/--no-speed-check", default=True, help="Time a quantized artifact against float32.")
@click.option("--require-speedup", is_flag=True, help="Refuse a quantized artifact that is not faster.")
@click.option("--input-shape", "shapes", multiple=True, help="x=1x3x224x224: example inputs of this size.")
@click.option("--dynamic", multiple=True, help="x:0=1..8: this dimension varies between these bounds.")
@click.option("--atol", type=float, help="Largest absolute error of a float output.")
@click.option("--rtol", type=float, help="The same as a share of the reference's maximum.")
@click.option("--min-sqnr", type=float, help="Least SQNR of a float output, in dB.")
@click.option("--min-delegation", type=float, help="Least share of the work that must be delegated, 0 to 1.")
@click.option(
    "--option", "options", multiple=True, help="key=value for the target, target.key=value for one of several."
)
@click.option("--fix/--no-fix", default=True, show_default=True, help="Apply rewrites that help targets.")
@click.option("--skip-case", "skip_cases", multiple=True, help="Leave out a verification case by its name.")
@click.option("--allow-inconclusive", is_flag=True, help="Accept outputs about which nothing could be proved.")
@click.option("--memory-check/--no-memory-check", default=True, help="Refuse a model that memory will not hold.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds after which it is stopped.")
@click.option("--dry-run", is_flag=True, help="Capture and plan, write nothing.")
@click.option("--force", is_flag=True, help="Replace existing artifacts.")
@click.option("--json", "as_json", is_flag=True, help="One document on stdout.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@click.option("-v", "--verbose", is_flag=True, help="Full tracebacks.")
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
    shapes: tuple[str, ...],
    dynamic: tuple[str, ...],
    atol: float | None,
    rtol: float | None,
    min_sqnr: float | None,
    min_delegation: float | None,
    options: tuple[str, ...],
    fix: bool,
    skip_cases: tuple[str, ...],
    allow_inconclusive: bool,
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
        from edgex.export.settings import ExportSettings, Limits

        recipe = None if quantize == "none" else quantize
        settings = ExportSettings(
            targets=split_list(targets),
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
            rewrite=fix,
            allow_inconclusive=allow_inconclusive,
            skip_cases=skip_cases,
            dynamic=parse_dynamic(dynamic),
            memory_check=memory_check,
        )
        report = _export(model, settings, parse_shapes(shapes), dry_run=dry_run, quiet=quiet)
        return _show(report, as_json=as_json, verbose=verbose)

    home = (output.parent if output.suffix == ".edgex" else output) if output else Path()
    supervise(body, timeout_seconds=timeout, as_json=as_json, verbose=verbose, clean_up=leftovers_remover(home))


def _export(
    model: str, settings: ExportSettings, shapes: dict[str, tuple[int, ...]], *, dry_run: bool, quiet: bool
) -> ExportReport:
    """Run the pipeline; what fails before the first target is every target's failure."""
    from edgex.cli.progress import StageProgress
    from edgex.errors import EdgexError
    from edgex.export.pipeline import export_to_targets
    from edgex.export.result import ExportReport, Failure
    from edgex.export.source.naming import parse_model_name

    def find() -> ModelSource:
        from edgex.export.source.source import find_model

        return find_model(model, input_shapes=shapes)

    try:
        name = parse_model_name(model).artifact_name
        with StageProgress(quiet=quiet) as progress:
            return export_to_targets(find, settings, name=name, progress=progress, dry_run=dry_run)
    except EdgexError as error:
        return ExportReport(None, None, failures=tuple(Failure(target, error) for target in settings.targets))


def _show(report: ExportReport, *, as_json: bool, verbose: bool) -> int:
    from edgex.cli.render import print_export

    for notice in report.notices:
        click.echo(f"note: {notice}", err=True)
    document = report.to_json()
    print_json(document) if as_json else print_export(document)
    told: set[int] = set()
    for failure in report.failures:
        if id(failure.error) not in told:
            told.add(id(failure.error))
            shared = len(report.failures) > 1 and all(other.error is failure.error for other in report.failures)
            if not shared and len(report.failures) + len(report.artifacts) > 1:
                click.echo(f"{failure.target}:", err=True)
            report_failure(failure.error, trace=verbose)
    return report.exit_code
