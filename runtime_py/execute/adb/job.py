"""What the app is to do, as files: `job.json` (`edgex.device-job/1`) and one raw little-endian file for each input.

```
job.json   {"format", "run_id", "model": {"sha256", "bytes", "stateful"}, "inputs": [{"name", "dtype"}], "outputs",
            "sequences": [[[shape of each input] for each step] for each sequence],
            "threads", "warmup", "runs", "load_mode", "trace"}
in-S-T-I.bin, out-S-T-O.bin      sequence, step, place of the input or output
```

Names of files follow from their places: the app opens no name that came from outside.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgex.errors import DeviceError, UsageError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.artifact.specs import TensorSpec
from edgex.runtime.execute.request import Arrays, RunRequest

FORMAT = "edgex.device-job/1"
JOB_FILE = "job.json"

# What ExecuTorch's Java classes can make and read.
JAVA_DTYPES = ("float32", "float64", "float16", "int8", "uint8", "int32", "int64")

_MAX_RUNS = 100_000
_MAX_THREADS = 64


def check_artifact(artifact: Artifact, where: str) -> None:
    """Refuse what the app cannot run.

    Raises:
        DeviceError: Another engine runs it, it needs a plug-in, or it has tensors that ExecuTorch's Java classes lack.
    """
    manifest = artifact.manifest
    if manifest.engine != "executorch" or manifest.requirements.plugins:
        needs = ", ".join(manifest.requirements.plugins) or manifest.engine
        raise DeviceError(
            f"{artifact.path.name} cannot run on Android: it needs {needs}",
            where,
            "edgex export MODEL -t xnnpack",
            why="the app runs ExecuTorch programs (.pte) without plug-ins",
        )
    for kind, specs in (("input", manifest.method.inputs), ("output", manifest.method.outputs)):
        for spec in specs:
            if spec.dtype not in JAVA_DTYPES:
                raise DeviceError(
                    f"{artifact.path.name} cannot run on Android: {kind} {spec.name!r} is {spec.dtype}",
                    where,
                    "convert within `forward`, and export again",
                    why=f"ExecuTorch's Java classes have {', '.join(JAVA_DTYPES)}",
                )


def check_request(request: RunRequest) -> None:
    """Refuse numbers that the app refuses.

    Raises:
        UsageError: One is out of bounds.
    """
    bounds = (
        ("--runs", request.runs, _MAX_RUNS),
        ("--warmup", request.warmup, _MAX_RUNS),
        ("--threads", request.threads, _MAX_THREADS),
    )
    for flag, value, most in bounds:
        if value is not None and value > most:
            raise UsageError(f"{flag} {value}: an Android device takes at most {most}")


def write_job(
    folder: Path, artifact: Artifact, request: RunRequest, prepared: Sequence[Sequence[Arrays]], run_id: str
) -> None:
    """Write the job into an existing, empty folder; `prepared` are the request's sequences, checked."""
    method = artifact.manifest.method
    native = artifact.manifest.file(".pte")
    sequences = []
    for at, sequence in enumerate(prepared):
        steps = []
        for number, inputs in enumerate(sequence):
            for place, spec in enumerate(method.inputs):
                (folder / f"in-{at}-{number}-{place}.bin").write_bytes(_bytes_of(inputs[spec.name], spec))
            steps.append([list(inputs[spec.name].shape) for spec in method.inputs])
        sequences.append(steps)
    document = {
        "format": FORMAT,
        "run_id": run_id,
        "model": {"sha256": native.sha256, "bytes": native.bytes, "stateful": bool(method.state)},
        "inputs": [_describe(spec) for spec in method.inputs],
        "outputs": [_describe(spec) for spec in method.outputs],
        "sequences": sequences,
        "threads": request.threads or 0,
        "warmup": request.warmup,
        "runs": request.runs,
        "load_mode": "mmap",
        "trace": request.trace,
    }
    (folder / JOB_FILE).write_text(json.dumps(document) + "\n", encoding="utf-8")


def read_outputs(
    folder: Path, shapes: list[list[list[list[int]]]], artifact: Artifact, where: str
) -> tuple[tuple[Arrays, ...], ...]:
    """Read the outputs that the app wrote.

    Args:
        folder: Holds `out-S-T-O.bin`.
        shapes: `[sequence][step][output]`, from the app's answer.
        artifact: Names and types of the outputs.
        where: The device, for errors.

    Raises:
        DeviceError: A file is missing or has another size.
    """
    specs = artifact.manifest.method.outputs
    found = []
    for at, sequence in enumerate(shapes):
        steps = []
        for number, step in enumerate(sequence):
            outputs = {}
            for place, (spec, shape) in enumerate(zip(specs, step, strict=True)):
                outputs[spec.name] = _read(folder / f"out-{at}-{number}-{place}.bin", spec, shape, where)
            steps.append(outputs)
        found.append(tuple(steps))
    return tuple(found)


def _read(path: Path, spec: TensorSpec, shape: list[int], where: str) -> np.ndarray:
    try:
        values = np.frombuffer(path.read_bytes(), spec.numpy_dtype.newbyteorder("<")).reshape(shape)
    except (OSError, ValueError) as error:
        raise DeviceError(
            f"output {spec.name!r} did not come back whole", where, "run the command again", why=str(error)
        ) from error
    return values.astype(spec.numpy_dtype)


def _bytes_of(array: np.ndarray, spec: TensorSpec) -> bytes:
    return np.ascontiguousarray(array.astype(spec.numpy_dtype.newbyteorder("<"), copy=False)).tobytes()


def _describe(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "dtype": spec.dtype}
