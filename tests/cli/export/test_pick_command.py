"""`edgex pick`: its plan, its flags, its table and its page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgex.cli.export.pick import command
from edgex.cli.export.pick_text import print_pick, write_report

NET = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 2).eval()
example_inputs = (torch.randn(1, 4),)
"""

DOCUMENT = {
    "schema": "edgex.pick/1", "model": "net.py:model", "objective": "latency", "judge": "the example inputs",
    "winner": {"target": "onednn", "precision": "fp32", "recipe": "int8", "threads": 1, "engine_options": {},
               "path": "b/net.onednn.edgex"},
    "draw": [], "notices": [], "interrupted": False,
    "candidates": [
        {
            "target": "onednn", "precision": "fp32", "recipe": "int8", "verdict": "picked", "reason": "", "fix": None,
            "threads": 1, "engine_options": {},
            "median_seconds": 359e-6, "error_db": 40.7, "bytes": 27000, "pareto": True,
        },
        {
            "target": "xnnpack", "precision": "bf16", "recipe": None, "verdict": "refused", "reason": "no bf16",
            "fix": None, "threads": None, "engine_options": {},
            "median_seconds": None, "error_db": None, "bytes": None, "pareto": False,
        },
    ],
}  # fmt: skip


@pytest.fixture
def pick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDGEX_SUPERVISED", "1")  # in this process: nothing slow is started
    (tmp_path / "net.py").write_text(NET)
    return lambda *arguments: CliRunner().invoke(command, ["net.py", *arguments])


def test_a_dry_run_shows_the_plan(pick: Callable) -> None:
    found = pick("-t", "xnnpack,onnx-cpu", "--precision", "fp32,bf16", "--threads", "1,2", "--dry-run", "--json")
    assert found.exit_code == 0, found.output
    plan = json.loads(found.stdout)
    assert plan["schema"] == "edgex.pick-plan/1" and plan["threads"] == [1, 2]
    # Three blocks each, and of onnx-cpu its default settings once more and three others.
    assert plan["heat_processes"] == 10
    tried = [{"allow_spinning": False}, {"memory_arena": False}, {"graph_optimization": "extended"}]
    assert plan["settings"] == {"onnx-cpu": tried}
    assert [one["target"] for one in plan["candidates"]] == ["xnnpack", "onnx-cpu"]
    assert {one["precision"] for one in plan["refused"]} == {"bf16"} and all(one["reason"] for one in plan["refused"])
    text = pick("-t", "onnx-cpu", "--threads", "1", "--dry-run").stdout
    assert "settings          onnx-cpu: memory_arena=false; graph_optimization=extended\n" in text
    assert "settings" not in pick("-t", "onnx-cpu", "--objective", "size", "--dry-run").stdout
    text = pick("-t", "xnnpack", "--precision", "fp32,bf16", "--dry-run").stdout
    assert "export and prove  xnnpack\n" in text and "refused           xnnpack bf16: " in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--threads", "many"), "expected auto or numbers"),
        (("--threads", "0"), "expected auto or numbers"),
        (("-t", "xnpack", "--dry-run"), "xnnpack"),
        (("--report", "pick.txt"), ".html"),
        (("--device", "locale"), "did you mean 'local-native'"),
        (("--device", "local-native", "--max-seconds", "3"), "--max-seconds does not go with"),
        (("--device", "local-native", "--objective", "energy", "--dry-run"), "--objective energy does not go with"),
        (("--device", "local-native", "-t", "reference", "--dry-run"), "the device runs none of the candidates"),
        (("-o", "net.xnnpack.edgex", "-t", "xnnpack", "--dry-run"), "exists"),
    ],
)
def test_flags_are_checked_before_slow_work(pick: Callable, arguments: tuple[str, ...], words: str) -> None:
    Path("net.xnnpack.edgex").mkdir()
    found = pick(*arguments)
    assert found.exit_code == 2 and words in found.stderr, found.output


def test_the_table_and_the_page_name_every_combination(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    print_pick(DOCUMENT)
    shown = capsys.readouterr().out
    assert "onednn int8" in shown and "40.7 dB" in shown and "no bf16" in shown
    assert shown.rstrip().endswith("picked onednn int8 with 1 thread: b/net.onednn.edgex")
    assert "onednn int8:" not in shown
    options = {"engine_options": {"allow_spinning": False}}
    rows = DOCUMENT["candidates"]
    print_pick({**DOCUMENT, "winner": DOCUMENT["winner"] | options, "candidates": [rows[0] | options, rows[1]]})
    shown = capsys.readouterr().out
    assert "onednn int8:          with allow_spinning=false\n" in shown
    assert "picked onednn int8 with 1 thread and allow_spinning=false: b/net" in shown
    for name in ("pick.html", "pick.json"):
        write_report(tmp_path / name, DOCUMENT, quiet=True)
    assert json.loads((tmp_path / "pick.json").read_text()) == DOCUMENT
    assert "xnnpack bf16" in (tmp_path / "pick.html").read_text()
