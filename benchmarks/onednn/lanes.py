"""The models of `comparison.py` on a machine of many cores: several at a time, each on cores of its own.

`python -m benchmarks.onednn.lanes RESULT --lanes 0,2 4,6 8,10 12,14 --seconds 1200` writes the page and its raw figures
to the folder RESULT after each batch, bfloat16 first where the processor has it. A batch is a model for each lane; all
contenders of a batch get ready together, then every lane times its own in turns. So all contenders of a row meet the
same neighbours. Name every other core where two are one physical core.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.onednn import comparison
from benchmarks.outcome import describe_machine
from benchmarks.peers.serving import Server, time_in_turns
from benchmarks.publish import publish, read_origin
from edgex.runtime.support.machine.activity import describe_activity, take_snapshot

Cell = tuple[str, str, int]


def main() -> int:
    """Export, then measure until the time is over."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.onednn.lanes", description=__doc__.splitlines()[0])
    parser.add_argument("result", type=Path)
    parser.add_argument("--lanes", nargs="+", required=True, help="Cores of a lane: two numbers with a comma.")
    parser.add_argument("--seconds", type=float, default=3600, help="No batch begins afterwards.")
    parser.add_argument(
        "--precision", choices=list(comparison.FIGURES), action="append", help="Default: all there are."
    )
    given = parser.parse_args()
    lanes = [[int(core) for core in lane.split(",")] for lane in given.lanes]
    given.result.mkdir(parents=True, exist_ok=True)
    ends = time.monotonic() + given.seconds
    comparison.WORK.mkdir(parents=True, exist_ok=True)
    precisions = given.precision or comparison.list_precisions()
    with ThreadPoolExecutor(len(comparison.MODELS)) as pool:
        prepared = list(pool.map(lambda model: _prepare(model, precisions), comparison.MODELS))
    cells = [
        (model, precision, threads)
        for precision in reversed(precisions)
        for threads in comparison.THREADS
        for model, able in zip(comparison.MODELS, prepared, strict=True)
        if able
        if not _file(model, precision, threads).exists()
    ]
    while cells and time.monotonic() < ends:
        batch, cells = cells[: len(lanes)], cells[len(lanes) :]
        _say(f"{', '.join(' '.join(map(str, cell)) for cell in batch)}")
        for cell, entry in zip(batch, _measure(batch, lanes), strict=True):
            if comparison.OWN not in entry["median_seconds"]:
                _say(f"{cell}: our own did not load; see log-lanes.txt")
                continue
            _file(*cell).write_text(json.dumps(entry), encoding="utf-8")
        _write(given.result, len(lanes))
    return 0


def _file(model: str, precision: str, threads: int) -> Path:
    return comparison.WORK / f"{model}-{precision}-{threads}.json"


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _prepare(model: str, precisions: Sequence[str]) -> bool:
    """Artifacts of the model, and what Inductor compiles and finds again in its cache; False where one failed."""
    try:
        comparison.export_artifacts(model, precisions, comparison.WORK)
    except RuntimeError as error:  # the other models are worth their time all the same
        _say(f"{model} is left out: {error}")
        return False
    with (comparison.WORK / f"log-{model}-inductor.txt").open("w") as log:
        for precision in precisions:
            for threads in comparison.THREADS:
                server = comparison.start_contender("inductor", model, precision, threads, comparison.WORK, log)
                server.wait()
                server.close()
    _say(f"{model} is prepared")
    return True


def _measure(batch: Sequence[Cell], lanes: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
    with ExitStack() as stack:
        log = stack.enter_context((comparison.WORK / "log-lanes.txt").open("a"))
        servers: list[list[Server]] = []
        for model, precision, threads in batch:
            servers.append([])
            for name in comparison.list_contenders(precision):
                server = comparison.start_contender(name, model, precision, threads, comparison.WORK, log)
                stack.callback(server.close)
                servers[-1].append(server)
        facts = [{server.name: server.wait() for server in members} for members in servers]
        able = [[s for s in members if facts[number][s.name] is not None] for number, members in enumerate(servers)]
        for number, members in enumerate(able):
            for server in members:
                _pin(server.pid, lanes[number][: batch[number][2]])
        before = take_snapshot()
        with ThreadPoolExecutor(len(batch)) as pool:
            found = list(pool.map(lambda m: time_in_turns(m, comparison.ROUNDS, comparison.SECONDS_EACH), able))
        activity = describe_activity(before, take_snapshot(), os.cpu_count()).to_json()
    return [
        {
            "model": model,
            "precision": precision,
            "threads": threads,
            "sqnr_db": comparison.read_sqnr_db(model, precision, comparison.WORK),
            "prepare_seconds": {name: fact and fact["prepare_seconds"] for name, fact in facts[number].items()},
            "median_seconds": {name: median(median(t) for t in turns) for name, turns in found[number].items()},
            "seconds": {name: [[round(s, 7) for s in t] for t in turns] for name, turns in found[number].items()},
            "activity": activity,
        }
        for number, (model, precision, threads) in enumerate(batch)
    ]


def _pin(pid: int, cores: Sequence[int]) -> None:
    """Bind all threads of a process to the cores, also those that its runtime has bound elsewhere."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), cores)


def _write(folder: Path, lanes: int) -> None:
    results = comparison.read_results(comparison.WORK)
    how = (
        f"Written by `python -m benchmarks.onednn.lanes`: {lanes} models were timed at the same time, each on cores of "
        "its own, which all contenders of its row shared."
    )
    facts = {"schema": comparison.SCHEMA, "machine": describe_machine(), "origin": read_origin(), "how": how}
    document = {**facts, "lanes": lanes, **results}
    publish("onednn-bf16", document, comparison.render(document, "onednn-bf16"), folder)


if __name__ == "__main__":
    sys.exit(main())
