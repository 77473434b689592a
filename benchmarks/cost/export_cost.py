"""What an export costs beside the same bare calls: time and peak memory."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from statistics import median
from typing import Any

from benchmarks.outcome import Goal, Outcome, show_seconds
from benchmarks.processes import interleave, run_process
from edgex.runtime.report.figures import format_bytes, format_seconds

NAME = "export"
ROUNDS, QUICK_ROUNDS = 5, 1
MODELS, QUICK_MODELS = ("resnet50", "bert_base"), ("resnet_small", "bert_small")
TARGETS = ("xnnpack", "onnx-cpu")
SIDES = ("bare", "edgex")
MOST_TIME, MOST_MEMORY = 1.2, 1.15


def measure(quick: bool) -> Outcome:
    """Export each model to each target on both sides, in turns, a fresh process each time."""
    runs: dict[str, list[dict[str, Any]]] = {}

    def run(name: str) -> None:
        side, target, model = name.split(" ")
        stdout = run_process([sys.executable, "-m", "benchmarks.cost.export_child", side, target, model])
        runs.setdefault(name, []).append(json.loads(stdout.strip().splitlines()[-1]))

    rounds = QUICK_ROUNDS if quick else ROUNDS
    rows, goals = [], []
    for model in QUICK_MODELS if quick else MODELS:
        for target in TARGETS:
            interleave([f"{side} {target} {model}" for side in SIDES], rounds, run, NAME)
            bare, own = (runs[f"{side} {target} {model}"] for side in SIDES)
            rows.append(_row(model, target, bare, own))
            goals += _goals(model, target, bare, own)
    return Outcome(
        NAME,
        "What an export costs",
        (
            "`edgex` beside the bare calls: `torch.export.export`, then `to_edge_transform_and_lower`, `to_executorch` "
            "and the write for xnnpack; `torch.onnx.export` and `save` for onnx-cpu.",
            f"Medians of {rounds} fresh processes of each side, in turns; a tiny model is exported first in each, so "
            "that imports are left out on both sides.",
            "Both sides ran on a shared machine: where their ranges overlap, the ratio says little.",
            "*Proof* is edgex's own: eager's answers to all cases, and the run in a fresh process. It is not part of "
            "the time beside it. Memory is the peak of the whole exporting process, eager's answers included.",
        ),
        ("model, target", "bare", "edgex", "time", "bare peak", "edgex peak", "memory", "proof"),
        rows,
        goals,
        {"runs": runs},
    )


def _seconds(runs: list[dict[str, Any]], key: str = "seconds") -> list[float]:
    return [float(run[key]) for run in runs]


def _peak(runs: list[dict[str, Any]]) -> int:
    return int(median(run["peak_rss_bytes"] for run in runs))


def _ratios(bare: list[dict[str, Any]], own: list[dict[str, Any]]) -> Mapping[str, float]:
    return {"time": median(_seconds(own)) / median(_seconds(bare)), "memory": _peak(own) / _peak(bare)}


def _row(model: str, target: str, bare: list[dict[str, Any]], own: list[dict[str, Any]]) -> list[str]:
    ratios = _ratios(bare, own)
    return [
        f"{model}, {target}",
        show_seconds(_seconds(bare)),
        show_seconds(_seconds(own)),
        f"{ratios['time']:.2f}x",
        format_bytes(_peak(bare)),
        format_bytes(_peak(own)),
        f"{ratios['memory']:.2f}x",
        format_seconds(median(_seconds(own, "proof_seconds"))),
    ]


def _goals(model: str, target: str, bare: list[dict[str, Any]], own: list[dict[str, Any]]) -> list[Goal]:
    limits = {"time": MOST_TIME, "memory": MOST_MEMORY}
    return [
        Goal(f"{model}, {target}: at most {limits[what]:g}x the {what}", f"{ratio:.2f}x", ratio <= limits[what])
        for what, ratio in _ratios(bare, own).items()
    ]
