"""How long `edgex why` takes, and how much memory: a ResNet-50, and a transformer of a billion parameters."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.outcome import Goal, Outcome, show_seconds
from benchmarks.processes import interleave, run_process
from edgex.runtime.report.figures import format_bytes, format_seconds

NAME = "why"
TARGETS = ("xnnpack", "onnx-cpu", "onednn")
ROUNDS, QUICK_ROUNDS = {"resnet50": 3, "billion": 1}, {"resnet50": 1}
MOST_SECONDS = {"resnet50": 5.0, "billion": 60.0}
MOST_BYTES = {"billion": 4 * 1024**3}
# What is asked before any target: the model's own code, and its capture.
BEFORE = ("find", "capture")


def measure(quick: bool) -> Outcome:
    """Ask about each model, all targets at once, a fresh process each time."""
    answers: dict[str, list[dict[str, Any]]] = {}

    def run(name: str) -> None:
        command = [sys.executable, "-m", "edgex", "why", f"benchmarks.cost.why_models:{name}", "-t", ",".join(TARGETS)]
        answers.setdefault(name, []).append(json.loads(run_process([*command, "--json", "-q"])))

    rounds = QUICK_ROUNDS if quick else ROUNDS
    names = list(rounds)
    for name, count in rounds.items():
        interleave([name], count, run, NAME)
    return Outcome(
        NAME,
        "What a question costs",
        _notes(rounds),
        ("model", "parameters", "imports", "before", *TARGETS, "after imports", "peak"),
        [_row(name, answers[name]) for name in names],
        [goal for name in names for goal in _goals(name, answers[name])],
        {"answers": {name: [_figures(answer) for answer in found] for name, found in answers.items()}},
    )


def _notes(rounds: Mapping[str, int]) -> tuple[str, ...]:
    times = " and ".join(f"{count} x {name}" for name, count in rounds.items())
    return (
        f"`edgex why MODEL -t {','.join(TARGETS)}` in a fresh process, wall time by stage, {times}: medians, least and "
        "most in parentheses. The models are built on the meta device, without weights.",
        "Targets take their turns, and what they share counts for the first: the rewrites for all of them, and what "
        "PyTorch and ExecuTorch import and fill in at their first call. *Before* is the model's own code and "
        "`torch.export`, which traces every call of every layer. After it one operator of each kind is traced; the "
        "whole program where a decomposition moves results in memory, as that of attention does.",
        "Of ResNet-50's time a profile found 31 % in PyTorch's decompositions, one a target; 20 % in `torch.export`; "
        "18 % in ExecuTorch's passes to its own operators, for two targets; 12 % in their partitioners, most of it in "
        "oneDNN's library; 10 % in the translation to ONNX and onnxscript's optimizer; 4 % in rewrites.",
    )


def _figures(answer: dict[str, Any]) -> dict[str, Any]:
    """What the page is made of; the plans are long, and no figures."""
    return {key: answer[key] for key in ("model", "seconds", "peak_rss_bytes", "notices")}


def _stages(answers: Sequence[dict[str, Any]], *stages: str) -> list[float]:
    return [sum(answer["seconds"][stage] for stage in stages) for answer in answers]


def _after_imports(answers: Sequence[dict[str, Any]]) -> list[float]:
    return [sum(value for stage, value in answer["seconds"].items() if stage != "import") for answer in answers]


def _peak(answers: Sequence[dict[str, Any]]) -> int:
    return max(int(answer["peak_rss_bytes"]) for answer in answers)


def _row(name: str, answers: Sequence[dict[str, Any]]) -> list[str]:
    model = answers[0]["model"]
    assert model["weights"] == "none", f"{name} was built with its weights"
    return [
        name,
        f"{model['parameters'] / 1e6:,.0f} million",
        show_seconds(_stages(answers, "import")),
        show_seconds(_stages(answers, *BEFORE)),
        *(show_seconds(_stages(answers, f"plan {target}")) for target in TARGETS),
        show_seconds(_after_imports(answers)),
        format_bytes(_peak(answers)),
    ]


def _goals(name: str, answers: Sequence[dict[str, Any]]) -> list[Goal]:
    seconds = median(_after_imports(answers))
    limit = MOST_SECONDS[name]
    goals = [Goal(f"{name}: at most {limit:g} s after imports", format_seconds(seconds), seconds <= limit)]
    if name in MOST_BYTES:
        most, peak = MOST_BYTES[name], _peak(answers)
        goals.append(Goal(f"{name}: at most {most / 1024**3:g} GiB", f"{peak / 1024**3:.2f} GiB", peak <= most))
    return goals
