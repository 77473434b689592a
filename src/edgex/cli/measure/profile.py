"""`edgex profile`: measure an artifact and show, print or save the report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgex.cli.measure.files import OUTPUT_HELP, VIEWS, check_outputs, show_report, write_outputs
from edgex.cli.measure.sweep import check_sweep, sweep_threads
from edgex.cli.run.on_device import Elsewhere, device_flags, read_device
from edgex.cli.supervisor import supervise

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import CheckLevel
    from edgex.runtime.measure.profile.report import ProfileReport


@click.command("profile")
@click.argument("artifact", type=click.Path())
@click.option("-i", "--input", "inputs", multiple=True, help="in.npz, or name=file.npy; default: the golden example.")
@click.option("-o", "--output", "outputs", type=click.Path(path_type=Path), multiple=True, help=OUTPUT_HELP)
@click.option("--by", type=click.Choice(VIEWS), help="List operators by this; default: where the time goes.")
@click.option("--top", type=click.IntRange(min=1), default=20, show_default=True, help="Rows of a list.")
@click.option("--threads", type=click.IntRange(min=1), help="Threads for one run.")
@click.option("--no-tuned", is_flag=True, help="The engine's default threads, whatever a sweep found quickest.")
@click.option("--warmup", type=click.IntRange(min=1), help="Warm-up runs; default: until the latency settles.")
@click.option("--runs", type=click.IntRange(min=1), help="Samples to take; default: about three seconds' worth.")
@click.option("--sweep", metavar="AXES", help="threads, batch or both: measure each setting, keep the best threads.")
@click.option("--check", type=click.Choice(["hash", "size"]), default="hash", show_default=True)
@click.option("--allow-fallback", is_flag=True, help="Let the CPU run what an artifact's GPU provider does not.")
@device_flags
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
    no_tuned: bool,
    warmup: int | None,
    runs: int | None,
    sweep: str | None,
    check: str,
    allow_fallback: bool,
    device: str | None,
    executorch_wheel: Path | None,
    device_python: str | None,
    timeout: float | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Measure ARTIFACT: load, first run, steady latency, memory, operators; and say how far to trust it.

    Interrupted, or out of time, it still writes what was measured to the given output, marked as not complete.
    """
    elsewhere = read_device(
        device, executorch_wheel, device_python, {"--sweep": sweep, "--allow-fallback": allow_fallback}
    )

    def body() -> int:
        axes = None if sweep is None else check_sweep(sweep, outputs, force, threads=threads, counts=(warmup, runs))
        if axes is None:
            check_outputs(outputs, force)
        from edgex.cli.progress import StageProgress
        from edgex.cli.run.inputs import read_inputs
        from edgex.runtime.engines.loading import load
        from edgex.runtime.measure.profile.collect import profile

        level: CheckLevel = "size" if check == "size" else "hash"
        if axes is not None:
            return sweep_threads(artifact, axes, inputs, outputs, threads, level, as_json=as_json, quiet=quiet)
        if elsewhere is not None:
            report = _profile_on_device(elsewhere, artifact, inputs, level, threads, (warmup, runs), quiet=quiet)
            write_outputs(outputs, [report])
            click.echo(report.dumps(), nl=False) if as_json else show_report(report, by, top)
            return 0
        with StageProgress(quiet=quiet) as progress:
            progress("load", Path(artifact).name)
            options = {"allow_fallback": True} if allow_fallback else {}
            with load(artifact, threads=threads, options=options, check=level, tuned=not no_tuned) as session:
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


def _profile_on_device(
    elsewhere: Elsewhere,
    path: str,
    inputs: tuple[str, ...],
    check: CheckLevel,
    threads: int | None,
    counts: tuple[int | None, int | None],
    *,
    quiet: bool,
) -> ProfileReport:
    from edgex.cli.progress import StageProgress
    from edgex.cli.run.inputs import read_inputs
    from edgex.runtime.artifact.artifact import open_artifact
    from edgex.runtime.measure.device.commands import profile_on

    artifact = open_artifact(path, check)
    values = read_inputs(inputs, artifact) if inputs else None
    with StageProgress(quiet=quiet) as progress, elsewhere.opened([artifact]) as device:
        return profile_on(device, artifact, values, *counts, threads=threads, progress=progress)
