"""What all engines' rows have in common: shares, rates, ceilings, and meters where there are any."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from edgex.runtime.engines.torch.trace import read_times
from edgex.runtime.engines.trace.operators import Ceilings, OperatorRow, OperatorTensor
from edgex.runtime.engines.trace.source_map import count_bytes, make_source_map, tensor_bytes
from edgex.runtime.engines.trace.tracing import (
    EngineTrace,
    compute_dtype,
    finish_rows,
    flag_impossible,
    summarize_trace,
)
from edgex.runtime.execute.here.meters import EnergyDomain, energy_domains, read_meters
from edgex.runtime.measure.profile import ceilings as module
from edgex.runtime.measure.profile.ceilings import find_ceilings

TENSOR = OperatorTensor("float32", (100, 100))
ROW = OperatorRow(
    name="a",
    op_type="aten.mm.out",
    delegate=None,
    category="compute",
    count=1,
    median_seconds=10.0e-6,
    share=None,
    module_path="",
    module_paths=("",),
    source="n.py:1",
    sources=("n.py:1",),
    operators=("aten.mm.default",),
    map_confidence="exact",
    inputs=(TENSOR, TENSOR),
    outputs=(TENSOR,),
    flops=2_000_000,
    bytes=120_000,
)


def trace_of(*rows: OperatorRow, resolution: float = 1e-9) -> EngineTrace:
    return EngineTrace(rows, 10, 50e-6, resolution, 0.8)


def test_rates_and_fractions_follow_from_time_and_work():
    (row,) = finish_rows(trace_of(ROW), Ceilings(1, {"float32": 400.0}, 100.0))
    assert row.share == 1.0
    assert row.gflops == pytest.approx(200.0) and row.gbps == pytest.approx(12.0)
    assert row.roofline_fraction == pytest.approx(0.5)
    # Where moving the bytes takes longer than computing, that is the bound.
    (bound,) = finish_rows(trace_of(ROW), Ceilings(1, {"float32": 4000.0}, 15.0))
    assert bound.roofline_fraction == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("row", "ceilings"),
    [
        (ROW, None),
        (ROW, Ceilings(1, {"bfloat16": 1.0}, 1.0)),
        (dataclasses.replace(ROW, bytes=None), Ceilings(1, {"float32": 1e3}, 1e3)),
        (dataclasses.replace(ROW, category="overhead"), Ceilings(1, {"float32": 1e3}, 1e3)),
        (dataclasses.replace(ROW, median_seconds=None), Ceilings(1, {"float32": 1e3}, 1e3)),
    ],
)
def test_what_is_unknown_has_no_fraction(row, ceilings):
    assert finish_rows(trace_of(row), ceilings)[0].roofline_fraction is None


def test_a_time_of_few_ticks_is_not_held_against_a_ceiling():
    inside = dataclasses.replace(ROW, delegate="X", median_seconds=3.0e-6)
    ceilings = Ceilings(1, {"float32": 1e6}, 1e6)
    (coarse,) = finish_rows(trace_of(inside, resolution=1e-6), ceilings)
    assert (coarse.gflops, coarse.gbps, coarse.roofline_fraction) == (None, None, None)
    assert finish_rows(trace_of(inside, resolution=1e-7), ceilings)[0].roofline_fraction is not None


def test_a_fraction_above_one_is_taken_back_and_flagged():
    rows = finish_rows(
        trace_of(ROW, dataclasses.replace(ROW, median_seconds=40.0e-6)), Ceilings(1, {"float32": 100.0}, 1e3)
    )
    assert [row.roofline_fraction for row in rows] == [pytest.approx(2.0), pytest.approx(0.5)]
    kept, warnings = flag_impossible(rows)
    assert [row.roofline_fraction for row in kept] == [None, pytest.approx(0.5)]
    assert (kept[0].gflops, kept[0].gbps) == (None, None) and kept[1].gflops is not None
    assert [warning.code for warning in warnings] == ["above-roofline"]
    assert flag_impossible(kept) == (kept, ())


def test_names_are_made_unique():
    assert [row.name for row in finish_rows(trace_of(ROW, ROW, ROW), None)] == ["a", "a (2)", "a (3)"]


def test_attribution_counts_certain_rows_of_operators_only():
    rows = (
        dataclasses.replace(ROW, median_seconds=60.0e-6),
        dataclasses.replace(ROW, median_seconds=20.0e-6, map_confidence="aligned", source=None),
        dataclasses.replace(ROW, median_seconds=20.0e-6, map_confidence="delegate"),
        dataclasses.replace(ROW, median_seconds=100.0e-6, category="overhead"),
    )
    summary = summarize_trace(trace_of(*rows), finish_rows(trace_of(*rows), None), 25e-6)
    assert (summary.module_share, summary.source_share) == (pytest.approx(0.8), pytest.approx(0.6))
    assert (summary.overhead_ratio, summary.coverage) == (2.0, 0.8)


@pytest.mark.parametrize(
    ("op_type", "first", "dtype"),
    [
        ("Convolution (NHWC, F32) IGEMM", "float32", "float32"),
        ("Convolution (NHWC, QC8) IGEMM", "float32", "int8"),
        ("Fully Connected (NC, QDU8, F32, QC8W) GEMM", "float32", "int8"),
        ("Convolution (brgconv_avx512_I8)", "float32", "int8"),
        ("FullyConnected (brgemm_avx512_BF16)", "float32", "bfloat16"),
        ("Convolution (brgconv_avx512_FP32)", "float32", "float32"),
        ("QLinearConv", "uint8", "int8"),
        ("linear+relu", "bfloat16", "bfloat16"),
    ],
)
def test_the_dtype_of_the_work(op_type, first, dtype):
    row = dataclasses.replace(ROW, op_type=op_type, inputs=(OperatorTensor(first, (1,)),))
    assert compute_dtype(row) == dtype


def test_bytes_of_tensors_and_tables():
    table, ids, out = (
        OperatorTensor("float32", (30000, 64)),
        OperatorTensor("int64", (5,)),
        OperatorTensor("float32", (5, 64)),
    )
    assert count_bytes("aten.embedding.default", (table, ids), (out,)) == 2 * 5 * 64 * 4
    assert count_bytes("aten.add.Tensor", (out, out), (out,)) == 3 * 5 * 64 * 4
    sizes = {"int4": 50, "bool": 100, "bfloat16": 200, "float64": 800, "uint8": 100}
    assert {dtype: tensor_bytes(OperatorTensor(dtype, (10, 10))) for dtype in sizes} == sizes


def test_times_of_nodes_become_rows():
    op = {"module": "fc", "source": "n.py:2", "inputs": ["x"], "outputs": ["linear"], "flops": "2*n0"}
    document = {
        "ops": [{"id": "linear", "op": "aten.linear.default", **op}],
        "symbols": {"n0": {"input": "x", "dim": 0, "factor": 1, "rest": 0}},
        "values": {name: {"dtype": "float32", "shape": ["n0"]} for name in ("x", "linear")},
        "results": ["linear"],
    }
    times = np.array([[100, 3000, 4000], [100, 5000, 7000], [100, 3000, 4000]])
    found = read_times(["getitem", "linear"], times, make_source_map(document, {"x": (6,)}))
    linear, overhead = found.rows
    assert (linear.median_seconds, linear.flops, linear.bytes, linear.module_path) == (3e-6, 12, 48, "fc")
    assert overhead.median_seconds == 1e-6 and found.execute_seconds == 4e-6 and found.runs == 3


# ---- ceilings


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_ceilings_are_kept_and_only_get_better(own_cache, monkeypatch):
    answers = [Ceilings(2, {"float32": 100.0}, 20.0), Ceilings(2, {"float32": 90.0, "int8": 300.0}, 30.0)]
    monkeypatch.setattr(module, "_measure_in_process", lambda threads: answers.pop(0))
    first = find_ceilings(2)
    assert first == find_ceilings(2) == Ceilings(2, {"float32": 100.0}, 20.0)
    better = find_ceilings(2, again=True)
    assert better == find_ceilings(2) == Ceilings(2, {"float32": 100.0, "int8": 300.0}, 30.0)
    assert answers == []


def test_what_can_be_widened_is_at_least_as_quick_as_float32(monkeypatch):
    work = [
        ("float32", 1000, "f"),
        ("float64", 500, "d"),
        ("int8", 10, "slow"),
        ("int8", 4000, "quick"),
        ("bfloat16", 200, "b"),
    ]
    monkeypatch.setattr(module, "_products", lambda threads: work)
    monkeypatch.setattr(module, "_best_seconds", lambda burst: 1e-6)
    assert module.measure(1).gflops == {"float32": 1.0, "float64": 0.5, "int8": 4.0, "bfloat16": 1.0}


def test_a_damaged_cache_is_measured_again(own_cache, monkeypatch):
    monkeypatch.setattr(module, "_measure_in_process", lambda threads: Ceilings(threads, {}, 1.0))
    find_ceilings(3)
    (file,) = (own_cache / "edgex" / "ceilings").iterdir()
    file.write_text("{")
    assert find_ceilings(3) == Ceilings(3, {}, 1.0)


def test_the_best_of_many_short_bursts_counts(monkeypatch):
    class Clock:
        """Bursts take 100 µs, every third one 5 ms."""

        now, calls = 0, 0

        def burst(self):
            self.calls += 1
            self.now += 5_000_000 if self.calls % 3 == 0 else 100_000

    clock = Clock()
    monkeypatch.setattr(module.time, "perf_counter_ns", lambda: clock.now)
    assert module._best_seconds(clock.burst) == pytest.approx(1e-4)


# ---- meters


def make_zone(folder: Path, name: str, label: str, microjoules: int) -> Path:
    zone = folder / name
    zone.mkdir(parents=True)
    for file, content in (("name", label), ("max_energy_range_uj", "1000"), ("energy_uj", str(microjoules))):
        (zone / file).write_text(f"{content}\n")
    return zone


def test_packages_are_metered_and_their_parts_are_not(tmp_path):
    make_zone(tmp_path, "intel-rapl:0", "package-0", 7)
    make_zone(tmp_path, "intel-rapl:0:0", "core", 3)
    make_zone(tmp_path, "intel-rapl:1", "psys", 9)
    (make_zone(tmp_path, "intel-rapl:2", "package-1", 1) / "energy_uj").unlink()
    (package,) = energy_domains(tmp_path)
    assert (package.name, package.read()) == ("package-0", 7)
    assert energy_domains(tmp_path / "none") == []


def test_an_energy_counter_may_wrap_around(tmp_path):
    file = tmp_path / "energy_uj"
    file.write_text("40\n")
    assert EnergyDomain("package-0", file, 1000).joules_since(990) == pytest.approx(50e-6)


def test_meters_give_numbers_or_nothing():
    readings = read_meters(lambda: sum(range(1000)), 1, 1e-3)
    assert readings.energy is None or readings.energy["joules_per_run"] > 0
    assert readings.counters is None or any(value for value in readings.counters.values())
