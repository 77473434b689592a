"""`edgex profile`: measure an artifact and show, print or save the report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgex.cli.files import check_output, write_text
from edgex.cli.supervisor import supervise
from edgex.errors import UsageError, nearest_name

if TYPE_CHECKING:
    from edgex.runtime.artifact import CheckLevel
    from edgex.runtime.profile.report import ProfileReport


@click.command("profile")
@click.argument("artifact", type=click.Path())
@click.option("-i", "--input", "inputs", multiple=True, help="in.npz, or name=file.npy; default: the golden example.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the report to this .json or .md.")
@click.option("--threads", type=click.IntRange(min=1), help="Threads for one run.")
@click.option("--no-tuned", is_flag=True, help="The engine's default threads, whatever a sweep found quickest.")
@click.option("--warmup", type=click.IntRange(min=1), help="Warm-up runs; default: until the latency settles.")
@click.option("--runs", type=click.IntRange(min=1), help="Samples to take; default: about three seconds' worth.")
@click.option("--sweep", metavar="AXES", help="threads, batch or both: measure each setting, keep the best threads.")
@click.option("--check", type=click.Choice(["hash", "size"]), default="hash", show_default=True)
@click.option("--allow-fallback", is_flag=True, help="Let the CPU run what an artifact's GPU provider does not.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds after which it is stopped.")
@click.option("--force", is_flag=True, help="Replace an existing report.")
@click.option("--json", "as_json", is_flag=True, help="One document on stdout.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@click.option("-v", "--verbose", is_flag=True, help="Full tracebacks.")
def command(
    artifact: str,
    inputs: tuple[str, ...],
    output: Path | None,
    threads: int | None,
    no_tuned: bool,
    warmup: int | None,
    runs: int | None,
    sweep: str | None,
    check: str,
    allow_fallback: bool,
    timeout: float | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Measure ARTIFACT: load, first run, steady latency, memory; and say how far to trust it."""

    def body() -> int:
        axes = None if sweep is None else _parse_axes(sweep, threads=threads, counts=(warmup, runs))
        if output is not None:
            check_output(output, tuple(_FORMS), force)
        from edgex.cli.inputs import read_inputs
        from edgex.cli.progress import StageProgress
        from edgex.runtime.profile.collect import profile
        from edgex.runtime.session import load

        level: CheckLevel = "size" if check == "size" else "hash"
        if axes is not None:
            return _sweep(artifact, axes, inputs, output, threads, level, as_json=as_json, quiet=quiet)
        with StageProgress(quiet=quiet) as progress:
            progress("load", Path(artifact).name)
            options = {"allow_fallback": True} if allow_fallback else {}
            with load(artifact, threads=threads, options=options, check=level, tuned=not no_tuned) as session:
                values = read_inputs(inputs, session.artifact) if inputs else None
                report = profile(session, values, warmup, runs, check=level, progress=progress)
        if output is not None:
            write_text(output, _FORMS[output.suffix](report))
        _show(report, as_json=as_json)
        return 0

    supervise(body, timeout_seconds=timeout, as_json=as_json, verbose=verbose)


def _parse_axes(text: str, *, threads: int | None, counts: tuple[int | None, ...]) -> tuple[str, ...]:
    """What `--sweep` names.

    Raises:
        UsageError: An axis is unknown, or another flag says otherwise.
    """
    from edgex.cli.flags import split_list
    from edgex.runtime.profile.sweep import AXES

    axes = split_list([text])
    unknown = [axis for axis in axes if axis not in AXES]
    if unknown or not axes:
        raise UsageError(
            f"--sweep {text}: expected threads, batch or threads,batch",
            why=nearest_name(unknown[0], AXES) if unknown else None,
            fix="--sweep threads",
        )
    if threads is not None and "threads" in axes:
        raise UsageError("--threads fixes what --sweep threads varies", fix="leave one of them out")
    if any(count is not None for count in counts):
        raise UsageError("--sweep chooses warm-up and runs itself", fix="leave --warmup and --runs out")
    return axes


def _sweep(
    path: str,
    axes: tuple[str, ...],
    inputs: tuple[str, ...],
    output: Path | None,
    threads: int | None,
    check: CheckLevel,
    *,
    as_json: bool,
    quiet: bool,
) -> int:
    from edgex.cli.failure import print_json
    from edgex.cli.inputs import read_inputs
    from edgex.cli.progress import StageProgress
    from edgex.cli.render import print_table
    from edgex.runtime.artifact import open_artifact
    from edgex.runtime.profile.sweep import run_sweep
    from edgex.runtime.report.sweep import describe_best, render_sweep, tabulate_sweep

    opened = open_artifact(path, check)
    values = read_inputs(inputs, opened) if inputs else None
    with StageProgress(quiet=quiet) as progress:
        found = run_sweep(opened, axes, inputs=values, threads=threads, check=check, progress=progress)
    if output is not None:
        document = json.dumps(found.to_json(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        write_text(output, document if output.suffix == ".json" else render_sweep(found))
    if as_json:
        print_json(found.to_json())
        return 0
    table = tabulate_sweep(found)
    print_table([table.head, *table.rows])
    for line in describe_best(found):
        click.echo(line)
    for warning in found.warnings:
        click.echo(click.style(f"warning: {warning.code}: ", fg="yellow") + warning.text)
    return 0


def _as_json(report: ProfileReport) -> str:
    return report.dumps()


def _as_markdown(report: ProfileReport) -> str:
    from edgex.runtime.report.markdown import render_markdown

    return render_markdown(report)


_FORMS: dict[str, Callable[[ProfileReport], str]] = {".json": _as_json, ".md": _as_markdown}


def _show(report: ProfileReport, *, as_json: bool) -> None:
    if as_json:
        click.echo(report.dumps(), nl=False)
        return
    from rich.console import Console

    from edgex.runtime.report.terminal import print_report

    print_report(report, Console())
