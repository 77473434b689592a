"""`python -m benchmarks [--quick] [--only NAME]`: run the benchmarks and write docs/benchmarks/edgex.md.

`onednn` runs only when it is named: it takes an hour and peers that edgex does not need (see `benchmarks/zoo.py`).
`revisions` runs only with `--before FOLDER`, a checkout of the revision that this one is compared with.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from benchmarks.cost import export_cost, overhead, report_page, revisions, scheduler, startup, why
from benchmarks.onednn import comparison
from benchmarks.outcome import Outcome, render_page, write_page
from benchmarks.processes import locked
from benchmarks.publish import PAGES
from edgex.runtime.support.machine.activity import describe_activity, take_snapshot

BENCHMARKS: Mapping[str, Callable[[bool], Outcome]] = {
    overhead.NAME: overhead.measure,
    startup.NAME: startup.measure,
    export_cost.NAME: export_cost.measure,
    report_page.NAME: report_page.measure,
    why.NAME: why.measure,
    scheduler.NAME: scheduler.measure,
}


def main() -> int:
    """Run what was asked for; a goal that is not met is reported, not an error."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="edgex beside the bare engines.")
    parser.add_argument("--quick", action="store_true", help="Few rounds and small models; prints, writes nothing.")
    names = [*BENCHMARKS, comparison.NAME, revisions.NAME]
    parser.add_argument("--only", action="append", choices=names, help="Run this one; may be repeated.")
    parser.add_argument("-o", "--output", type=Path, default=PAGES, help="Folder of the page.")
    parser.add_argument("--lock", type=Path, help="A file to lock; alone while it times.")
    parser.add_argument("--fresh", action="store_true", help="onednn: measure again what is measured already.")
    parser.add_argument("--before", type=Path, help="revisions: a checkout of the other revision.")
    given = parser.parse_args()
    known = dict(BENCHMARKS)
    if given.before is not None:
        known[revisions.NAME] = partial(revisions.measure, before=given.before)
    elif revisions.NAME in (given.only or ()):
        parser.error("revisions needs --before FOLDER: git worktree add FOLDER COMMIT")
    for name in given.only or known:
        if name == comparison.NAME:
            comparison.run(given.quick, given.output, given.lock, given.fresh)
            continue
        print(f"{name}:", file=sys.stderr, flush=True)
        with locked(given.lock, alone=True):
            before = take_snapshot()
            outcome = known[name](given.quick)
            activity = describe_activity(before, take_snapshot(), os.cpu_count())
        entry = outcome.to_json(activity)
        print(render_page([entry]))
        if not given.quick:
            write_page(given.output, entry)
    return 0


if __name__ == "__main__":
    sys.exit(main())
