"""The native runner's part for ONNX artifacts, on the device: the same flags, the same lines, ONNX Runtime.

Runs there with nothing of edgex but the files that `edgex.runtime.execute.linux.python` sends, NumPy and onnxruntime.
"""

from __future__ import annotations

import argparse
import functools
import json
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgex.errors import EdgexError
from edgex.runtime.artifact.artifact import Artifact, hash_file
from edgex.runtime.artifact.manifest import MANIFEST_FILE, parse_manifest
from edgex.runtime.engines.onnxruntime.engine import OnnxRuntimeEngine
from edgex.runtime.execute.sampling import Workload, plan_rounds, sample_rounds, warm_up
from edgex.runtime.execute.tensors import pack_tensors, unpack_tensors
from edgex.runtime.session.runner import EngineSettings
from edgex.runtime.session.session import Session

Steps = list[list[np.ndarray]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as the flags say; the answer goes to stdout."""
    parser = argparse.ArgumentParser(prog=f"python3 -m {__name__}", allow_abbrev=False)
    parser.add_argument("--artifact", type=Path, required=True)
    parser.add_argument("--inputs", type=Path, required=True)
    parser.add_argument("--outputs", type=Path)
    parser.add_argument("--run-id", default="")
    parser.add_argument("--case", action="append", dest="cases", default=[])
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--warmup", default="auto")
    parser.add_argument("--runs", default="0")
    # The native runner needs these; here the manifest says the same.
    for flag in ("--input", "--output", "--state"):
        parser.add_argument(flag, action="append")
    given = parser.parse_args(arguments)
    try:
        _run(given)
    except (OSError, ValueError) as error:
        _say("error", kind="input", what=str(error), code=0)
        return 2
    except EdgexError as error:
        print(error, file=sys.stderr)  # noqa: T201
        _say("error", kind="engine", what=f"run the model: {error.what}", code=0)
        return 6
    return 0


def _run(given: argparse.Namespace) -> None:
    engine = OnnxRuntimeEngine()
    engine.preload()
    _say("start", run_id=given.run_id, seconds=time.process_time(), peak_rss_bytes=_peak())
    manifest = parse_manifest((given.artifact / MANIFEST_FILE).read_text(encoding="utf-8"), given.artifact.name)
    artifact = Artifact(given.artifact, manifest)
    started = time.perf_counter()
    _check(artifact)
    model = manifest.file(".onnx")
    _say("model", sha256=model.sha256, bytes=model.bytes, seconds=time.perf_counter() - started)
    with engine.open(artifact, EngineSettings(given.threads)) as session:
        load = session.runner.load_seconds
        _say(
            "loaded",
            program_seconds=load.program,
            method_seconds=load.method,
            threads=session.threads,
            executed_on=session.executed_on,
            peak_rss_bytes=_peak(),
        )
        sequences = _read_sequences(given, session)
        outputs = _play(session, sequences)
        if given.outputs is not None:
            given.outputs.write_bytes(b"".join(pack_tensors(manifest.method.outputs, one) for one in outputs))
        if given.runs != "0":
            _measure(session, sequences[0], given.warmup, given.runs)
    _say("done", run_id=given.run_id, peak_rss_bytes=_peak())


def _check(artifact: Artifact) -> None:
    for entry in artifact.manifest.files:
        path = artifact.path / entry.path
        if path.is_file() and hash_file(path) != entry.sha256:
            raise ValueError(f"{path} is damaged: its SHA-256 is not the manifest's")


def _read_sequences(given: argparse.Namespace, session: Session) -> list[Steps]:
    sets = iter(unpack_tensors(given.inputs.read_bytes()))
    found = []
    for case in given.cases or ["run:1:"]:
        steps = [next(sets) for _ in range(int(case.split(":")[1]))]
        found.append([session.prepare(**step) for step in steps])
    return found


def _play(session: Session, sequences: Sequence[Steps]) -> list[dict[str, np.ndarray]]:
    outputs = []
    first = True
    for steps in sequences:
        session.reset()
        for arrays in steps:
            started = time.perf_counter()
            results = session.run(*arrays)
            if first:
                _say("first", seconds=time.perf_counter() - started, peak_rss_bytes=_peak())
            first = False
            outputs.append({spec.name: array for spec, array in zip(session.outputs, results, strict=True)})
    return outputs


def _measure(session: Session, steps: Steps, warmup: str, runs: str) -> None:
    kept = steps if session.state else steps[:1]
    calls = tuple(functools.partial(session.run, *arrays) for arrays in kept)
    workload = Workload(calls, session.reset if session.state else None)
    _say("progress", stage="warm up", detail="until the latency settles" if warmup == "auto" else f"{warmup} runs")
    warm = warm_up(workload, None if warmup == "auto" else int(warmup))
    _say("warmup", runs=warm.calls, seconds=warm.seconds, settled=warm.settled)
    plan = plan_rounds(workload, warm, None if runs == "auto" else int(runs))
    _say(
        "plan",
        samples=plan.samples,
        rounds=plan.rounds,
        calls_per_sample=plan.calls_per_sample,
        steps=len(calls),
    )
    taken: list[tuple[float, ...]] = []
    sample_rounds(workload, plan, into=taken, after_round=lambda number: _say("round", seconds=taken[number - 1]))


def _say(event: str, **values: Any) -> None:
    print(json.dumps({"event": event, **values}), flush=True)  # noqa: T201


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    sys.exit(main())
