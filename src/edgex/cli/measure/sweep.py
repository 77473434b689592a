"""`edgex profile --sweep`: the quickest number of threads, or the batch, each setting in a process of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgex.cli.files import check_output, write_text
from edgex.errors import UsageError, nearest_name

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import CheckLevel

_FORMS = (".json", ".md")


def check_sweep(text: str, outputs: Sequence[Path], force: bool, given: Sequence[str]) -> tuple[str, ...]:
    """What `--sweep` names; its flags and outputs are checked before any slow step.

    Args:
        text: What it was given.
        outputs: Files to write.
        force: Replace those that exist.
        given: `--threads`, `--warmup` and `--runs` where they stand on the command line; a project's defaults yield.

    Raises:
        UsageError: An axis is unknown, another flag says otherwise, or an output cannot be written.
    """
    from edgex.runtime.measure.sweep import AXES

    axes = tuple(part.strip() for part in text.split(",") if part.strip())
    unknown = [axis for axis in axes if axis not in AXES]
    if unknown or not axes:
        raise UsageError(
            f"--sweep {text}: expected threads, batch or threads,batch",
            why=nearest_name(unknown[0], AXES) if unknown else None,
            fix="--sweep threads",
        )
    if "--threads" in given and "threads" in axes:
        raise UsageError("--threads fixes what --sweep threads varies", fix="leave one of them out")
    if "--warmup" in given or "--runs" in given:
        raise UsageError("--sweep chooses warm-up and runs itself", fix="leave --warmup and --runs out")
    for output in outputs:
        check_output(output, _FORMS, force)
    return axes


def sweep_threads(
    path: str,
    axes: tuple[str, ...],
    inputs: tuple[str, ...],
    outputs: Sequence[Path],
    threads: int | None,
    check: CheckLevel,
    *,
    as_json: bool,
    quiet: bool,
) -> int:
    """Measure, write, print; the exit code."""
    from edgex.cli.failure import print_json
    from edgex.cli.layout import echo_labelled, print_table
    from edgex.cli.progress import StageProgress
    from edgex.cli.run.inputs import read_inputs
    from edgex.runtime.artifact.artifact import open_artifact
    from edgex.runtime.measure.sweep import run_sweep
    from edgex.runtime.report.sweep import describe_best, render_sweep, tabulate_sweep

    opened = open_artifact(path, check)
    values = read_inputs(inputs, opened, quiet=quiet) if inputs else None
    with StageProgress(quiet=quiet) as progress:
        found = run_sweep(opened, axes, inputs=values, threads=threads, check=check, progress=progress)
    for output in outputs:
        document = json.dumps(found.to_json(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        write_text(output, document if output.suffix == ".json" else render_sweep(found), quiet=quiet)
    if as_json:
        print_json(found.to_json())
        return 0
    table = tabulate_sweep(found)
    print_table([table.head, *table.rows])
    for line in describe_best(found):
        click.echo(line)
    for warning in found.warnings:
        echo_labelled("warning:", f"{warning.code}: {warning.text}", indent=0, width=9, colour="yellow")
    return 0
