"""The survey of speed is a plan of a sweep whose artifacts take turns; its page says what the rows say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sweep_support import Simulated, make_row

from benchmarks.speed import by_name
from benchmarks.speed.__main__ import main, make_plan
from benchmarks.speed.models import SAMPLE, entries
from benchmarks.speed.page import OURS, PEERS, collect, find_outliers, render
from edgex.export.sweep.driver import run_sweep
from edgex.export.sweep.plan import list_jobs
from edgex.export.sweep.task import MeasureTask

ORIGIN = {"date": "2026-01-02", "commit": "0123456789ab", "threads": 2, "cpu": "a processor"}


def test_every_model_of_the_survey_can_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert all(callable(getattr(by_name, by_name.spec_of(entry.name).partition(":")[2])) for entry in entries())
    assert [entry.name for entry in entries(sample=True)] == list(SAMPLE)
    assert main(["--only", "timm/levit*", "--only", "torchvision/resnet18", "--dry-run"]) == 0
    assert capsys.readouterr().out.split() == ["timm/levit_128s", "torchvision/resnet18"]
    assert main(["--only", "timm/nothing"]) == 2


def test_the_plan_times_all_targets_of_a_model_in_one_measurement(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    plan = make_plan(entries(sample=True)[:2], ("onnx-cpu", "reference"), ("fp32", "bf16"), threads=1)
    jobs = list_jobs(plan)
    assert {job.model.name for job in jobs.possible} == set(SAMPLE[:2])
    executor = Simulated()
    assert run_sweep(plan, tmp_path / "out", lambda _plan: executor).done == len(jobs.possible) + len(jobs.refused)
    measured = [task for task in executor.seen if isinstance(task, MeasureTask)]
    assert [len(task.subjects) for task in measured] == [len(jobs.possible) // 2] * 2
    assert {task.threads for task in measured} == {1}


def test_the_page_has_a_row_a_model_and_names_what_is_behind() -> None:
    times = {
        "xnnpack": 1.0,
        "onnx-cpu": 1.3,
        "onednn": 4.0,
        "reference": 3.0,
        "aoti": 1.5,
        "openvino": 0.95,
        "litert": 2.0,
    }
    rows = [make_row("timm/net", target, time, noise=0.0) for target, time in times.items()]
    rows[0] = replace(rows[0], made=make_row("timm/net", left_out={"aten.roll": 2}).made)
    rows += [
        make_row("timm/other", "xnnpack", what="/home/someone/net.py has no kernel"),
        make_row("timm/other", "aoti"),
    ]
    rows.append(replace(make_row("timm/net", "xnnpack", what="no bf16"), precision="bf16", status="refused"))
    rows.append(replace(make_row("timm/net", "onednn", 0.5), precision="bf16"))
    figures = collect(rows)
    assert [(one["name"], one["precision"]) for one in figures] == [
        ("timm/net", "fp32"), ("timm/other", "fp32"), ("timm/net", "bf16"),
    ]  # fmt: skip
    assert find_outliers(figures) == [
        "- timm/net, onnx-cpu: 1.30 of our best, 1.37 of the best peer",
        "- timm/net, onednn: 4.00 of our best, 4.21 of the best peer, slower than eager",
    ]
    page = render({**ORIGIN, "models": figures})
    assert f"| model | {' | '.join((*OURS, *PEERS))} |" in page and "2 models, 2 threads" in page
    assert "| timm/net | 1.00 | 1.30 | 4.00 | 3.00 | 1.50 | **0.95** | 2.00 |" in page
    assert "## bf16" in page and "- timm/net, xnnpack, 1 calls: aten.roll x2" in page
    assert "- timm/other, xnnpack: net.py has no kernel" in page and "no bf16" not in page


def test_recipes_are_compared_with_float32_of_the_same_target() -> None:
    rows = [
        make_row("timm/net", "xnnpack", 4.0, noise=0.0),
        make_row("timm/net", "onednn", 3.0, noise=0.0),
        replace(make_row("timm/net", "xnnpack", 2.0, noise=0.0), recipe="int8"),
        replace(make_row("timm/net", "onednn", 6.0, noise=0.0), recipe="int8"),
    ]
    figures = collect(rows)
    assert find_outliers(figures) == [
        "- timm/net, xnnpack: 1.33 of our best",
        "- timm/net in int8, onednn: 3.00 of our best, 2.00 of its float32",
    ]
    page = render({**ORIGIN, "models": figures})
    assert page.index("## fp32") < page.index("## int8")
    assert "- xnnpack: 2.00x over float32 (geometric mean of 1), slower on 0" in page
    assert "- onednn: 0.50x over float32 (geometric mean of 1), slower on 1" in page


def test_recipes_of_the_plan_are_calibrated_on_random_numbers() -> None:
    plan = make_plan(entries(sample=True)[:1], ("onnx-cpu",), ("fp32",), 2, ("none", "int8"))
    assert {job.candidate.recipe for job in list_jobs(plan).possible} == {None, "int8"}
    assert plan.calibration == "random:4"
    assert make_plan(entries(sample=True)[:1], ("onnx-cpu",), ("fp32",), 2).calibration is None
