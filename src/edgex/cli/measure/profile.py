"""`edgex profile`: measure an artifact and show, print or save the report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgex.cli.failure import print_document
from edgex.cli.measure.llm import check_llm_flags, llm_options, run_llm_profile
from edgex.cli.measure.report_files import (
    by_option,
    check_outputs,
    outputs_option,
    show_report,
    top_option,
    write_outputs,
)
from edgex.cli.measure.sweep import check_sweep, sweep_threads
from edgex.cli.options.command import given_flags, make_command, option
from edgex.cli.options.shared import (
    allow_fallback_option,
    artifact_argument,
    check_option,
    common_options,
    inputs_option,
    method_option,
    no_tuned_option,
    threads_option,
)
from edgex.cli.run.place import device_flags, read_place
from edgex.cli.supervisor import supervise
from edgex.errors import UsageError

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import CheckLevel
    from edgex.runtime.measure.profile.report import ProfileReport


@make_command("profile")
@artifact_argument
@method_option
@inputs_option
@outputs_option
@by_option
@top_option
@threads_option("Threads of one run; default: what a sweep found, or the engine's own.")
@no_tuned_option
@option(
    "--warmup",
    type=click.IntRange(min=1),
    metavar="N",
    group="Measurement",
    help="Warm-up runs; default: until the latency settles.",
)
@option(
    "--runs",
    type=click.IntRange(min=1),
    metavar="N",
    group="Measurement",
    help="Samples to take; default: about three seconds' worth.",
)
@option(
    "--sweep",
    metavar="AXES",
    group="Measurement",
    help="Measure each setting of threads, batch or threads,batch; the best number of threads is kept.",
)
@llm_options
@check_option
@allow_fallback_option
@device_flags
@common_options(force=True)
def command(
    artifact: str,
    method: str | None,
    inputs: tuple[str, ...],
    outputs: tuple[Path, ...],
    by: str | None,
    top: int,
    threads: int | None,
    no_tuned: bool,
    warmup: int | None,
    runs: int | None,
    sweep: str | None,
    llm: bool,
    prompt_sizes: tuple[str, ...],
    new_sizes: tuple[str, ...],
    depths: tuple[str, ...],
    check: CheckLevel,
    allow_fallback: bool,
    device: str | None,
    timeout: float | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Measure ARTIFACT: load, first run, steady latency, memory, operators; and say how far to trust it.

    Interrupted, or out of time, it still writes what was measured to the given output, marked as not complete.
    """
    check_llm_flags(llm, outputs, force)
    given = given_flags({"--threads": "threads", "--warmup": "warmup", "--runs": "runs"})
    place = read_place(device, {"--sweep": sweep, "--allow-fallback": allow_fallback})

    def body() -> int:
        if llm:
            sizes = (prompt_sizes, new_sizes, depths)
            return run_llm_profile(
                artifact, sizes, outputs, threads, runs, check, tuned=not no_tuned, as_json=as_json, quiet=quiet
            )
        axes = None if sweep is None else check_sweep(sweep, outputs, force, given)
        if axes is None:
            check_outputs(outputs, force)
        from edgex.cli.progress import StageProgress
        from edgex.cli.run.inputs import read_inputs
        from edgex.runtime.artifact.artifact import open_artifact
        from edgex.runtime.measure.profile.collect import profile_on

        if axes is not None and method is not None:
            raise UsageError("--sweep measures the artifact's first method", fix="leave --method or --sweep out")
        if axes is not None:
            return sweep_threads(artifact, axes, inputs, outputs, threads, check, as_json=as_json, quiet=quiet)
        opened = open_artifact(artifact, check).select(method)
        values = read_inputs(inputs, opened, quiet=quiet) if inputs else None
        options = {"allow_fallback": True} if allow_fallback else {}
        measured: list[ProfileReport] = []
        with StageProgress(quiet=quiet) as progress, place.opened([opened], tuned=not no_tuned) as executor:
            try:
                report = profile_on(
                    executor,
                    opened,
                    values,
                    warmup,
                    runs,
                    threads=threads,
                    options=options,
                    check=check,
                    progress=progress,
                    keep=measured.append,
                )
            except KeyboardInterrupt:
                if measured:
                    write_outputs(outputs, measured[-1:], quiet=quiet)
                raise
        write_outputs(outputs, [report], quiet=quiet)
        if as_json:
            print_document(report.dumps())
        else:
            show_report(report, by, top)
        return 0

    supervise(body, timeout_seconds=timeout, as_json=as_json, verbose=verbose)
