"""What `edgex sweep` prints: its progress, what became of each target, and where the results are."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import TYPE_CHECKING

import click

from edgex.cli.failure import print_json
from edgex.cli.layout import echo_labelled, print_table
from edgex.cli.progress import StageProgress
from edgex.runtime.report.figures import format_seconds
from edgex.runtime.support.printable import escape_control

if TYPE_CHECKING:
    from edgex.export.sweep.driver import Standing, Sweep
    from edgex.export.sweep.plan import Jobs
    from edgex.runtime.measure.results.row import Row

# Reasons that are told apart; the report has all.
_MOST_FAILURES = 8


class SweepProgress:
    """Shows how far a sweep is: in a terminal a line that renews itself, elsewhere a line for whatever ends."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._live = StageProgress(quiet=quiet or not sys.stderr.isatty())
        self._started = time.monotonic()
        self._before: int | None = None  # rows of earlier runs: they tell nothing of how long a job takes

    def __enter__(self) -> SweepProgress:
        self._live.__enter__()
        return self

    def __call__(self, standing: Standing) -> None:
        """Say how far it is."""
        if self._before is None:
            self._before = standing.done
        text = f"{standing.done}/{standing.jobs} done, {standing.failed} failed, {standing.running} running"
        text = f"{text}  {standing.latest}".rstrip()
        if sys.stderr.isatty():
            # The words that `StageProgress` makes its estimate from: of the jobs of this run, the next one has begun.
            jobs = standing.jobs - self._before
            self._live("sweep", f"{text}  job {min(standing.done - self._before + 1, jobs)} of {jobs}")
        elif not self._quiet:
            click.echo(escape_control(f"[{time.monotonic() - self._started:6.1f} s] {text}"), err=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)


def print_sweep(found: Sweep, folder: Path) -> None:
    """Counts by target, what failed, and what to do next."""
    kinds = list(dict.fromkeys(row.kind for row in found.rows))
    table = [("target", "jobs", "with artifact", "failed", "median latency")]
    for kind in kinds:
        rows = [row for row in found.rows if row.kind == kind]
        seconds = [row.timing.median_seconds for row in rows if row.timing is not None]
        made = sum(row.made is not None for row in rows)
        failed = sum(row.complete and not row.ok for row in rows)
        middle = format_seconds(median(seconds)) if seconds else ""
        table.append((kind, str(len(rows)), str(made), str(failed), middle))
    print_table(table)
    _print_failures([row for row in found.rows if row.failure is not None])
    if found.again:
        click.echo(f"{found.again} begun again after their process had died")
    if found.interrupted:
        click.echo(f"interrupted with {found.done} of {found.jobs} done; the same command goes on")
    click.echo(f"results: {folder}; edgex report {folder} -o report.html shows them")


def _print_failures(rows: Sequence[Row]) -> None:
    reasons = Counter((row.failure.stage, row.failure.what) for row in rows if row.failure is not None)
    for (stage, what), count in reasons.most_common(_MOST_FAILURES):
        echo_labelled(f"{count} x {stage}:", what, indent=0, width=14, colour="yellow")
    if len(reasons) > _MOST_FAILURES:
        click.echo(f"and {len(reasons) - _MOST_FAILURES} other reasons")


def print_jobs(jobs: Jobs, *, as_json: bool) -> None:
    """What a sweep would do."""
    if as_json:
        print_json(
            {
                "schema": "edgex.sweep-jobs/1",
                "jobs": [
                    {"job": job.id, "model": job.model.name, **job.candidate.to_json(), "device": job.device}
                    for job in jobs.possible
                ],
                "refused": [
                    {"job": job.id, "model": job.model.name, **job.candidate.to_json(), "reason": loser.reason}
                    for job, loser in jobs.refused
                ],
            }
        )
        return
    for job in jobs.possible:
        click.echo(job.label)
    for job, loser in jobs.refused:
        echo_labelled("refused", f"{job.label}: {loser.reason}", indent=0, width=9, colour="yellow")
    click.echo(f"{len(jobs.possible)} jobs, {len(jobs.refused)} refused")
