"""`python -m benchmarks.coverage`: export all models to all targets, and write docs/benchmarks/coverage.md.

The suite is a plan of `edgex sweep`: its results lie in `.coverage-suite/results`, an interrupted run goes on, and what
the same sources and packages made is used again. `edgex report .coverage-suite/results` shows them too.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.coverage.by_name import spec_of
from benchmarks.coverage.expected import EXPECTED
from benchmarks.coverage.judge import (
    ISSUES,
    RESULTS,
    Baseline,
    Key,
    find_regressions,
    find_surprises,
    merge,
    parse_issues,
    parse_outcomes,
    read_baseline,
)
from benchmarks.coverage.models.huggingface import GONE
from benchmarks.coverage.outcome import Outcome, outcome_of_row
from benchmarks.coverage.report import write_report
from benchmarks.coverage.sources import package_versions, sources_digest
from benchmarks.coverage.suite import TARGETS, Entry, all_entries, in_turns, missing_libraries, select
from benchmarks.plans import say, tell_standing, usable_targets
from benchmarks.processes import ROOT
from benchmarks.publish import PAGES
from edgex.export.sweep.driver import run_sweep
from edgex.export.sweep.executors import start_executor
from edgex.export.sweep.placing import NOWHERE
from edgex.export.sweep.plan import GIB, Limits, PlannedModel, SweepPlan

WORK = ROOT / ".coverage-suite"


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing, judge it, write the page; 4 where something is worse than what is committed."""
    given = _parse(argv)
    try:
        baseline = read_baseline(given.against)
        if given.check:
            return _judge(parse_outcomes((ROOT / RESULTS).read_text(encoding="utf-8")).values(), baseline)
        chosen = select(all_entries(), given.only, given.quick)
    except (ValueError, OSError) as error:
        say(str(error))
        return 2
    if missing := missing_libraries(chosen):
        say(f"not installed: {', '.join(missing)}")
        say("fix: make coverage installs them; or --only 'hard/*', which needs none")
        return 7
    targets = usable_targets(given.target or TARGETS)
    # As Ctrl-C does: the export that runs is ended with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    found = run_sweep(
        make_plan(chosen, targets, given),
        given.work / "results",
        start_executor,
        force=given.fresh,
        extend=True,
        failed_again=given.failed,
        progress=tell_standing,
    )
    if found.interrupted:
        return 130
    outcomes = {(row.model, row.target): outcome_of_row(row) for row in found.rows}
    if code := _judge(outcomes.values(), baseline):
        return code
    _write(given.output, baseline, outcomes)
    return 0


def _judge(outcomes: Iterable[Outcome], baseline: Baseline) -> int:
    """Name what is worse, and hard cases that are not as they are expected."""
    outcomes = list(outcomes)
    found = [*find_regressions(outcomes, baseline), *find_surprises(outcomes, EXPECTED)]
    for sentence in found:
        print(sentence)
    if found:
        say(f"{len(found)} outcome(s) not as committed, nothing written: mend them, or see the docstring of judge.py")
    return 4 if found else 0


def _write(folder: Path, baseline: Baseline, run: Mapping[Key, Outcome]) -> None:
    """The page with this run's outcomes, and the committed ones of what was not run."""
    names = [entry.name for entry in all_entries()]
    order = [(name, target) for name in names for target in TARGETS]
    outcomes = merge(order, baseline.outcomes, run)
    issues = parse_issues((ROOT / ISSUES).read_text(encoding="utf-8"))
    write_report(folder, names, outcomes, GONE, issues, package_versions())
    verified = sum(outcome.verified for outcome in outcomes)
    print(f"{verified} of {len(outcomes)} verified; wrote coverage.md and data/coverage.json")


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", default=[], metavar="GLOB", help="Models of such names; repeatable.")
    parser.add_argument("--target", action="append", choices=TARGETS, help="This target alone; repeatable.")
    parser.add_argument("--quick", action="store_true", help="A subset of ten minutes.")
    parser.add_argument("--fresh", action="store_true", help="Forget all results and begin anew.")
    parser.add_argument("--failed", action="store_true", help="Run again only what failed.")
    parser.add_argument("--check", action="store_true", help="Run nothing: judge the committed figures.")
    parser.add_argument("--against", default="HEAD", metavar="REVISION", help="The committed outcomes to compare with.")
    parser.add_argument("-o", "--output", type=Path, default=PAGES, help="Folder of the page.")
    parser.add_argument("--timeout", type=float, default=600.0, help="Seconds a model may take on all its targets.")
    parser.add_argument("--workers", type=int, default=1, help="Models at a time, on a machine with cores for them.")
    parser.add_argument("--memory", type=float, default=8.0, help="GiB a model may take.")
    parser.add_argument("--work", type=Path, default=WORK, help="Folder of the results.")
    return parser.parse_args(argv)


def make_plan(entries: Sequence[Entry], targets: Sequence[str], given: argparse.Namespace) -> SweepPlan:
    """The suite as a sweep: a process for each model with all targets, nothing kept or measured."""
    return SweepPlan(
        tuple(PlannedModel(spec_of(entry.name), entry.name) for entry in in_turns(entries)),
        tuple(targets),
        measure=False,
        preload=("benchmarks.coverage.libraries",),
        stamp=sources_digest(),
        folder=ROOT,
        artifacts=NOWHERE,
        workers=given.workers,
        limits=Limits(given.timeout, int(given.memory * GIB), retries=0),
    )


if __name__ == "__main__":
    sys.exit(main())
