"""One artifact in a process of its own, timed on demand: `python -m edgex.runtime.measure.compare.worker ARTIFACT …`.

A process for each contestant: engines do not share thread pools, allocators or an OpenMP runtime, each has threads of
its own number, and the one that dies names itself. Requests come as lines of JSON on stdin, answers go as lines of
JSON to stdout; end of input ends it.

```
(start)                                   -> {"fresh": {…}, "sample_seconds": …, …}
{"do": "block", "passes": 5, "lead_in": true}  -> {"seconds": […], "switches": 0}
{"do": "reopen"}                          -> {}
{"do": "run", "inputs": FILE, "outputs": FILE} -> {"refused": {…}}
{"do": "trace"}                           -> {"rows": […], "trace": {…}} or {"reason": "…"}
anything that fails                       -> {"error": {"class": "RunError", "what": …, …}}
```
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import math
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TextIO

import numpy as np

from edgex.errors import EdgexError, RunError
from edgex.runtime.artifact.artifact import CheckLevel
from edgex.runtime.engines.registry import get_engine
from edgex.runtime.engines.trace.tracing import finish_rows, summarize_trace
from edgex.runtime.execute.sampling import (
    WarmUp,
    Workload,
    collector_off,
    count_calls_per_sample,
    split_pass,
    time_passes,
    warm_up,
)
from edgex.runtime.measure.profile.fresh import open_measured
from edgex.runtime.measure.profile.passes import trace_session
from edgex.runtime.session.runner import EngineSettings
from edgex.runtime.session.session import Session

# A session that was opened again: its code is warm, only its own memory is not.
_REWARM_SECONDS, _REWARM_CALLS = 0.02, 3

# ONNX Runtime's idle threads wait busily for some 80 ms after a run, which would slow down whoever comes next.
_REST_STEP_SECONDS, _REST_BUSY_SHARE, _REST_MAX_SECONDS = 0.002, 0.1, 0.3


class Worker:
    """A session, and what is needed to time it."""

    def __init__(self, path: str, settings: EngineSettings, check: CheckLevel, inputs: str) -> None:
        from safetensors.numpy import load_file

        self._settings = settings
        opened = open_measured(path, settings, check)
        self._session = opened.session
        self._artifact = opened.session.artifact
        self._engine = get_engine(self._artifact.manifest.engine)
        # `<step>/<name>`: one step without state, a sequence with it.
        self._steps = list(split_keys(load_file(inputs)).values())
        self._fresh = opened.first_run(self._steps[0])
        self._workload = self._make_workload()
        self._warm: WarmUp = warm_up(self._workload)
        self._calls_per_sample = count_calls_per_sample(self._workload, self._warm.call_seconds)
        self._passes = split_pass(self._workload, self._calls_per_sample)

    def describe(self) -> dict[str, Any]:
        """What the other side must know before it plans."""
        started = time.perf_counter()
        rest()
        resting = time.perf_counter() - started
        self._reopen()
        rest()
        reopening = time.perf_counter() - started - 2 * resting
        runner = self._session.runner
        return {
            "fresh": self._fresh,
            "executed_on": runner.executed_on,
            "assignment": None if self._session.assignment is None else dict(self._session.assignment),
            "threads": runner.threads,
            "planned_arena_bytes": runner.planned_arena_bytes,
            "sample_seconds": self._warm.mean_seconds * self._calls_per_sample,
            "samples_per_pass": len(self._passes),
            "calls_per_sample": self._calls_per_sample,
            "rest_seconds": resting,
            "open_seconds": max(0.0, reopening),
            "warmup_runs": self._warm.calls,
            "warmup_seconds": self._warm.seconds,
            "warmup_settled": self._warm.settled,
        }

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Do what a request asks."""
        if request["do"] == "block":
            return self._time_block(request["passes"], request["lead_in"])
        if request["do"] == "reopen":
            self._reopen()
            rest()
            return {}
        if request["do"] == "trace":
            return self._trace()
        return {"refused": run_cases(self._session, request["inputs"], request["outputs"])}

    def close(self) -> None:
        """Close the session."""
        self._session.close()

    def _time_block(self, passes: int, lead_in: bool) -> dict[str, Any]:
        before = _count_switches()
        with collector_off():
            if lead_in:
                time_passes(self._passes, 1, self._workload.reset, time.perf_counter_ns)
            samples = time_passes(self._passes, passes, self._workload.reset, time.perf_counter_ns)
        switches = _count_switches() - before
        gc.collect(0)
        rest()
        # A tenth of a nanosecond is finer than any clock here.
        return {"seconds": [round(sample, 10) for sample in samples], "switches": switches}

    def _trace(self) -> dict[str, Any]:
        steps = [self._session.prepare(**step) for step in self._steps]
        found, reason = trace_session(self._session, steps, self._warm.call_seconds)
        if found is None:
            return {"reason": reason}
        rows = finish_rows(found, None)
        trace = summarize_trace(found, rows, self._warm.call_seconds * 1e6)
        return {"rows": [row.to_json() for row in rows], "trace": asdict(trace)}

    def _open(self) -> Session:
        session = self._engine.open(self._artifact, self._settings)
        session.settings = self._settings
        return session

    def _reopen(self) -> None:
        # The new one first: opened after, it would be given the very memory that the old one has left.
        old, self._session = self._session, self._open()
        old.close()
        self._workload = self._make_workload()
        calls = max(_REWARM_CALLS, math.ceil(_REWARM_SECONDS / max(self._warm.mean_seconds, 1e-9)))
        warm_up(self._workload, calls if self._warm.mean_seconds < _REWARM_SECONDS else 1)
        self._passes = split_pass(self._workload, self._calls_per_sample)

    def _make_workload(self) -> Workload:
        session = self._session
        prepared = [session.prepare(**step) for step in self._steps]
        calls = tuple(functools.partial(session.run, *arrays) for arrays in prepared)
        return Workload(calls, session.reset if session.state else None)


def rest() -> None:
    """Wait until this process's threads no longer use the processor."""
    started = time.perf_counter()
    while time.perf_counter() - started < _REST_MAX_SECONDS:
        at, used = time.perf_counter(), time.process_time()
        time.sleep(_REST_STEP_SECONDS)
        if time.process_time() - used < _REST_BUSY_SHARE * (time.perf_counter() - at):
            return


def split_keys(tensors: Mapping[str, np.ndarray]) -> dict[str, dict[str, np.ndarray]]:
    """`<first>/<rest>` as nested mappings, the first parts in order of their numbers."""
    found: dict[str, dict[str, np.ndarray]] = {}
    for key, value in tensors.items():
        first, _, rest_of_key = key.partition("/")
        found.setdefault(first, {})[rest_of_key] = value
    return dict(sorted(found.items(), key=lambda item: int(item[0])))


def run_cases(session: Session, inputs: str, outputs: str) -> dict[str, str]:
    """Run sequences of steps, each from reset, and save what comes out.

    Args:
        session: Runs them; it is left reset.
        inputs: A .safetensors with keys `<case>/<step>/<input name>`.
        outputs: A .safetensors to write, with keys `<case>/<step>/<output name>`.

    Returns:
        Case -> the reason why it was refused.
    """
    from safetensors.numpy import load_file, save_file

    results: dict[str, np.ndarray] = {}
    refused: dict[str, str] = {}
    for case, keys in split_keys(load_file(inputs)).items():
        session.reset()
        try:
            for step, values in split_keys(keys).items():
                for spec, array in zip(session.outputs, session.run(**values), strict=True):
                    results[f"{case}/{step}/{spec.name}"] = np.asarray(array, order="C")
        except RunError as error:
            refused[case] = error.what
    session.reset()
    save_file(results, outputs)
    return refused


def describe_error(error: EdgexError) -> dict[str, Any]:
    """An error as an answer, for the other side to raise again."""
    parts = {"what": error.what, "where": error.where, "fix": error.fix, "why": error.why}
    return {"error": {"class": type(error).__name__, **parts}}


def _count_switches() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _serve(worker: Worker, answers: TextIO) -> None:
    for line in sys.stdin:
        print(json.dumps(worker.answer(json.loads(line))), file=answers, flush=True)


def main() -> int:
    """The process."""
    parser = argparse.ArgumentParser(description="Open an artifact and time it on demand.")
    parser.add_argument("artifact")
    parser.add_argument("--inputs", required=True, help="A .safetensors with keys `<step>/<input name>`.")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--check", choices=["hash", "size"], default="hash")
    parser.add_argument("--options", type=json.loads, default={}, help="Engine settings, a JSON object.")
    given = parser.parse_args()
    # Engines may print banners to stdout; those go to stderr, answers alone to where the reader is.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    level: CheckLevel = "size" if given.check == "size" else "hash"
    try:
        worker = Worker(given.artifact, EngineSettings(given.threads, given.options), level, given.inputs)
        try:
            print(json.dumps(worker.describe()), file=answers, flush=True)
            _serve(worker, answers)
        finally:
            worker.close()
    except EdgexError as error:
        print(json.dumps(describe_error(error)), file=answers, flush=True)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
