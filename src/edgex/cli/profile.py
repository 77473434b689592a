"""`edgex profile`: measure an artifact and show, print or save the report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgex.cli.report_files import OUTPUT_HELP, VIEWS, check_outputs, show_report, write_outputs
from edgex.cli.supervisor import supervise

if TYPE_CHECKING:
    from edgex.runtime.artifact import CheckLevel
    from edgex.runtime.profile.report import ProfileReport


@click.command("profile")
@click.argument("artifact", type=click.Path())
@click.option("-i", "--input", "inputs", multiple=True, help="in.npz, or name=file.npy; default: the golden example.")
@click.option("-o", "--output", "outputs", type=click.Path(path_type=Path), multiple=True, help=OUTPUT_HELP)
@click.option("--by", type=click.Choice(VIEWS), help="List operators by this; default: where the time goes.")
@click.option("--top", type=click.IntRange(min=1), default=20, show_default=True, help="Rows of a list.")
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
    outputs: tuple[Path, ...],
    by: str | None,
    top: int,
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
        check_outputs(outputs, force)
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
                    if measured:
                        write_outputs(outputs, measured[-1:])
                    raise
        write_outputs(outputs, [report])
        if as_json:
            click.echo(report.dumps(), nl=False)
        else:
            show_report(report, by, top)
        return 0

    supervise(body, timeout_seconds=timeout, as_json=as_json, verbose=verbose)
