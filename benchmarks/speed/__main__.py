"""`python -m benchmarks.speed [--sample] [--only PATTERN]`: run the survey and write docs/benchmarks/speed.md.

The survey is a plan of `edgex sweep` whose artifacts are timed in turns: its results lie in `.speed-survey/`, an
interrupted run goes on, and what the same sources and packages made is used again. `edgex report .speed-survey/…` shows
them too.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.coverage.sources import sources_digest
from benchmarks.coverage.suite import Entry, missing_libraries
from benchmarks.plans import say, tell_standing, usable_targets
from benchmarks.processes import ROOT
from benchmarks.publish import PAGES, publish, read_data, read_origin
from benchmarks.speed.by_name import spec_of
from benchmarks.speed.models import entries
from benchmarks.speed.page import OURS, PEERS, collect, find_outliers, render
from edgex.export.pick.candidates import FLOAT
from edgex.export.sweep.driver import run_sweep
from edgex.export.sweep.executors import start_executor
from edgex.export.sweep.placing import NOWHERE
from edgex.export.sweep.plan import GIB, Limits, PlannedModel, SweepPlan
from edgex.runtime.support.machine.host import read_host

WORK = ROOT / ".speed-survey"
NAME = "speed"
# What one model may take on all targets: Inductor compiles for minutes.
_LIMITS = Limits(seconds=1800.0, memory_bytes=8 * GIB, retries=0)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what is missing, print the outliers, write the page."""
    given = _parse(argv)
    chosen = entries(given.only, sample=given.sample)
    if given.dry_run or not chosen:
        print("\n".join(entry.name for entry in chosen) or f"no model is called {', '.join(given.only)}")
        return 0 if chosen else 2
    if missing := missing_libraries(chosen):
        say(f"not installed: {', '.join(missing)}; make speed installs them")
        return 7
    # As Ctrl-C does: whatever runs is ended with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    found = run_sweep(
        make_plan(chosen, usable_targets(given.targets), given.precision, given.threads, given.quantize, given.workers),
        given.work / f"{given.threads}-threads",
        start_executor,
        force=given.fresh,
        extend=True,
        failed_again=given.failed,
        progress=tell_standing,
    )
    if found.interrupted:
        return 130
    rows = collect(found.rows)
    document = {**read_origin(), "threads": given.threads, "cpu": read_host().cpu, "models": rows}
    # What was measured on other machines stays.
    document["also"] = (read_data(NAME, given.output) or {}).get("also", [])
    publish(NAME, document, render(document), given.output)
    print("\n".join(find_outliers(rows)) or "no outliers")
    return 0


def make_plan(
    chosen: Sequence[Entry],
    targets: Sequence[str],
    precisions: Sequence[str],
    threads: int,
    recipes: Sequence[str] = (FLOAT,),
    workers: int = 1,
) -> SweepPlan:
    """The survey as a sweep: one model at a time on all targets, whose artifacts are then timed in turns, none kept."""
    return SweepPlan(
        tuple(PlannedModel(spec_of(entry.name), entry.name) for entry in chosen),
        tuple(targets),
        tuple(precisions),
        tuple(recipes),
        turns=True,
        threads=threads,
        # The models' weights are random: that ranges are those of noise changes no time.
        calibration=None if set(recipes) == {FLOAT} else "random:4",
        preload=("benchmarks.coverage.libraries",),
        stamp=sources_digest(),
        folder=ROOT,
        artifacts=NOWHERE,
        workers=workers,
        limits=_LIMITS,
    )


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description="All architectures, all targets.")
    parser.add_argument("--sample", action="store_true", help="Ten models, for daily use.")
    parser.add_argument("--only", action="append", default=[], help="Names or patterns; may be repeated.")
    parser.add_argument("--precision", nargs="+", default=["fp32"], help="Types of the artifacts: fp32, bf16.")
    parser.add_argument(
        "--quantize", nargs="+", default=[FLOAT], help="Recipes beside them; none is what is not quantized."
    )
    parser.add_argument(
        "--targets", nargs="+", choices=(*OURS, *PEERS), default=(*OURS, *PEERS), help="Ours and peers, all by default."
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--workers", type=int, default=1, help="Exports at a time; nothing is timed beside them.")
    parser.add_argument("--fresh", action="store_true", help="Measure again what is measured already.")
    parser.add_argument("--failed", action="store_true", help="Run again what failed, too.")
    parser.add_argument("--dry-run", action="store_true", help="Name the models and stop.")
    parser.add_argument("-o", "--output", type=Path, default=PAGES, help="Folder of the page.")
    parser.add_argument("--work", type=Path, default=WORK, help="Folder of the results.")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
