"""The HTML report of a large model: how long it takes to write, how big it is, how soon it can be used in a browser."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.outcome import Goal, Outcome, show_seconds
from benchmarks.processes import ROOT
from edgex.runtime.report.figures import format_bytes, format_seconds
from edgex.runtime.report.pages.profile import render_html

NAME = "page"
SIZES = (100, 1000, 4000)
GOAL_OPERATORS, MOST_BYTES, MOST_SECONDS = 1000, 2_000_000, 1.0
ROUNDS, QUICK_ROUNDS = 15, 3

# The page says itself how far it is; milliseconds from the start of the navigation, by the browser's clock.
_WAIT = """() => new Promise((done) => {
  const seen = {};
  const look = () => {
    const state = document.documentElement && document.documentElement.dataset.ready;
    if (state && !(state in seen)) seen[state] = performance.now();
    if (state === "all") done(seen); else setTimeout(look, 1);
  };
  look();
})"""


def measure(quick: bool) -> Outcome:
    """Render made-up profiles and open them in fresh contexts of one browser, in turns."""
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    from browser_support import run_browser
    from report_support import make_report

    rounds = QUICK_ROUNDS if quick else ROUNDS
    written: dict[int, list[float]] = {size: [] for size in SIZES}
    ready: dict[int, dict[str, list[float]]] = {size: {"table": [], "all": []} for size in SIZES}
    sizes: dict[int, int] = {}
    with tempfile.TemporaryDirectory() as folder, run_browser() as browser:
        for size in SIZES:
            report = make_report(size)
            for _ in range(rounds):
                started = time.perf_counter()
                text = render_html([report])
                written[size].append(time.perf_counter() - started)
            sizes[size] = len(text.encode())
            Path(folder, f"{size}.html").write_text(text, encoding="utf-8")
        for _ in range(rounds):
            for size in SIZES:
                for state, seconds in _open(browser, Path(folder, f"{size}.html")).items():
                    ready[size][state].append(seconds)
    version = browser.version
    usable = median(ready[GOAL_OPERATORS]["table"])
    drawn = median(ready[GOAL_OPERATORS]["all"])
    return Outcome(
        NAME,
        "The HTML report of a large model",
        (
            "Made-up profiles of a transformer. *Write* renders the file; *usable* is from the start of the navigation "
            "until the table can be sorted and filtered, *drawn* until all charts stand, by the page's own clock.",
            f"Medians and ranges of {rounds} fresh contexts of headless Chromium {version}, without a GPU, in turns.",
        ),
        ("operators", "size", "write", "usable", "drawn"),
        [
            (
                f"{size:,}",
                format_bytes(sizes[size]),
                *(show_seconds(values) for values in (written[size], ready[size]["table"], ready[size]["all"])),
            )
            for size in SIZES
        ],
        (
            Goal(f"{GOAL_OPERATORS:,} operators under 2 MB", format_bytes(sizes[GOAL_OPERATORS]),
                 sizes[GOAL_OPERATORS] < MOST_BYTES),
            Goal(f"{GOAL_OPERATORS:,} operators usable within 1 s", format_seconds(usable), usable < MOST_SECONDS),
            Goal(f"{GOAL_OPERATORS:,} operators drawn within 1 s", format_seconds(drawn), drawn < MOST_SECONDS),
        ),
        {"bytes": sizes, "write_seconds": written, "ready_seconds": ready, "chromium": version},
    )  # fmt: skip


def _open(browser: Any, file: Path) -> dict[str, float]:
    """Seconds until each state of one page, in a context of its own."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(file.as_uri(), wait_until="commit")
    seen: dict[str, float] = page.evaluate(_WAIT)
    context.close()
    return {"table": seen.get("table", seen["all"]) / 1e3, "all": seen["all"] / 1e3}
