"""Benchmark pages: `docs/benchmarks/NAME.md` is rendered from `docs/benchmarks/data/NAME.json` and from nothing else.

`python -m benchmarks.publish` renders all pages again from the committed figures, after a change of their wording;
`tests/benchmarks/test_pages.py` compares the result with the committed pages.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.processes import ROOT

PAGES = ROOT / "docs" / "benchmarks"
_NUMBERS = re.compile(r"\[\s+(?:-?\d[\d.eE+-]*,?\s+)+\]")


def read_origin() -> dict[str, str]:
    """Today's date (UTC), and the commit that is checked out."""
    return {"date": datetime.now(UTC).strftime("%Y-%m-%d"), "commit": read_commit(ROOT)}


def read_commit(folder: Path) -> str:
    """The commit of a checkout, with `+` where files differ from it; `unknown` where git does not say."""
    described = ["git", "describe", "--always", "--exclude=*", "--dirty=+", "--abbrev=7"]
    try:
        done = subprocess.run(described, cwd=folder, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def render_origin(origin: Mapping[str, str]) -> str:
    """When and on which commit, in a sentence for the page."""
    return f"Measured on {origin['date']} at commit {origin['commit']}."


def read_data(name: str, folder: Path = PAGES) -> Any:
    """The figures of a page; None where there are none yet."""
    file = folder / "data" / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def publish(name: str, document: Mapping[str, Any], page: str, folder: Path = PAGES) -> None:
    """Write figures and page.

    Args:
        name: Of both files, without a suffix.
        document: The figures; `page` must be what they render to.
        page: Markdown.
        folder: Of the pages; the figures go to `data` in it.
    """
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    (data / f"{name}.json").write_text(format_data(document), encoding="utf-8")
    (folder / f"{name}.md").write_text(page, encoding="utf-8")


def format_data(document: Mapping[str, Any]) -> str:
    """JSON with a key a line, and a list of numbers on one line."""
    text = json.dumps(document, indent=1, ensure_ascii=False)
    return _NUMBERS.sub(lambda match: re.sub(r"\s+", "", match[0]), text) + "\n"


def renderers() -> dict[str, Callable[[Any], str]]:
    """Page name -> function from its figures to its text."""
    from benchmarks import outcome
    from benchmarks.coverage import report
    from benchmarks.devices import page as devices
    from benchmarks.llm import page as llm
    from benchmarks.onednn import amx, comparison
    from benchmarks.operators import page as operators
    from benchmarks.quantization import page as quantization
    from benchmarks.speed import page as speed

    begun = {"llm": llm.render, "speed": speed.render}
    # From their first run on.
    return {name: render for name, render in begun.items() if read_data(name) is not None} | {
        "coverage": report.render_document,
        "devices": devices.render,
        "edgex": lambda document: outcome.render_page(document["benchmarks"]),
        "onednn": comparison.render,
        "onednn-amx": amx.render,
        "onednn-bf16": lambda document: comparison.render(document, "onednn-bf16"),
        "onednn-zen4": lambda document: comparison.render(document, "onednn-zen4"),
        "operators": operators.render,
        "quantization": quantization.render,
    }


def main() -> int:
    """Render every page again."""
    for name, render in renderers().items():
        document = read_data(name)
        if document is not None:
            (PAGES / f"{name}.md").write_text(render(document), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
