"""`edgex profile`: measure an artifact and show, print or save the report."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgex.cli.supervisor import supervise
from edgex.errors import RunError, UsageError

if TYPE_CHECKING:
    from edgex.runtime.artifact import CheckLevel
    from edgex.runtime.profile.report import ProfileReport


@click.command("profile")
@click.argument("artifact", type=click.Path())
@click.option("-i", "--input", "inputs", multiple=True, help="in.npz, or name=file.npy; default: the golden example.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the report to this .json or .md.")
@click.option("--threads", type=click.IntRange(min=1), help="Threads for one run.")
@click.option("--warmup", type=click.IntRange(min=1), help="Warm-up runs; default: until the latency settles.")
@click.option("--runs", type=click.IntRange(min=1), help="Samples to take; default: about three seconds' worth.")
@click.option("--check", type=click.Choice(["hash", "size"]), default="hash", show_default=True)
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
    warmup: int | None,
    runs: int | None,
    check: str,
    timeout: float | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Measure ARTIFACT: load, first run, steady latency, memory, operators; and say how far to trust it.

    Interrupted, or out of time, it still writes what was measured to the given output, marked as not complete.
    """

    def body() -> int:
        if output is not None:
            check_output(output, force)
        from edgex.cli.inputs import read_inputs
        from edgex.cli.progress import StageProgress
        from edgex.runtime.profile.collect import profile
        from edgex.runtime.session import load

        level: CheckLevel = "size" if check == "size" else "hash"
        with StageProgress(quiet=quiet) as progress:
            progress("load", Path(artifact).name)
            with load(artifact, threads=threads, check=level) as session:
                values = read_inputs(inputs, session.artifact) if inputs else None
                measured: list[ProfileReport] = []
                try:
                    report = profile(
                        session, values, warmup, runs, check=level, progress=progress, keep=measured.append
                    )
                except KeyboardInterrupt:
                    if output is not None and measured:
                        _write(output, measured[-1])
                    raise
        if output is not None:
            _write(output, report)
        _show(report, as_json=as_json)
        return 0

    supervise(body, timeout_seconds=timeout, as_json=as_json, verbose=verbose)


def check_output(path: Path, force: bool) -> None:
    """Refuse a report that cannot or must not be written, before any slow step.

    Raises:
        UsageError: Its form is unknown, it exists already, or its folder does not.
    """
    if path.suffix not in _FORMS:
        forms = " or ".join(_FORMS)
        raise UsageError(f"-o {path}: reports are written as {forms}", fix=f"-o {path.with_suffix('.json')}")
    if path.exists() and not force:
        raise UsageError(f"{path} exists", fix="--force replaces it")
    if not path.parent.is_dir():
        raise UsageError(f"no such folder: {path.parent}", where=f"-o {path}")


def _as_json(report: ProfileReport) -> str:
    return report.dumps()


def _as_markdown(report: ProfileReport) -> str:
    from edgex.runtime.report.markdown import render_markdown

    return render_markdown(report)


_FORMS: dict[str, Callable[[ProfileReport], str]] = {".json": _as_json, ".md": _as_markdown}


def _write(path: Path, report: ProfileReport) -> None:
    """Write the report; whole or not at all.

    Raises:
        RunError: The disk refuses.
    """
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    try:
        temporary.write_text(_FORMS[path.suffix](report), encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise RunError(f"cannot write {path}", why=error.strerror or str(error)) from error
    finally:
        temporary.unlink(missing_ok=True)
    click.echo(f"written: {path}", err=True)


def _show(report: ProfileReport, *, as_json: bool) -> None:
    if as_json:
        click.echo(report.dumps(), nl=False)
        return
    from rich.console import Console

    from edgex.runtime.report.terminal import print_report

    print_report(report, Console())
