"""What a sweep itself costs a job: the real driver, results and rows, with an executor that does nothing."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.outcome import Goal, Outcome, show_seconds
from benchmarks.processes import ROOT, interleave
from edgex.export.sweep.driver import run_sweep
from edgex.export.sweep.plan import PlannedModel, SweepPlan
from edgex.runtime.report.figures import format_seconds

NAME = "sweep"
SIZES = (10, 100, 1000)
ROUNDS, QUICK_ROUNDS = 5, 1
MOST_SECONDS_EACH = 0.01
# Of a job among a thousand, over one among a hundred: what is linear stays near 1.
MOST_GROWTH = 1.5


def measure(quick: bool) -> Outcome:
    """Sweep over models that nobody exports; each export and each measurement is answered at once."""
    run_plan(SIZES[0])  # imports
    seconds: dict[int, list[float]] = {size: [] for size in SIZES}
    rounds = QUICK_ROUNDS if quick else ROUNDS
    interleave([str(size) for size in SIZES], rounds, lambda name: seconds[int(name)].append(run_plan(int(name))), NAME)
    each = {size: [value / size for value in values] for size, values in seconds.items()}
    growth = median(each[1000]) / median(each[100])
    worst = max(median(values) for values in each.values())
    return Outcome(
        NAME,
        "What a sweep costs a job",
        (
            "Processor time of `edgex sweep` without exports and measurements: a plan is listed, each job has an "
            f"export and a measurement that end at once, and its row on the disk. {rounds} rounds.",
        ),
        ("jobs", "all", "a job"),
        [[f"{size:,}", show_seconds(seconds[size]), show_seconds(each[size])] for size in SIZES],
        [
            Goal("at most 10 ms a job", format_seconds(worst), worst <= MOST_SECONDS_EACH),
            Goal("linear: a job among 1,000 at most 1.5 times one among 100", f"{growth:.2f}", growth <= MOST_GROWTH),
        ],
        {"seconds": {str(size): list[float](values) for size, values in seconds.items()}},
    )


def run_plan(jobs: int) -> float:
    """Seconds of processor time that a sweep of so many jobs takes."""
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    from sweep_support import Simulated

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "net.py").write_text("")
        models: Sequence[PlannedModel] = [PlannedModel("net.py", f"m{number}") for number in range(jobs)]
        plan = SweepPlan(tuple(models), ("reference",), folder=Path(folder))
        started = time.process_time()
        found = run_sweep(plan, Path(folder) / "out", lambda _plan: Simulated())
        spent = time.process_time() - started
    assert found.done == jobs and not found.failed
    return spent
