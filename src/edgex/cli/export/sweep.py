"""`edgex sweep`: many models in many combinations, each a row of the results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgex.cli.failure import print_json
from edgex.cli.options.command import make_command, option
from edgex.cli.options.shared import (
    Finite,
    calibration_option,
    common_options,
    target_options_option,
    targets_option,
    threads_option,
)
from edgex.cli.supervisor import supervise
from edgex.errors import UsageError

if TYPE_CHECKING:
    from edgex.export.sweep.plan import SweepPlan

_INTERRUPTED = 130


@make_command("sweep")
@click.argument("models", nargs=-1, required=True, metavar="PLAN.toml|MODEL...")
@targets_option("What to export to: several by comma or repeated; default: all.")
@target_options_option
@option(
    "--precision",
    "precisions",
    metavar="TYPE,TYPE",
    group="Precision and quantization",
    help="Types of the floating-point artifacts: fp32, fp16, bf16; default: fp32.",
)
@option(
    "--quantize",
    "recipes",
    metavar="RECIPE,RECIPE",
    group="Precision and quantization",
    help="Recipes, none for the floating-point artifacts among them: none,int8; default: none.",
)
@calibration_option
@option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FOLDER",
    group="Input and output",
    help="The folder of results; where it has some of the same plan, what is missing is run.",
)
@option(
    "--artifacts",
    metavar="PLACE",
    group="Input and output",
    help="Where artifacts go: a folder, an fsspec URL, or none to keep none; default: into the results.",
)
@option(
    "--measure/--no-measure",
    default=None,
    group="Measurement",
    help="Measure each artifact, alone on its machine; default: yes.",
)
@option(
    "--runs",
    type=click.IntRange(min=1),
    metavar="N",
    group="Measurement",
    help="Samples; default: about three seconds.",
)
@option(
    "--turns/--no-turns",
    default=None,
    group="Measurement",
    help="Time all artifacts of a model against each other, in turns; default: each by itself.",
)
@threads_option("Of every measured run; default: each engine's own.")
@option(
    "--device",
    "devices",
    multiple=True,
    metavar="DEVICE",
    group="Device",
    help="Where to measure: here, adb[:SERIAL], ssh:[USER@]HOST[:PORT]; several by comma or repeated; default: here.",
)
@option(
    "--executor",
    metavar="NAME",
    group="General",
    help="Who runs the jobs: local processes, or a cluster by ray; default: local.",
)
@option("--address", metavar="ADDRESS", group="General", help="ray: the cluster; default: the one that Ray finds.")
@option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    group="General",
    help="Exports at a time; default: as many as cores and memory allow.",
)
@option(
    "--job-timeout",
    type=Finite(min=0, min_open=True),
    metavar="SECONDS",
    group="Proof and limits",
    help="Of one export, and of one measurement; default: 1800.",
)
@option("--job-memory", metavar="SIZE", group="Proof and limits", help="Of one export; default: 4 GiB.")
@option(
    "--retries",
    type=click.IntRange(min=0),
    metavar="N",
    group="Proof and limits",
    help="Begin a job again so often whose process died; default: 1.",
)
@option("--failed", "failed_again", is_flag=True, group="General", help="Run again what failed, too.")
@option(
    "--extend",
    is_flag=True,
    group="Input and output",
    help="Add to the results of another plan, with other models, targets, precisions, recipes or devices.",
)
@option("--dry-run", is_flag=True, group="General", help="List the jobs and stop.")
@common_options(force=True)
def command(
    models: tuple[str, ...],
    targets: tuple[str, ...],
    options: tuple[str, ...],
    precisions: str | None,
    recipes: str | None,
    calibration: str | None,
    output: Path,
    artifacts: str | None,
    measure: bool | None,
    runs: int | None,
    turns: bool | None,
    threads: int | None,
    devices: tuple[str, ...],
    executor: str | None,
    address: str | None,
    workers: int | None,
    job_timeout: float | None,
    job_memory: str | None,
    retries: int | None,
    failed_again: bool,
    extend: bool,
    dry_run: bool,
    timeout: float | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Export models to targets in every precision and recipe, measure what comes out, and write a row for each.

    Models are given as edgex export takes them, or by a plan, of which the options replace parts. A sweep that was
    ended goes on with the same command. A job that fails is a row, not the end.
    """

    def body() -> int:
        from edgex.cli.export.sweep_text import SweepProgress, print_jobs, print_sweep
        from edgex.cli.flags import parse_key_values, split_list
        from edgex.export.sweep.driver import run_sweep
        from edgex.export.sweep.executors import start_executor
        from edgex.export.sweep.plan import list_jobs, parse_bytes

        plan = _read_plan(models)
        given: dict[str, Any] = {
            "targets": split_list("-t", targets) or None,
            "precisions": None if precisions is None else split_list("--precision", [precisions]),
            "recipes": None if recipes is None else split_list("--quantize", [recipes]),
            "calibration": calibration,
            "options": parse_key_values(options) or None,
            "artifacts": artifacts,
            "measure": measure,
            "runs": runs,
            "turns": turns,
            "threads": threads,
            "devices": split_list("--device", devices) or None,
            "executor": executor,
            "address": address,
            "workers": workers,
        }
        limits: dict[str, Any] = {
            "seconds": job_timeout,
            "memory_bytes": None if job_memory is None else parse_bytes(job_memory),
            "retries": retries,
        }
        changed = {key: value for key, value in limits.items() if value is not None}
        plan = replace(
            plan,
            limits=replace(plan.limits, **changed),
            **{key: value for key, value in given.items() if value is not None},
        )
        if dry_run:
            print_jobs(list_jobs(plan), as_json=as_json)
            return 0
        with SweepProgress(quiet=quiet) as progress:
            found = run_sweep(
                plan, output, start_executor, force=force, extend=extend, failed_again=failed_again, progress=progress
            )
        print_json(found.to_json()) if as_json else print_sweep(found, output)
        return _INTERRUPTED if found.interrupted else 0

    supervise(body, timeout_seconds=timeout, as_json=as_json, verbose=verbose)


def _read_plan(models: tuple[str, ...]) -> SweepPlan:
    from edgex.export.sweep.plan import SweepPlan, name_models
    from edgex.export.sweep.plan_file import find_models, read_plan_file

    plans = [model for model in models if model.endswith(".toml")]
    if plans and len(models) > 1:
        raise UsageError(f"{plans[0]} is a plan: it stands alone", fix="name the models in the plan, or leave it out")
    if plans:
        return read_plan_file(Path(plans[0]))
    return SweepPlan(name_models(find_models(list(models), Path())))
