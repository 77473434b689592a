"""The page of a pick: every combination is in it, names do not cover each other, and hostile names are text."""

from __future__ import annotations

import re
from typing import Any

from edgex.runtime.report.pages.pick import render_pick


def row(target: str, seconds: float | None, error: float | None, size: int | None, verdict: str) -> dict[str, Any]:
    options = {"allow_spinning": False} if verdict == "picked" else {}
    return {
        "target": target, "precision": "fp32", "recipe": None, "verdict": verdict, "reason": "why not", "fix": None,
        "threads": 2, "engine_options": options,
        "median_seconds": seconds, "error_db": error, "bytes": size, "pareto": verdict == "picked",
    }  # fmt: skip


def document(rows: list[dict[str, Any]], winner: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "model": "<script>net.py", "objective": "latency", "judge": "the example inputs", "winner": winner,
        "candidates": rows, "notices": ["said"],
    }  # fmt: skip


def test_everything_is_there_and_names_keep_apart() -> None:
    rows = [row(f"target-{n}", 1e-3 + n * 1e-5, 120.0 + n, 10_000, "picked" if n == 0 else "draw") for n in range(4)]
    rows.append(row("left", None, None, None, "refused"))
    page = render_pick(document(rows, {**rows[0]}))
    assert "&lt;script&gt;net.py" in page and "<script" not in page
    assert page.count("allow_spinning=false") == 2
    assert page.count("<circle") == 4 and page.count("<tr class") == 5 and "why not" in page
    places = re.findall(r'class="name" x="([\d.]+)" y="([\d.]+)" text-anchor="(\w+)"', page)
    assert len(places) == 4 and len(set(places)) == 4


def test_an_interrupted_pick_without_any_time_has_no_plot() -> None:
    page = render_pick(document([row("xnnpack", None, None, None, "not timed")], None))
    assert "Interrupted" in page and "<svg" not in page
