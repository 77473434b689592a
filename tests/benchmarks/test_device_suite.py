"""The page of the coverage suite on LiteRT, Core AI and QNN: what counts as proved, and how reasons are counted."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(autouse=True)
def root_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """`benchmarks` is no part of the installed package."""
    monkeypatch.syspath_prepend(str(ROOT))


def make_document(kind: str, outcomes: list[dict[str, Any]]) -> dict[str, Any]:
    origin = {"date": "2026-01-01", "commit": "abc"}
    return {"models": 165, "packages": {"torch": "2.13"}, "kinds": {kind: {"origin": origin, "outcomes": outcomes}}}


def outcomes() -> list[dict[str, Any]]:
    from benchmarks.coverage.outcome import Outcome

    why = "a.py:{}: aten.x: QNN has no X"
    return [
        asdict(Outcome("hard/lstm", "onnx-qnn", "failed", "lower", 5, "QNN cannot run this model", why.format(7))),
        asdict(Outcome("timm/a", "onnx-qnn", "simulated", min_sqnr_db=41.0)),
        asdict(Outcome("timm/b", "onnx-qnn", "failed", "lower", 5, "QNN cannot run this model", why.format(9))),
        asdict(Outcome("timm/c", "onnx-qnn", "failed", "numerics", 4, "not eager's", "stress: SQNR 3 dB")),
        asdict(Outcome("timm/d", "onnx-qnn", "verified", min_sqnr_db=None)),
    ]


def test_goals_count_published_architectures_and_reasons_count_models() -> None:
    from benchmarks.devices.page import render

    page = render(make_document("onnx-qnn fp16", outcomes()))
    assert "| all real architectures | 2 of 4, 50% |" in page and "| Hard cases | 0 of 1, 0% |" in page
    assert "- **not met**: at least 75% of the real architectures that were run on onnx-qnn fp16; 50%" in page
    assert "| onnx-qnn fp16 | 2 | QNN cannot run this model: aten.x: QNN has no X | lstm, b |" in page
    assert "| onnx-qnn fp16 | 1 | the proof: outputs are further from eager's than the limit allows | c |" in page
    assert "| d | exact |" in page and "| c | **numerics, 4** |" in page and "| a | 41 |" in page


def test_the_sample_takes_some_of_every_group() -> None:
    from benchmarks.coverage.suite import all_entries
    from benchmarks.devices.kinds import sample

    taken = sample(all_entries(), 5)
    assert {entry.group for entry in taken} == {"hard", "modern", "huggingface", "torchvision", "timm"}
    assert not {e.name for e in taken} & {e.name for e in sample(all_entries(), 5, 1)}


def test_what_a_session_adds_is_judged_and_a_simulators_call_is_not_shown() -> None:
    from benchmarks.devices.calls import render

    figures = {
        "origin": {"date": "2026-01-01", "commit": "abc"},
        "cpu": "one",
        "bare_seconds": 40e-6,
        "added_seconds": 2e-6,
        "added_ci95_seconds": [1e-6, 3e-6],
        "samples": 10,
    }
    page = render({"litert": figures, "onnx-qnn": {**figures, "added_seconds": 12e-6}})
    (ours,) = [line for line in page.splitlines() if line.startswith("| litert |")]
    (simulated,) = [line for line in page.splitlines() if line.startswith("| onnx-qnn |")]
    assert "40.0 µs" in ours and "+2.00 µs" in ours and "| met: at most 10.0 µs |" in ours
    assert "| not shown | +12.0 µs |" in simulated and "**not met**" in simulated
    assert render({}) == ""
