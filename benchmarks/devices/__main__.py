"""`python -m benchmarks.devices --kind litert`: the coverage suite's models on LiteRT, Core AI and QNN's simulator.

A plan of `edgex sweep` for each kind, whose results lie in `.device-suite/KIND`; what the same sources and packages
made is used again. The kinds need extras that do not all fit beside each other, so that each run adds its kinds to the
committed figures and writes `docs/benchmarks/devices.md` anew.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.coverage.by_name import spec_of
from benchmarks.coverage.outcome import Outcome, outcome_of_row
from benchmarks.coverage.sources import sources_digest
from benchmarks.coverage.suite import Entry, all_entries, missing_libraries, select
from benchmarks.devices import calls, page
from benchmarks.devices.kinds import KINDS, Kind, sample
from benchmarks.plans import say, tell_standing, usable_targets
from benchmarks.processes import ROOT
from benchmarks.publish import PAGES, publish, read_data, read_origin
from edgex.export.sweep.driver import run_sweep
from edgex.export.sweep.executors import start_executor
from edgex.export.sweep.placing import NOWHERE
from edgex.export.sweep.plan import GIB, Limits, PlannedModel, SweepPlan
from edgex.runtime.support.entry_points import installed_version

WORK = ROOT / ".device-suite"
PACKAGES = ("torch", "onnxruntime", "onnxruntime-qnn", "coreai-torch", "coreai-core", "litert-torch", "ai-edge-litert")
# Data that nobody measured: the suite's weights are random too.
CALIBRATION = "random:12"


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing of each kind, and write the page."""
    given = _parse(argv)
    if given.calls:
        return _measure_calls(given.calls, given.output)
    try:
        chosen = sample(select(all_entries(), given.only, quick=False), given.every, given.first)
    except ValueError as error:
        say(str(error))
        return 2
    if missing := missing_libraries(chosen):
        say(f"not installed: {', '.join(missing)}")
        return 7
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    for name in given.kind:
        kind = KINDS[name]
        if not usable_targets([kind.target]):
            return 7
        found = run_sweep(
            make_plan(chosen, kind, given),
            given.work / name.replace(" ", "-"),
            start_executor,
            extend=True,
            failed_again=given.failed,
            progress=tell_standing,
        )
        if found.interrupted:
            return 130
        _write(given.output, kind, [outcome_of_row(row) for row in found.rows])
    return 0


def _measure_calls(targets: Sequence[str], folder: Path) -> int:
    """What a Session adds to the engines' own calls, into the page."""
    for target in targets:
        if not usable_targets([target]):
            return 7
        document = dict(read_data(page.NAME, folder) or {"models": len(all_entries()), "kinds": {}, "packages": {}})
        found = {**document.get("calls", {}), target: calls.measure(target)}
        document["calls"] = {name: found[name] for name in calls.TARGETS if name in found}
        publish(page.NAME, document, page.render(document), folder)
        print(f"{target}: a Session adds {found[target]['added_seconds'] * 1e6:.2f} us")
    return 0


def make_plan(entries: Sequence[Entry], kind: Kind, given: argparse.Namespace) -> SweepPlan:
    """The models on one kind: a process each, one at a time, nothing kept or measured."""
    recipe = {} if kind.recipe is None else {"recipes": (kind.recipe,), "calibration": CALIBRATION}
    return SweepPlan(
        tuple(PlannedModel(spec_of(entry.name), entry.name) for entry in entries),
        (kind.target,),
        (kind.precision,),
        **recipe,  # type: ignore[arg-type]
        measure=False,
        options=kind.options,
        preload=("benchmarks.coverage.libraries",),
        stamp=sources_digest(),
        folder=ROOT,
        artifacts=NOWHERE,
        workers=1,
        limits=Limits(given.timeout, int(given.memory * GIB), retries=0),
    )


def _write(folder: Path, kind: Kind, outcomes: Sequence[Outcome]) -> None:
    """The page with these outcomes of a kind in place of those that were known of the same models."""
    known: Mapping[str, Any] = read_data(page.NAME, folder) or {"kinds": {}, "packages": {}}
    before = {o["model"]: o for o in known["kinds"].get(kind.name, {}).get("outcomes", ())}
    before |= {outcome.model: asdict(outcome) for outcome in outcomes}
    names = [entry.name for entry in all_entries()]
    kept = [before[name] for name in names if name in before]
    versions = {name: version for name in PACKAGES if (version := installed_version(name)) is not None}
    kinds = {**known["kinds"], kind.name: {"origin": read_origin(), "outcomes": kept}}
    document = {
        **{key: value for key, value in known.items() if key == "calls"},
        "models": len(names),
        "packages": {**known["packages"], **versions},
        "kinds": {name: kinds[name] for name in KINDS if name in kinds},
    }
    publish(page.NAME, document, page.render(document), folder)
    proved = sum(page.is_proved(outcome) for outcome in kept)
    print(f"{kind.name}: {proved} of {len(kept)} proved; wrote {page.NAME}.md and data/{page.NAME}.json")


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.devices", description=__doc__.splitlines()[0])
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("--kind", action="append", choices=KINDS, help="What to export to; repeatable.")
    asked.add_argument(
        "--calls", action="append", choices=calls.TARGETS, help="Time a Session beside the engine's call; repeatable."
    )
    parser.add_argument("--only", action="append", default=[], metavar="GLOB", help="Models of such names; repeatable.")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="Every Nth of them alone.")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="Where the counting begins.")
    parser.add_argument("--failed", action="store_true", help="Run again only what failed.")
    parser.add_argument("-o", "--output", type=Path, default=PAGES, help="Folder of the page.")
    parser.add_argument("--timeout", type=float, default=300.0, help="Seconds a model may take.")
    parser.add_argument("--memory", type=float, default=6.0, help="GiB a model may take.")
    parser.add_argument("--work", type=Path, default=WORK, help="Folder of the results.")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
