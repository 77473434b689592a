"""`python -m benchmarks.operators`: PyTorch's operator samples over every target, and what came of each.

Operators run in child processes, some at a time: one that kills its process costs only itself. Ends with 4 where
something is neither right, nor refused, nor a known issue.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.operators.judge import TARGETS, Outcome, judge, read_known_issues
from benchmarks.operators.opinfo import operator_names, samples_of
from benchmarks.operators.page import write_page

_AT_A_TIME = 20
_SECONDS_EACH = 120


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print the counts, write the outcomes where asked, and the page after a whole run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operators", description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", default=[], help="operators by name, repeatable")
    parser.add_argument("--every", type=int, default=1, help="only one of so many operators")
    parser.add_argument("--target", action="append", default=[], choices=TARGETS)
    parser.add_argument("--samples", type=int, default=2, help="samples an operator (default: 2)")
    parser.add_argument("--jobs", type=int, default=1, help="child processes at a time (default: 1)")
    parser.add_argument("-o", "--output", type=Path, help="outcomes as lines of JSON")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    targets = tuple(asked.target) or TARGETS
    if asked.child:
        for outcome in _run(asked.only, targets, asked.samples):
            print(json.dumps(outcome.to_json()), flush=True)
        return 0
    names = asked.only or operator_names()[:: asked.every]
    outcomes = list(_in_children(names, targets, asked.samples, asked.jobs))
    if asked.output is not None:
        asked.output.write_text("".join(json.dumps(found.to_json()) + "\n" for found in outcomes), encoding="utf-8")
    if not asked.only and asked.every == 1 and targets == TARGETS:
        write_page(outcomes, asked.samples)
    for target in targets:
        counts = Counter(found.kind for found in outcomes if found.target == target)
        print(f"{target}: {', '.join(f'{count} {kind}' for kind, count in sorted(counts.items()))}")
    wrong = [found for found in outcomes if found.kind == "wrong"]
    for found in wrong:
        print(f"{found.target}/{found.sample} (exit {found.exit_code}): {found.reason}")
    return 4 if wrong else 0


def _run(names: Sequence[str], targets: Sequence[str], count: int) -> Iterator[Outcome]:
    warnings.simplefilter("ignore")
    known = read_known_issues()
    for name in names:
        for sample in samples_of(name, count):
            for target in targets:
                yield judge(sample, target, known)


def _in_children(names: Sequence[str], targets: Sequence[str], count: int, jobs: int) -> Iterator[Outcome]:
    """What came of all operators, in their order."""
    parts = [names[at : at + _AT_A_TIME] for at in range(0, len(names), _AT_A_TIME)]
    with ThreadPoolExecutor(jobs) as pool:
        for at, found in enumerate(pool.map(lambda part: list(_in_child(part, targets, count)), parts)):
            yield from found
            print(f"{len(names) - min(len(names), (at + 1) * _AT_A_TIME)} operators left", file=sys.stderr)


def _in_child(names: Sequence[str], targets: Sequence[str], count: int) -> Iterator[Outcome]:
    """What came of some operators in a process of their own, and in another where one of them ended it."""
    left = list(names)
    while left:
        command = [sys.executable, "-m", "benchmarks.operators", "--child", "--samples", str(count)]
        command += [part for name in left for part in ("--only", name)]
        command += [part for target in targets for part in ("--target", target)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_SECONDS_EACH * len(left), check=False
            )
            text, code = done.stdout, done.returncode
        except subprocess.TimeoutExpired as error:
            text, code = error.stdout.decode() if isinstance(error.stdout, bytes) else "", 124
        found = [Outcome(**json.loads(line)) for line in text.splitlines() if line.startswith("{")]
        yield from found
        if code == 0:
            return
        # The operator after the last that was told, or the first of all, ended the process.
        last = found[-1].sample.partition("#")[0] if found else left[0]
        yield from (Outcome(last, target, "wrong", code, "the process ended here") for target in targets)
        left = left[left.index(last) + 1 :]


if __name__ == "__main__":
    sys.exit(main())
