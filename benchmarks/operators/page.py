"""The page of `make ops`: how many samples are right on each target, and each operator that is refused or known."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.coverage.outcome import without_paths
from benchmarks.operators.judge import TARGETS, Outcome
from benchmarks.publish import publish, read_origin, render_origin

NAME = "operators"
# The suite's own line, which calls the operator.
_PLACES = re.compile(r" at opinfo\.py:\d+|opinfo\.py:\d+: ")
_KINDS = ("right", "refused", "known", "wrong")


def write_page(outcomes: Sequence[Outcome], samples: int) -> None:
    """Write docs/benchmarks/operators.md and its figures."""
    document = summarize(outcomes, samples, read_origin())
    publish(NAME, document, render(document))


def summarize(outcomes: Iterable[Outcome], samples: int, origin: Mapping[str, str]) -> dict[str, Any]:
    """The figures of the page: counts by target, and what is not right by operator and reason.

    Args:
        outcomes: Of a whole run, in PyTorch's order of operators.
        samples: Asked for of each operator.
        origin: Date and commit.
    """
    outcomes = list(outcomes)
    counts = {target: Counter(one.kind for one in outcomes if one.target == target) for target in TARGETS}
    left: dict[tuple[str, str, str], list[str]] = {}
    for one in outcomes:
        if one.kind != "right":
            key = (one.sample.partition("#")[0], one.kind, _sentence(one.reason))
            targets = left.setdefault(key, [])
            if one.target not in targets:
                targets.append(one.target)
    return {
        "origin": dict(origin),
        "samples": samples,
        "operators": len({one.sample.partition("#")[0] for one in outcomes}),
        "counts": {target: {kind: counts[target][kind] for kind in _KINDS} for target in TARGETS},
        "left": [
            {"operator": operator, "kind": kind, "targets": targets, "reason": reason}
            for (operator, kind, reason), targets in left.items()
        ],
    }


def _sentence(reason: str) -> str:
    """A reason without its target, and without the line of the suite that calls the operator."""
    lines = [line for line in reason.splitlines() if line.strip() and not line.startswith("opinfo.py")]
    text = lines[-1] if len(lines) > 1 else "".join(lines)
    for target in TARGETS:
        text = text.replace(f".operator.{target}.edgex", "the artifact")
    text = _PLACES.sub("", text)
    text = " ".join((without_paths(text) or "").split())
    return text if len(text) <= 200 else text[:199] + "…"


def render(document: Mapping[str, Any]) -> str:
    """The page from its figures."""
    counts: Mapping[str, Mapping[str, int]] = document["counts"]
    lines = [
        "# Operators",
        "",
        f"Written by `make ops`: PyTorch's own samples of {document['operators']} operators of inference, up to "
        f"{document['samples']} of each, every one exported to each target and compared with eager. *Right* is proved; "
        "*refused* is an error that names the operator, before anything was written; *known* is listed in "
        "`benchmarks/operators/known_issues.json`; of *wrong* there may be none. "
        f"{render_origin(document['origin'])}",
        "",
        f"| target | {' | '.join(_KINDS)} |",
        f"|---|{'---:|' * len(_KINDS)}",
        *(f"| `{target}` | {' | '.join(str(found[kind]) for kind in _KINDS)} |" for target, found in counts.items()),
        "",
        "## What is not right",
        "",
        "| operator | target | | reason |",
        "|---|---|---|---|",
    ]
    for one in document["left"]:
        targets = ", ".join(f"`{target}`" for target in one["targets"])
        reason = one["reason"].replace("|", "\\|").replace("<", "&lt;").replace("](", "] (")
        lines.append(f"| {one['operator']} | {targets} | {one['kind']} | {reason} |")
    return "\n".join(lines) + "\n"
