"""`python -m benchmarks.coverage`: export every model of the suite to every target, and write docs/coverage.{md,json}.

A run that was interrupted goes on: results lie in `.coverage-suite/results.jsonl`, a line a model and target, and are used
again where the same sources and packages made them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.coverage.outcome import Outcome
from benchmarks.coverage.runner import GIB, Limits, Runner
from benchmarks.coverage.store import Store, sources_digest
from benchmarks.coverage.suite import TARGETS, Entry, all_entries, missing_libraries, select
from benchmarks.processes import ROOT

WORK = ROOT / ".coverage-suite"


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing, judge it, write the page."""
    given = _parse(argv)
    try:
        chosen = select(all_entries(), given.only, given.quick)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if missing := missing_libraries(chosen):
        print(f"not installed: {', '.join(missing)}", file=sys.stderr)
        print("fix: pip install -c constraints.txt -e '.[coverage]', or --only 'hard/*'", file=sys.stderr)
        return 7
    targets = [target for target in given.target or TARGETS if _usable(target)]
    store = Store(given.work / "results.jsonl")
    run_missing(chosen, targets, store, given)
    return 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", default=[], metavar="GLOB", help="Models of such names; repeatable.")
    parser.add_argument("--target", action="append", choices=TARGETS, help="This target alone; repeatable.")
    parser.add_argument("--quick", action="store_true", help="A subset of ten minutes.")
    parser.add_argument("--fresh", action="store_true", help="Run again what has a result.")
    parser.add_argument("--keep-older", action="store_true", help="Run only what has no result of any sources.")
    parser.add_argument("--failed", action="store_true", help="Run again only what failed.")
    parser.add_argument("--timeout", type=float, default=600.0, help="Seconds a model may take on all its targets.")
    parser.add_argument("--memory", type=float, default=8.0, help="GiB a model may take.")
    parser.add_argument("--work", type=Path, default=WORK, help="Folder of results and log.")
    return parser.parse_args(argv)


def _usable(target: str) -> bool:
    """Whether a target works here; one that does not is named on stderr."""
    from edgex.delegates.registry import get_delegate

    availability = get_delegate(target).availability()
    if not availability.available:
        print(f"without {target}: {availability.reason}", file=sys.stderr)
    return availability.available


def run_missing(entries: Sequence[Entry], targets: Sequence[str], store: Store, given: argparse.Namespace) -> None:
    """Run each model on the targets for which it has no result that counts."""
    known = store.read()
    sources = sources_digest()

    def counts(outcome: Outcome | None) -> bool:
        if outcome is None or given.fresh or (given.failed and not outcome.verified):
            return False
        return given.keep_older or given.failed or outcome.sources == sources

    work = [(e, [t for t in targets if not counts(known.get((e.name, t)))]) for e in entries]
    work = [(entry, missing) for entry, missing in work if missing]
    say(f"{len(entries)} models, {len(work)} to run on {', '.join(targets)}")
    with Runner(given.work / "log", sources, Limits(given.timeout, int(given.memory * GIB))) as runner:
        for number, (entry, missing) in enumerate(work, 1):
            started = time.monotonic()
            outcomes = runner.run(entry, missing)
            store.append(outcomes)
            told = "  ".join(f"{o.target} {'ok' if o.verified else f'{o.stage} {o.exit_code}'}" for o in outcomes)
            say(f"[{number}/{len(work)}] {entry.name}: {told}  {time.monotonic() - started:.0f} s")


def say(text: str) -> None:
    """A line of progress."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
