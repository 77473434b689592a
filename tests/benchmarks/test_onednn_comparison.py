"""The page of benchmarks/onednn/comparison.py says what its data says; contenders answer in turns."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
SERVED = "from benchmarks.peers.serving import serve; serve(lambda: None, {'prepare_seconds': 0.5})"


@pytest.fixture(autouse=True)
def root_on_path(monkeypatch):
    """`benchmarks` is no part of the installed package."""
    monkeypatch.syspath_prepend(str(ROOT))


MEASURED = {
    "machine": {"summary": "two cores", "versions": {"torch": "2.13.0"}},
    "origin": {"date": "2026-11-22", "commit": "8a42bfd"},
}


def make_case(model, **milliseconds):
    times = {name: value / 1e3 for name, value in milliseconds.items()}
    ready = {"onednn": 0.25, "llga": None, "xnnpack": 2.5}
    return {
        "model": model, "precision": "fp32", "threads": 2, "median_seconds": times, "prepare_seconds": ready,
    }  # fmt: skip


def test_the_page_names_what_is_missed_and_the_partitions_that_cost_it():
    from benchmarks.onednn.comparison import FIGURES, MODELS, render
    from benchmarks.onednn.notes import BEHIND, LOAD

    assert set(BEHIND) == set(FIGURES) and all(set(notes) <= set(MODELS) for notes in BEHIND.values())
    cases = [
        make_case("resnet50", onednn=10, optimize_for_inference=30, llga=20, xnnpack=11),
        make_case("mobilenet_v2", onednn=10, optimize_for_inference=20, llga=5, xnnpack=11),
    ]
    memory = {"own": 2_000_000, "files": 1_000_000}
    entry = {
        "model": "mobilenet_v2", "load_seconds": 0.4, "compile_seconds": 0.1, "first_seconds": 0.01,
        "weight_bytes": 1000, "pte_bytes": 1020, "before": {"own": 0, "files": 0}, "loaded": memory, "peak": 3_000_000,
        "partitions": [{"name": "convolution+add", "microseconds": 750.0}, {"name": "mean", "microseconds": 250.0}],
    }  # fmt: skip
    page = render({**MEASURED, "cases": cases, "inside": [entry], "call": {"seconds": 1e-6}})
    # sqrt(3 * 2), and sqrt(2 * 0.5) of the only peers that ran everywhere, sqrt(1.1 * 1.1)
    assert "- met: geomean at least 2x over optimize_for_inference; measured 2.45x" in page
    assert "- met: geomean at least 0.95x of the best peer's (llga); measured 1.00x" in page
    assert "- **not met**: no model more than 25 % behind the best peer; measured mobilenet_v2" in page
    assert "## Why mobilenet_v2 is behind" in page and "| convolution+add | 1 | 750 µs | 75 % |" in page
    assert BEHIND["fp32"]["mobilenet_v2"] in page and BEHIND["fp32"]["distilgpt2"] not in page
    assert LOAD in page
    assert "Measured on 2026-11-22 at commit 8a42bfd. Machine: two cores." in page
    assert "| failed |" in page and "+2.0 %" in page and "4.0x" in page
    assert "Not measured: this processor computes no bfloat16" in page
    assert "| model | onednn | xnnpack |" in page and "| resnet50 | 250 ms | 2.50 s |" in page


def test_bf16_is_set_against_torchscript_in_float32():
    """As the published figure is; TorchScript in bf16 is one contender more."""
    from benchmarks.onednn.comparison import list_contenders, render

    names = list_contenders("bf16")
    assert names[:2] == ("onednn", "optimize_for_inference_fp32") and "optimize_for_inference" in names[2:]
    case = make_case(
        "resnet50", onednn=10, optimize_for_inference_fp32=35, llga=12, inductor=20, openvino=20,
        optimize_for_inference=30, eager=30,
    )  # fmt: skip
    page = render({**MEASURED, "cases": [case | {"precision": "bf16"}], "inside": [], "call": None})
    assert "- met: geomean at least 3.31x over optimize_for_inference; measured 3.50x" in page
    assert "- **not met**: aim: 3.6x; measured 3.50x" in page and "Not measured: see onednn.md" in page


def test_servers_run_in_turns(monkeypatch):
    import os

    from benchmarks.peers.serving import Server, time_in_turns

    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    servers = [Server(name, [sys.executable, "-c", SERVED], environment, sys.stderr) for name in "ab"]
    try:
        assert [server.wait() for server in servers] == [{"prepare_seconds": 0.5}] * 2
        found = time_in_turns(servers, 3, 1e-6)
    finally:
        for server in servers:
            server.close()
    assert {name: len(turns) for name, turns in found.items()} == {"a": 3, "b": 3}
    assert all(len(turn) >= 2 and min(turn) > 0 for turns in found.values() for turn in turns)


def test_a_contender_that_ends_is_told():
    import os

    from benchmarks.peers.serving import Server

    server = Server("gone", [sys.executable, "-c", "pass"], dict(os.environ), sys.stderr)
    assert server.wait() is None
    server.close()


def test_serving_answers_each_line(monkeypatch, capsys):
    from benchmarks.peers.serving import serve

    calls = []
    monkeypatch.setattr("sys.stdin", io.StringIO("2\n1\n"))
    serve(lambda: calls.append(1), {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "ready {}" and len(lines) == 3 and len(calls) == 3


def test_lanes_pin_all_threads_of_a_contender():
    import os
    import subprocess

    from benchmarks.onednn.lanes import _pin

    core = max(os.sched_getaffinity(0))
    code = "import threading; threading.Thread(target=input).start(); print('up', flush=True)"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        _pin(process.pid, [core])
        tasks = [int(task.name) for task in Path(f"/proc/{process.pid}/task").iterdir()]
        assert len(tasks) == 2 and all(os.sched_getaffinity(task) == {core} for task in tasks)
        process.communicate(b"\n")
