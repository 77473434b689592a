"""Rows of sweeps that nobody ran, for what reads rows; and models for sweeps that are run."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgex.export.sweep.task import Ended, MeasureTask
from edgex.runtime.measure.results.row import HERE, Failure, LeftOut, Made, Origin, Row, Timing
from edgex.runtime.support.machine.host import read_host

GOOD = """\
import torch
from torch import nn


def get_model():
    torch.manual_seed({seed})
    return nn.Sequential(nn.Linear(8, {width}), nn.ReLU(), nn.Linear({width}, 4)).eval()


def get_args():
    return (torch.randn(2, 8, generator=torch.Generator().manual_seed({seed})),)
"""

MODELS = {
    "good": GOOD.format(seed=1, width=16),
    "broken": "import no_such_package_anywhere\n",
    "dies": "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n",
    "hangs": "import time\nprint('about to hang', flush=True)\ntime.sleep(600)\n",
    "eats": "import time\nheld = []\nwhile True:\n    held.append(b'x' * 50_000_000)\n    time.sleep(0.02)\n",
}


def write_models(folder: Path, names: tuple[str, ...] = tuple(MODELS)) -> list[str]:
    """Write models into a folder; their file names."""
    for name in names:
        (folder / f"{name}.py").write_text(MODELS[name])
    return [f"{name}.py" for name in names]


def make_row(
    model: str,
    target: str = "xnnpack",
    milliseconds: float | None = 1.0,
    *,
    what: str | None = None,
    seed: int = 0,
    noise: float = 0.005,
    left_out: Mapping[str, int] | None = None,
    sqnr_db: float = 120.0,
    export_seconds: float = 3.0,
    model_bytes: int = 10_000,
    recipe: str | None = None,
    complete: bool = True,
    host: Mapping[str, Any] | None = None,
) -> Row:
    """A row as a sweep writes it.

    Args:
        milliseconds: The median; None for a job that was not measured.
        what: Why it failed; None for an artifact.
    """
    origin = Origin("f" * 16, "0" * 64, "0.0", {"torch": "2.13.0"}, "", "box", "2026-01-02T03:04:05Z")
    job = f"{abs(hash((model, target, recipe))):012x}"[:12]
    failed = what is not None
    return Row(
        job=job,
        model=model,
        spec=f"{model}.py",
        target=target,
        precision="fp32",
        recipe=recipe,
        device=HERE,
        status="failed" if failed else "verified",
        attempts=1,
        seconds={} if failed else {"capture": 1.0, "lower": export_seconds - 1.0},
        peak_rss_bytes=500_000_000,
        origin=origin,
        made=None if failed else _make_artifact(model, target, left_out or {}, sqnr_db, model_bytes),
        timing=None if failed or milliseconds is None else _make_timing(milliseconds, seed, noise, host),
        failure=Failure("lower", 5, what, "net.py:3", "no kernel", "another target") if what is not None else None,
        complete=complete,
    )


def _make_artifact(model: str, target: str, left_out: Mapping[str, int], sqnr_db: float, model_bytes: int) -> Made:
    return Made(
        artifact=f"artifacts/{model}/fp32/{model}.{target}.edgex",
        digest="1" * 64,
        bytes=2 * model_bytes,
        model_bytes=model_bytes,
        parameters=100,
        delegated_ops=9,
        total_ops=10,
        work_fraction=0.99,
        delegate_calls=1,
        left_out=tuple(LeftOut(op, count, "no_kernel", "there is none") for op, count in left_out.items()),
        min_sqnr_db=sqnr_db,
        max_abs_error=1e-6,
        warnings=("a warning",),
    )


def _make_timing(milliseconds: float, seed: int, noise: float, host: Mapping[str, Any] | None) -> Timing:
    draw = random.Random(seed)
    rounds = [milliseconds * 1e-3 * (1.0 + draw.gauss(0.0, noise)) for _ in range(20)]
    middle = sorted(rounds)[10]
    return Timing(
        median_seconds=middle,
        low_seconds=middle * (1.0 - noise),
        high_seconds=middle * (1.0 + noise),
        min_seconds=min(rounds),
        p90_seconds=max(rounds),
        mad_seconds=noise * middle,
        samples=200,
        round_medians_seconds=tuple(rounds),
        threads=2,
        load_seconds=0.01,
        first_seconds=0.02,
        peak_rss_bytes=60_000_000,
        executed_on="cpu",
        warnings=(),
        host=read_host().to_json() if host is None else host,
    )


class Simulated:
    """Ends every task at once, exports well, and kills those that it is told to."""

    running = 0

    def __init__(self, killed=lambda _task: False) -> None:
        self.tasks: deque = deque()
        self.seen: list = []
        self._killed = killed
        self._like = make_row("like")

    def submit(self, task) -> None:
        self.tasks.append(task)

    def begin(self) -> None:
        """Nothing takes time here."""

    def next(self) -> Ended:
        task = self.tasks.popleft()
        self.seen.append(task)
        if self._killed(task):
            return Ended(task, "lost", {}, "box", "the process that exports ended: killed by SIGKILL", exit_code=1)
        if isinstance(task, MeasureTask):
            return Ended(task, "done", {one.job: {"timing": asdict(self._like.timing)} for one in task.subjects}, "box")
        made = {**asdict(self._like.made), "artifact": f"{task.output}/model.edgex"}
        result = {"status": "verified", "seconds": {"lower": 1.0}, "peak_rss_bytes": 1, "made": made, "failure": None}
        return Ended(task, "done", {one.target: result for one in task.candidates}, "box")

    def close(self) -> None:
        self.tasks.clear()
