"""The native runner's part for ONNX artifacts, on the device: the same flags, the same lines, ONNX Runtime.

Runs there with nothing of edgex but the files that `edgex.runtime.execute.linux.python` sends, NumPy and onnxruntime.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgex.errors import EdgexError
from edgex.runtime.artifact.artifact import Artifact, hash_file
from edgex.runtime.artifact.manifest import MANIFEST_FILE, parse_manifest
from edgex.runtime.engines.onnxruntime.engine import OnnxRuntimeEngine
from edgex.runtime.execute.running import Steps, make_workload, play_sequences, take_samples
from edgex.runtime.execute.tensors import pack_tensors, unpack_tensors
from edgex.runtime.session.runner import EngineSettings


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as the flags say; the answer goes to stdout."""
    parser = argparse.ArgumentParser(prog=f"python3 -m {__name__}", allow_abbrev=False)
    parser.add_argument("--artifact", type=Path, required=True)
    parser.add_argument("--method")
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
    artifact = Artifact(given.artifact, manifest.select(given.method))
    started = time.perf_counter()
    _check(artifact)
    model = artifact.manifest.file(".onnx")
    _say("model", sha256=model.sha256, bytes=model.bytes, seconds=time.perf_counter() - started)
    with engine.open(artifact, EngineSettings(given.threads)) as session:
        load = session.runner.load_seconds
        _say(
            "loaded",
            program_seconds=load.program,
            method_seconds=load.method,
            threads=session.threads,
            executed_on=session.executed_on,
            simulator=None if session.simulator is None else session.simulator.words,
            peak_rss_bytes=_peak(),
        )
        sequences = _read_sequences(given)
        played = play_sequences(session, sequences, _say)
        for error in played.refused.values():
            raise error
        if played.left_out:
            _say("left_out", sequences=sorted(played.left_out), reason=next(iter(played.left_out.values())))
        _say("first", seconds=played.first_seconds, peak_rss_bytes=played.first_peak_bytes)
        if given.outputs is not None:
            steps = [step for sequence in played.outputs for step in sequence]
            given.outputs.write_bytes(b"".join(pack_tensors(artifact.manifest.method.outputs, one) for one in steps))
        if given.runs != "0":
            counts = (
                (None if given.warmup == "auto" else int(given.warmup)),
                (None if given.runs == "auto" else int(given.runs)),
            )
            take_samples(make_workload(session, sequences[0]), *counts, _say)
    _say("done", run_id=given.run_id, peak_rss_bytes=_peak())


def _check(artifact: Artifact) -> None:
    for entry in artifact.manifest.files:
        path = artifact.path / entry.path
        if path.is_file() and hash_file(path) != entry.sha256:
            raise ValueError(f"{path} is damaged: its SHA-256 is not the manifest's")


def _read_sequences(given: argparse.Namespace) -> list[Steps]:
    sets = iter(unpack_tensors(given.inputs.read_bytes()))
    found: list[Steps] = []
    for case in given.cases or ["run:1:"]:
        found.append([next(sets) for _ in range(int(case.split(":")[1]))])
    return found


def _say(event: str, **values: Any) -> None:
    print(json.dumps({"event": event, **values}), flush=True)  # noqa: T201


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    sys.exit(main())
