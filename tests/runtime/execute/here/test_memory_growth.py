"""Memory that grows with every run is found, and what allocators do anyway is not."""

import json
import mmap

import pytest

from edgex import load, profile
from edgex.runtime.execute.here.memory_growth import judge_growth, measure_growth, read_resident_bytes
from edgex.runtime.measure.profile.report import ProfileReport
from edgex.runtime.measure.profile.warnings import warn_of_growth


def test_a_leak_has_its_rate():
    kept = []

    def leak():
        # Pages of its own: a heap that earlier tests have left half empty would take small blocks without growing.
        pages = mmap.mmap(-1, 8192)
        pages.write(bytes(8192))
        kept.append(pages)

    growth = measure_growth(leak, 1, 1e-6, read_resident_bytes)
    assert growth.runs == 1000
    assert growth.leak_bytes_per_run == pytest.approx(8192, rel=0.2)
    (warning,) = warn_of_growth(growth)
    assert warning.code == "memory-grows" and "over 1000 runs" in warning.text


def test_what_is_given_back_is_no_leak():
    growth = measure_growth(lambda: bytearray(8000), 1, 1e-6, read_resident_bytes)
    assert growth.leak_bytes_per_run is None and not warn_of_growth(growth)


@pytest.mark.parametrize(
    ("sizes", "leaks"),
    [
        ([0, 9_000_000, 9_000_000, 9_000_000, 9_000_000], False),  # a cache that fills
        ([0, 0, 9_000_000, 9_000_000, 9_000_000], False),
        ([0, 100_000, 200_000, 300_000, 400_000], True),
        ([0, 1_000, 2_000, 3_000, 4_000], False),
        ([0, 100_000, 200_000], False),  # time ran out
    ],
)
def test_only_what_grows_all_the_time_is_a_leak(sizes, leaks):
    growth = judge_growth(sizes, 250)
    assert growth.bytes == sizes[-1] and growth.runs == 250 * (len(sizes) - 1)
    assert (growth.leak_bytes_per_run is not None) == leaks
    if leaks:
        assert growth.leak_bytes_per_run == 400


def test_slow_models_run_less_often():
    growth = measure_growth(lambda: None, 3, 0.1, lambda: 0)
    assert growth.runs == 4 * 5 * 3


def test_a_profile_says_how_memory_grew(exported):
    with load(exported("convnet", "onnx-cpu")) as session:
        report = profile(session, runs=20, warmup=5)
    assert report.memory.growth is not None and report.memory.growth.runs > 0
    assert ProfileReport.from_json(json.loads(json.dumps(report.to_json()))).memory.growth == report.memory.growth
