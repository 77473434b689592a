"""Made-up profile reports for the tests of comparisons: any latency, any noise, any host."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from edgex.runtime.engines.trace.operators import OperatorRow
from edgex.runtime.execute.request import FreshRun
from edgex.runtime.measure.profile.report import (
    LoadTimes,
    MemoryUse,
    ProfiledArtifact,
    ProfileReport,
    ProfileSettings,
)
from edgex.runtime.measure.statistics import summarize
from edgex.runtime.support.machine.activity import Activity, MeasurementWarning
from edgex.runtime.support.machine.host import HostInfo

HOST = HostInfo(
    *("Example CPU", "x86_64", ("avx2", "avx512f"), 4, 8, 8, None, 16_000_000_000, "Linux", "6.0", False, None, None),
    python="3.11.7",
)


def make_report(
    milliseconds: float = 1.0,
    *,
    noise: float = 0.01,
    seed: int = 0,
    rounds: int = 30,
    name: str = "net",
    target: str = "xnnpack",
    warnings: tuple[str, ...] = (),
    ops: tuple[OperatorRow, ...] = (),
    host: dict[str, Any] | None = None,
    **settings: Any,
) -> ProfileReport:
    """A report whose rounds of ten samples lie around a latency, each round with a shift of its own."""
    generator = np.random.default_rng(seed)
    shift = generator.normal(0.0, noise, (rounds, 1))
    table = milliseconds * 1e-3 * np.exp(shift + np.abs(generator.normal(0.0, noise, (rounds, 10))))
    samples = tuple(tuple(row) for row in table.tolist())
    summary = summarize(samples)
    plain: dict[str, Any] = {"inputs": "golden", "shapes": {"x": (1, 8)}, "steps": 1, "threads_requested": None}
    plain |= {"options": {}, "warmup_requested": None, "warmup_runs": 9, "warmup_seconds": 0.1, "warmup_settled": True}
    plain |= {"runs_requested": None, "rounds": rounds, "samples_per_round": 10, "calls_per_sample": 1}
    plain |= {"fresh_processes": 1, "threads_source": "default"}
    fresh = FreshRun(0.001, 0.5, 0.002, 0.003, 0.01, 80_000_000)
    return ProfileReport(
        edgex_version="0.1.0",
        artifact=ProfiledArtifact(name, target, "fp32", "0" * 64, 9000, "executorch", {"executorch": "1.5.1"}),
        host=replace(HOST, **(host or {})),
        settings=ProfileSettings(**{**plain, **settings}),
        executed_on="executorch: XnnpackBackend",
        threads=2,
        load_seconds=LoadTimes(0.001, 0.5, 0.002, 0.003, 0.01),
        fresh=(fresh,),
        steady=summary,
        rounds=samples,
        throughput=1.0 / summary.mean,
        memory=MemoryUse(80_000_000, 4096, 8000),
        activity=Activity(1.0, 0.0, 0.0, 0, 0.1, 0.1),
        ops=ops,
        warnings=tuple(MeasurementWarning(code, code) for code in warnings),
    )


def save_report(folder: Path, file: str, *args: Any, **options: Any) -> str:
    """Write a made-up report as `edgex profile -o` does; the path."""
    path = folder / file
    path.write_text(make_report(*args, **options).dumps(), encoding="utf-8")
    return str(path)


def make_row(
    module: str | None,
    *operators: str,
    median_seconds: float | None = 1.0,
    category: Any = "compute",
    name: str | None = None,
    op_type: str = "op",
) -> OperatorRow:
    """A row of a traced run."""
    return OperatorRow(
        name=name or f"{module} {' '.join(operators)} {category}",
        op_type=op_type,
        delegate=None,
        category=category,
        count=1,
        median_seconds=median_seconds,
        share=None,
        module_path=module,
        module_paths=() if module is None else (module,),
        source=None,
        sources=(),
        operators=operators,
        map_confidence="none" if module is None else "exact",
    )
