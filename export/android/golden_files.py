"""The golden data as the app reads it: one raw little-endian file a tensor, since a phone has no safetensors reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgex.errors import ArtifactError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.artifact.golden import Case, read_golden
from edgex.runtime.artifact.specs import TensorSpec
from edgex.runtime.engines.state_file import read_state

# What an app grows by. The first case is always carried.
MAX_BYTES = 16 * 2**20


@dataclass(frozen=True)
class GoldenSelection:
    """The cases that an app replays.

    Attributes:
        cases: Those carried along, the example first.
        left_out: How many others were too large.
    """

    cases: tuple[Case, ...]
    left_out: int


def select_golden(artifact: Artifact) -> GoldenSelection:
    """The cases that compare, each set of values once: memory order is the session's matter, an app has one.

    Those whose indices are judged by what they choose are left out: an app compares numbers.

    Raises:
        ArtifactError: There is nothing to replay.
    """
    comparing = [case for case in read_golden(artifact) if case.kind == "compare" and case.layout == "contiguous"]
    comparing = [case for case in comparing if not case.over_methods]
    if not comparing:
        raise ArtifactError("the artifact holds no golden data to replay", artifact.path.name, "export the model again")
    chosen: list[Case] = []
    total = 0
    for case in comparing:
        size = sum(step.nbytes for step in case.steps)
        if any(step.ranked for step in case.steps):
            continue
        if not chosen or total + size <= MAX_BYTES:
            chosen.append(case)
            total += size
    return GoldenSelection(tuple(chosen), len(comparing) - len(chosen))


def write_golden_files(
    folder: Path, cases: Sequence[Case], inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> list[dict[str, Any]]:
    """Write the values below `folder/golden`.

    Returns:
        The `golden` entry of the app's manifest, with paths relative to `folder`.
    """
    described = []
    for number, case in enumerate(cases):
        steps = []
        for at, step in enumerate(case.steps):
            stem = f"golden/{number:02d}-{at:02d}"
            taken = [(f"{stem}-in{i}.bin", step.inputs[spec.name], spec) for i, spec in enumerate(inputs)]
            given = [(f"{stem}-out{i}.bin", step.outputs[spec.name], spec) for i, spec in enumerate(outputs)]
            steps.append({"inputs": _write(folder, taken), "outputs": _write(folder, given)})
        proof = {"reference": case.reference, "min_sqnr_db": case.min_sqnr_db}
        described.append({"name": case.name, **proof, "steps": steps})
    return described


def write_state_files(folder: Path, artifact: Artifact) -> list[dict[str, Any]]:
    """Write the initial values of state that the engine is handed below `folder/state`; none where its file keeps them.

    Returns:
        The `state` entry of the app's manifest, in the order of the graph's last inputs.

    Raises:
        ArtifactError: The artifact's values cannot be read.
    """
    carried = [spec for spec in artifact.manifest.method.state if spec.input is not None]
    entries = []
    for number, (spec, value) in enumerate(zip(carried, read_state(artifact) if carried else [], strict=True)):
        name = f"state/{number:02d}.bin"
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(value.astype(value.dtype.newbyteorder("<")).tobytes())
        entries.append({"name": spec.input, "dtype": spec.dtype, "shape": list(spec.shape), "file": name})
    return entries


def _write(folder: Path, tensors: Sequence[tuple[str, np.ndarray, TensorSpec]]) -> list[dict[str, Any]]:
    entries = []
    for name, array, spec in tensors:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # Eager answers in float32 also for models of lower precision; the app compares values of the output's own type.
        path.write_bytes(np.ascontiguousarray(array.astype(spec.numpy_dtype)).astype(_little(spec)).tobytes())
        entries.append({"file": name, "shape": list(array.shape)})
    return entries


def _little(spec: TensorSpec) -> np.dtype[Any]:
    return spec.numpy_dtype.newbyteorder("<")
