"""`python -m benchmarks.speed [--sample] [--only PATTERN]`: run the survey and write docs/benchmarks/speed.md.

A run that was interrupted goes on: results lie in `.speed-survey/`, a file a model, and are used again where they were
measured at the same commit; `--fresh` measures all of them again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.processes import ROOT
from benchmarks.publish import PAGES, publish, read_origin
from benchmarks.speed.models import entries
from benchmarks.speed.page import find_outliers, render

WORK = ROOT / ".speed-survey"
NAME = "speed"
_MODEL_SECONDS = 1800


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what is missing, print the outliers, write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description="All architectures, all targets.")
    parser.add_argument("--sample", action="store_true", help="Ten models, for daily use.")
    parser.add_argument("--only", action="append", default=[], help="Names or patterns; may be repeated.")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--fresh", action="store_true", help="Measure again what is measured already.")
    parser.add_argument("--dry-run", action="store_true", help="Name the models and stop.")
    parser.add_argument("-o", "--output", type=Path, default=PAGES, help="Folder of the page.")
    given = parser.parse_args(argv)
    chosen = [entry.name for entry in entries(given.only, sample=given.sample)]
    if given.dry_run:
        print("\n".join(chosen))
        return 0
    origin = read_origin()
    before = os.getloadavg()[0]
    rows = [row for name in chosen if (row := _measured(name, origin["commit"], given)) is not None]
    after = os.getloadavg()[0]
    document = {
        **origin,
        "threads": given.threads,
        "rounds": given.rounds,
        "cpu": _cpu(),
        "load": f"Load average of {os.cpu_count()} cores: {before:.1f} before, {after:.1f} after.",
        "models": rows,
    }
    publish(NAME, document, render(document), given.output)
    print("\n".join(find_outliers(rows)) or "no outliers")
    return 0


def _measured(name: str, commit: str, given: argparse.Namespace) -> dict[str, Any] | None:
    file = WORK / f"{name.replace('/', '-')}.{commit}.{given.threads}.json"
    if file.exists() and not given.fresh:
        row: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return row
    command = [sys.executable, "-m", "benchmarks.speed.child", name, str(given.threads), str(given.rounds)]
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=_MODEL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        print(f"{name}: took longer than {_MODEL_SECONDS} s", file=sys.stderr)
        return None
    if done.returncode != 0:
        print(f"{name}: ended with {done.returncode}", file=sys.stderr)
        return None
    row = json.loads(done.stdout.splitlines()[-1])
    WORK.mkdir(exist_ok=True)
    file.write_text(json.dumps(row), encoding="utf-8")
    return row


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "an unknown processor"
    )


if __name__ == "__main__":
    sys.exit(main())
