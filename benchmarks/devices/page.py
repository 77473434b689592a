"""The page of `python -m benchmarks.devices`: what was proved of each kind, and the counted reasons for the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.coverage.report import REAL, TITLES
from benchmarks.devices import calls
from benchmarks.devices.kinds import KINDS, SIMULATION_SECONDS
from benchmarks.publish import render_origin

NAME = "devices"
_PROVED = ("verified", "simulated")


def is_proved(outcome: Mapping[str, Any]) -> bool:
    """Whether an artifact was written: executed here, in a simulator where that is what there is."""
    return outcome["status"] in _PROVED


def is_unfinished(outcome: Mapping[str, Any]) -> bool:
    """Whether time was up before anything was found out; a proof that had failed is a finding."""
    timed_out = outcome["exit_code"] == 124 or "took too long" in (outcome["what"] or "")
    return not is_proved(outcome) and timed_out and outcome["stage"] != "bisect"


def render(document: Mapping[str, Any]) -> str:
    """The page from its figures."""
    versions = ", ".join(f"{name} {number}" for name, number in document["packages"].items())
    kinds = document["kinds"]
    parts = [
        "# Coverage of LiteRT, Core AI and QNN",
        f"Written by `python -m benchmarks.devices`: models of the [coverage suite](coverage.md), which has "
        f"{document['models']}, with fixed sizes, random weights and small images, each exported in a process of its "
        "own and executed by a fresh process before it counts. *Proved* is `verified` on LiteRT's and Core AI's "
        "runtimes on this CPU, and `simulated` in Qualcomm's simulator of an sm8650's HTP, without help of the CPU, "
        f"for {SIMULATION_SECONDS} s of cases a model; no phone has run any of them. Quantized models are calibrated "
        "on random inputs. Where not all models were run, the sample is every so many of the suite's order, the "
        "groups in turns. Raw figures: [data/devices.json](data/devices.json).",
        _summary(kinds),
        _goals(kinds),
        "\n".join(f"- {name}: {render_origin(found['origin'])}" for name, found in kinds.items()),
        f"Versions: {versions}.",
        calls.render(document.get("calls", {})),
        "## Why the rest is not proved",
        _reasons(kinds),
        "## Model by model",
        "The lowest SQNR of all cases against eager float32, in dB; *exact* where every output is equal; the stage "
        "and the exit code where it failed.",
        *_tables(kinds),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _of_group(found: Mapping[str, Any], group: str) -> list[Mapping[str, Any]]:
    return [outcome for outcome in found["outcomes"] if outcome["model"].startswith(f"{group}/")]


def _real(found: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [outcome for group in REAL for outcome in _of_group(found, group)]


def _count(outcomes: Sequence[Mapping[str, Any]]) -> str:
    proved, count = sum(map(is_proved, outcomes)), len(outcomes) - sum(map(is_unfinished, outcomes))
    return f"{proved} of {count}" + (f", {proved / count:.0%}" if count else "")


def _summary(kinds: Mapping[str, Any]) -> str:
    lines = [f"| models | {' | '.join(kinds)} |", f"|---|{'---:|' * len(kinds)}"]
    for group, title in TITLES.items():
        lines.append(f"| {title} | {' | '.join(_count(_of_group(found, group)) for found in kinds.values())} |")
    lines.append(f"| all real architectures | {' | '.join(_count(_real(found)) for found in kinds.values())} |")
    return "\n".join(lines)


def _goals(kinds: Mapping[str, Any]) -> str:
    lines = []
    for name, found in kinds.items():
        goal, real = KINDS[name].goal, [outcome for outcome in _real(found) if not is_unfinished(outcome)]
        if goal is not None and real:
            share = sum(map(is_proved, real)) / len(real)
            word = "met" if share >= goal else "**not met**"
            lines.append(
                f"- {word}: at least {goal:.0%} of the real architectures that were run on {name}; {share:.0%}"
            )
    return "\n".join(lines)


def _reasons(kinds: Mapping[str, Any]) -> str:
    """Counted: what failed, and with which models."""
    lines = ["| target | models | reason | which |", "|---|---:|---|---|"]
    for name, found in kinds.items():
        models: dict[str, list[str]] = {}
        for outcome in found["outcomes"]:
            if not is_proved(outcome):
                models.setdefault(_reason(outcome), []).append(outcome["model"].partition("/")[2])
        counted = Counter({reason: len(named) for reason, named in models.items()})
        for reason, count in counted.most_common():
            named = ", ".join(models[reason])
            lines.append(f"| {name} | {count} | {_cell(reason)} | {named} |")
    return "\n".join(lines)


def _reason(outcome: Mapping[str, Any]) -> str:
    """What failed, without what differs from model to model."""
    if is_unfinished(outcome):
        return "not counted above: not finished in its time on a busy machine"
    if outcome["stage"] in ("numerics", "bisect"):
        return "the proof: outputs are further from eager's than the limit allows"
    lines = [line.partition(": ")[2] or line for line in (outcome["why"] or "").splitlines()]
    told = "; ".join(dict.fromkeys(line.strip() for line in lines[:2] if line.strip()))
    return f"{outcome['what']}: {told}" if told else str(outcome["what"])


def _tables(kinds: Mapping[str, Any]) -> list[str]:
    parts = []
    by_model = {name: {o["model"]: o for o in found["outcomes"]} for name, found in kinds.items()}
    for group, title in TITLES.items():
        models = dict.fromkeys(o["model"] for found in kinds.values() for o in _of_group(found, group))
        if models:
            lines = [f"| {title} | {' | '.join(kinds)} |", f"|---|{'---|' * len(kinds)}"]
            for model in sorted(models):
                cells = [_figure(by_model[name].get(model)) for name in kinds]
                lines.append(f"| {model.partition('/')[2]} | {' | '.join(cells)} |")
            parts.append("\n".join(lines))
    return parts


def _figure(outcome: Mapping[str, Any] | None) -> str:
    if outcome is None:
        return "not run"
    if is_unfinished(outcome):
        return "not finished"
    if not is_proved(outcome):
        stage, code = ("numerics", 4) if outcome["stage"] == "bisect" else (outcome["stage"], outcome["exit_code"])
        return f"**{stage}, {code}**"
    ratio = outcome["min_sqnr_db"]
    return "exact" if ratio is None else f"{ratio:.0f}"


def _cell(text: str) -> str:
    line = " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
    return line if len(line) <= 260 else line[:259] + "…"
