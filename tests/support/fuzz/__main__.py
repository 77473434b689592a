"""`make fuzz`: many cases, in child processes, until the number or the time is reached.

```
PYTHONPATH=tests/support python -m fuzz --cases 100000 --seconds 3600 --seed 1
PYTHONPATH=tests/support python -m fuzz --seed 1 --only 4711        # one case again, with its traceback
```

Exit code 1 where a case ended in a traceback of ours, executed code of the input, hung, or killed the process.
"""

from __future__ import annotations

import argparse
import collections
import os
import signal
import sys
import time
from pathlib import Path

from fuzz.cases import run_case, subject_of
from fuzz.corpus import export_corpus
from fuzz.subjects import Corpus

CASE_SECONDS = 30


def main() -> int:
    """Run the fuzzer; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m fuzz")
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="Begin with this case, where an earlier run ended.")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="Run this case alone.")
    parser.add_argument("--folder", type=Path, default=Path(".fuzz"))
    given = parser.parse_args()
    corpus = export_corpus(given.folder.resolve())
    if given.only is not None:
        print(subject_of(given.seed, given.only), *run_case(corpus, given.seed, given.only), sep="\n")
        return 0
    end = time.monotonic() + given.seconds
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    failures: dict[str, tuple[int, str]] = {}
    number = given.first
    while number < given.cases and time.monotonic() < end:
        number = run_batch(corpus, given.seed, number, given.cases, end, counts, failures)
    for (subject, outcome), count in sorted(counts.items()):
        print(f"{subject:<10} {outcome:<8} {count:>7}")
    print(f"cases {given.first} to {number}, seed {given.seed}: {len(failures)} kinds of failure")
    for key, (case, said) in failures.items():
        print(f"\n--only {case}: {subject_of(given.seed, case)}: {key}\n{said}")
    return 1 if failures else 0


def run_batch(
    corpus: Corpus,
    seed: int,
    first: int,
    stop: int,
    end: float,
    counts: collections.Counter[tuple[str, str]],
    failures: dict[str, tuple[int, str]],
) -> int:
    """Run cases in one child until it ends; the number of the next case."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _work(corpus, seed, range(first, stop), end, writer)
        os._exit(0)
    os.close(writer)
    current, ended = first, False
    with os.fdopen(reader, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            word, _, rest = line.rstrip("\n").partition(" ")
            if word == "case":
                current, ended = int(rest), False
            elif word in ("ran", "refused", "failed"):
                ended = True
                counts[subject_of(seed, current), word] += 1
                if word == "failed":
                    said = rest.replace("\x1f", "\n")
                    lines_of = [text for text in said.splitlines() if text.strip().startswith("File ")]
                    key = f"{said.strip().splitlines()[-1][:80]} at {lines_of[-1].strip() if lines_of else '?'}"
                    failures.setdefault(key, (current, said))
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        counts[subject_of(seed, current), name] += 1
        failures.setdefault(f"{name} in {subject_of(seed, current)}", (current, "the process was killed"))
        return current + 1
    return current + 1 if ended else max(current, stop)


def _work(corpus: Corpus, seed: int, numbers: range, end: float, writer: int) -> None:
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 2)
    with os.fdopen(writer, "w", encoding="utf-8", errors="replace", buffering=1) as out:
        for number in numbers:
            if time.monotonic() >= end:
                return
            out.write(f"case {number}\n")
            signal.alarm(CASE_SECONDS)
            outcome, said = run_case(corpus, seed, number)
            signal.alarm(0)
            out.write(f"{outcome} {said.replace(chr(10), chr(31))}\n")


if __name__ == "__main__":
    sys.exit(main())
