"""`make fuzz-onednn`: damages plans of real models until so many seconds of processor time are spent; 0 is no finding.

A finding ends it with 1, the sanitizer's report, and the number to give `--first` to see it again at once.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))

from onednn_fuzzing import build_fuzzer, run_fuzzer, write_plans

_ROUNDS = 100
_REPORT_CHARACTERS = 8000


def main() -> int:
    """Fuzz, and tell what came of it."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=600, help="of processor time")
    options.add_argument("--first", type=int, default=0, help="number of the first change")
    options.add_argument("--model", action="append", help="only the plan of this model")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        program, plans = build_fuzzer(Path(name)), write_plans(Path(name), chosen.model)
        if program is None:
            print("no g++ for AddressSanitizer", file=sys.stderr)
            return 2
        first, totals = chosen.first, [0, 0, 0, 0]
        begin = _child_seconds()
        while _child_seconds() - begin < chosen.seconds:
            for plan in plans:
                done = run_fuzzer(program, [plan], first, _ROUNDS)
                if done.returncode:
                    print(done.stderr[-_REPORT_CHARACTERS:], f"exit code {done.returncode}", file=sys.stderr)
                    return 1
                found = map(int, re.findall(r"\d+", done.stdout))
                totals = [total + count for total, count in zip(totals, found, strict=True)]
            first += _ROUNDS
    refused, large, stopped, ran = totals
    print(f"{sum(totals)} plans: {refused} refused, {large} too large to try, {stopped} not compiled, {ran} ran")
    return 0


def _child_seconds() -> float:
    times = os.times()
    return times.children_user + times.children_system


if __name__ == "__main__":
    sys.exit(main())
