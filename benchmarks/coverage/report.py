"""The page of `make coverage` and its figures: the same for the same outcomes, without folders."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.coverage.judge import ISSUES, SCHEMA, Issue, Key, parse_issues, parse_outcomes, tell
from benchmarks.coverage.outcome import Outcome
from benchmarks.coverage.suite import TARGETS, all_entries
from benchmarks.coverage.workarounds import WORKAROUNDS
from benchmarks.processes import ROOT
from benchmarks.publish import publish, read_origin, render_origin

REAL = ("huggingface", "modern", "torchvision", "timm", "large")
TITLES = {
    "huggingface": "Hugging Face",
    "modern": "Families of 2023 to 2026",
    "torchvision": "torchvision",
    "timm": "timm",
    "large": "At published sizes",
    "hard": "Hard cases",
}
# Shares of all models that are to be verified.
GOALS = {"xnnpack": 0.97, "onnx-cpu": 0.98, "onednn": 0.98}


def write_report(
    folder: Path,
    names: Sequence[str],
    outcomes: Sequence[Outcome],
    gone: Mapping[str, str],
    issues: Mapping[Key, Issue],
    packages: Mapping[str, str],
) -> None:
    """Write both files.

    Args:
        folder: Of the documentation.
        names: All models of the suite, in order.
        outcomes: What is known of them, in order.
        gone: Models that are no longer to be had, and why.
        issues: Failures that were looked at.
        packages: Versions of what took part.
    """
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "packages": dict(packages),
        "origin": read_origin(),
        "models": len(names),
        "gone": dict(gone),
        "outcomes": [outcome.to_json() for outcome in outcomes],
    }
    page = render(names, outcomes, document, issues)
    publish("coverage", document, page, folder)


def render_document(document: Mapping[str, Any]) -> str:
    """The page from the committed figures, for `benchmarks.publish`."""
    names = [entry.name for entry in all_entries()]
    outcomes = list(parse_outcomes(json.dumps(document)).values())
    issues = parse_issues((ROOT / ISSUES).read_text(encoding="utf-8"))
    return render(names, outcomes, document, issues)


def render(
    names: Sequence[str], outcomes: Sequence[Outcome], document: Mapping[str, Any], issues: Mapping[Key, Issue]
) -> str:
    """The page.

    Args:
        names: All models of the suite, in order.
        outcomes: What is known of them.
        document: The figures' packages, origin and models that are no longer to be had.
        issues: Failures that were looked at.
    """
    gone = document["gone"]
    versions = ", ".join(f"{name} {number}" for name, number in document["packages"].items())
    by_key = {(outcome.model, outcome.target): outcome for outcome in outcomes}
    targets = [target for target in TARGETS if any(outcome.target == target for outcome in outcomes)]
    real = [name for name in names if name.split("/")[0] in REAL]
    parts = [
        "# Coverage",
        "Written by `make coverage`: published architectures in small configurations (those *at published sizes* "
        "apart) with weights of our own, each exported in a process of its own, captured once for all targets, "
        "lowered, loaded and run by a fresh process, and compared with eager PyTorch on the example and on stress "
        "inputs. The weights are random, the shapes static; published weights and dynamic batches are not part of it. "
        "*Verified* is what `edgex export` calls so. Raw figures: [data/coverage.json](data/coverage.json).",
        _summary(real, by_key, targets),
        _goal(real, by_key, targets),
        f"{render_origin(document['origin'])} Versions: {versions}.",
        _sources(outcomes),
        "Each model's cell: share of the operators delegated, delegate calls, seconds of the whole export on one "
        "thread of a shared machine without imports, and the process's peak memory.",
        _failures(outcomes, issues),
        _workarounds(outcomes),
    ]
    for group, title in TITLES.items():
        members = [name for name in names if name.startswith(f"{group}/")]
        parts += [f"## {title}", _table(members, by_key, targets)]
        if group == "huggingface" and gone:
            listed = "; ".join(f"`{name}` ({why})" for name, why in gone.items())
            parts.append(f"In the benchmark's list and not here: {listed}.")
    return "\n\n".join(part for part in parts if part) + "\n"


def _summary(names: Sequence[str], by_key: Mapping[Key, Outcome], targets: Sequence[str]) -> str:
    """Verified and run, by group and target."""
    head = f"| architectures | of the suite | {' | '.join(targets)} |"
    lines = [head, f"|---|---:|{'---:|' * len(targets)}"]
    groups = {TITLES[group]: [name for name in names if name.startswith(f"{group}/")] for group in REAL}
    for title, members in {**groups, "all real architectures": list(names)}.items():
        cells = [_count(members, by_key, target) for target in targets]
        lines.append(f"| {title} | {len(members)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _count(names: Sequence[str], by_key: Mapping[Key, Outcome], target: str) -> str:
    run = [by_key[name, target] for name in names if (name, target) in by_key]
    verified = sum(outcome.verified for outcome in run)
    return f"{verified} of {len(run)} run" + (f", {verified / len(run):.1%}" if run else "")


def _goal(names: Sequence[str], by_key: Mapping[Key, Outcome], targets: Sequence[str]) -> str:
    """Whether the goals are reached, of all models and not of those that were run."""
    lines = []
    for target in targets:
        verified = sum((name, target) in by_key and by_key[name, target].verified for name in names)
        goal = GOALS[target]
        word = "met" if verified >= goal * len(names) else "**not met**"
        lines.append(
            f"- {word}: at least {goal:.0%} of all {len(names)} verified on {target}; {verified / len(names):.1%}"
        )
    return "\n".join(lines)


def _sources(outcomes: Sequence[Outcome]) -> str:
    """Honest about results that are older than others."""
    digests = {outcome.sources for outcome in outcomes}
    if len(digests) < 2:
        return ""
    return (
        f"The results come from {len(digests)} revisions of edgex: a model was run again only where a change "
        "concerned it. `data/coverage.json` names each by a digest of the sources; `make coverage` runs again what "
        "is older than the checkout."
    )


def _failures(outcomes: Sequence[Outcome], issues: Mapping[Key, Issue]) -> str:
    """Every failure with its sentence and workaround."""
    failed = [outcome for outcome in outcomes if not outcome.verified]
    if not failed:
        return ""
    lines = [
        "## What fails, and the workaround",
        "",
        "| model | target | exit code | what | workaround |",
        "|---|---|---:|---|---|",
    ]
    for outcome in failed:
        issue = issues.get((outcome.model, outcome.target))
        what = ": ".join(part for part in (outcome.what, outcome.why) if part)
        way = "; ".join(part for part in (outcome.fix, issue and issue.reason) if part)
        cells = (outcome.model, outcome.target, f"{outcome.exit_code} ({outcome.stage})", _cell(what), _cell(way))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _workarounds(outcomes: Sequence[Outcome]) -> str:
    """What to do about each published architecture that fails, where its error cannot say it."""
    failing = dict.fromkeys(outcome.model for outcome in outcomes if not outcome.verified)
    parts = [f"### {model.split('/')[1]}\n\n{WORKAROUNDS[model]}" for model in failing if model in WORKAROUNDS]
    return "\n\n".join(["## Known failures of published architectures", *parts]) if parts else ""


def _cell(text: str) -> str:
    """On one line, at most 300 characters, safe in a table."""
    line = " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
    return line if len(line) <= 300 else line[:299] + "…"


def _table(names: Sequence[str], by_key: Mapping[Key, Outcome], targets: Sequence[str]) -> str:
    lines = [f"| model | {' | '.join(targets)} |", f"|---|{'---|' * len(targets)}"]
    for name in names:
        cells = [_figures(by_key.get((name, target))) for target in targets]
        lines.append(f"| {name.split('/')[1]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _figures(outcome: Outcome | None) -> str:
    if outcome is None:
        return "not run"
    if not outcome.verified:
        return f"**{_cell(tell(outcome)).split(':')[0]}**"
    share = "" if outcome.fraction is None else f"{outcome.fraction:.0%} in {outcome.calls}, "
    seconds = "" if outcome.seconds is None else f"{outcome.seconds:.0f} s, "
    memory = "" if outcome.peak_rss_bytes is None else f"{outcome.peak_rss_bytes / 1e6:.0f} MB"
    return share + seconds + memory
