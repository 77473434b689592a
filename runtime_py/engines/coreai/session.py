"""One `model.aimodel` in Core AI's local runtime, and the state that it hands back and forth."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from edgex.errors import ArtifactError, RunError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.artifact.specs import NUMPY_DTYPES
from edgex.runtime.engines.coreai.binding import CoreAiFunction
from edgex.runtime.engines.state_file import read_state
from edgex.runtime.session.runner import LoadSeconds
from edgex.runtime.support.native_stderr import capture_native_stderr

# What the runtime has instead of 64-bit integers.
_NARROW = np.iinfo(np.int32)


class CoreAiRunner:
    """One compiled function. Its first inputs and outputs are the user's, the rest is carried state."""

    planned_arena_bytes: int | None = None
    threads: int | None = None
    executed_on = "coreai: CPU"

    def __init__(self, artifact: Artifact) -> None:
        self._name = artifact.path.name
        folder = artifact.file(".mlirb").parent
        method = artifact.manifest.method
        carried = [spec for spec in method.state if spec.input is not None]
        self._inputs = [*(spec.name for spec in method.inputs), *(str(spec.input) for spec in carried)]
        self._outputs = [*(spec.name for spec in method.outputs), *(str(spec.output) for spec in carried)]
        dtypes = (*(spec.dtype for spec in method.outputs), *(spec.dtype for spec in carried))
        self._dtypes = [NUMPY_DTYPES[dtype] for dtype in dtypes]
        started = time.perf_counter()
        _check_hash(folder, self._name)
        with capture_native_stderr():
            try:
                self._function = CoreAiFunction(folder)
            except (RuntimeError, ValueError, KeyError, OSError) as error:
                raise RunError(
                    f"Core AI cannot load {folder.name}", self._name, "export the model again", why=sentence(error)
                ) from error
        self.load_seconds = LoadSeconds(None, time.perf_counter() - started)
        if set(self._inputs) != set(self._function.inputs) or set(self._outputs) != set(self._function.outputs):
            taken, given = self._function.inputs, self._function.outputs
            self._function.close()
            raise ArtifactError(
                f"{folder.name} does not have the inputs and outputs that the manifest lists",
                self._name,
                "export the model again",
                why=f"it takes {', '.join(taken)} and gives {', '.join(given)}",
            )
        self._user_outputs = len(method.outputs)
        self._initial = read_state(artifact) if carried else []
        self._state: Sequence[np.ndarray] = self._initial

    def execute(self, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """Run once; the outputs are copies, owned by the caller.

        Raises:
            RunError: Core AI refuses, or an integer does not fit into 32 bits.
        """
        given = {
            name: self._narrow(name, array) for name, array in zip(self._inputs, (*inputs, *self._state), strict=True)
        }
        try:
            found = self._function(given)
        except (RuntimeError, ValueError, TypeError) as error:
            raise RunError("Core AI failed to run the model", self._name, why=sentence(error)) from error
        outputs = [
            np.array(found[name], dtype, order="C") for name, dtype in zip(self._outputs, self._dtypes, strict=True)
        ]
        if self._state:
            self._state = outputs[self._user_outputs :]
            del outputs[self._user_outputs :]
        return tuple(outputs)

    def reset(self) -> None:
        """Start the next run from the initial values; no run writes to them."""
        self._state = self._initial

    def close(self) -> None:
        """Give back the function and the state."""
        self._function.close()
        self._state = self._initial = []

    def _narrow(self, name: str, array: np.ndarray) -> np.ndarray:
        if array.dtype != np.int64:
            return array
        if array.size and (array.min() < _NARROW.min or array.max() > _NARROW.max):
            raise RunError(
                f"input {name} holds integers beyond 32 bits, and Core AI has no wider ones",
                self._name,
                "keep them below 2147483648, or export to a target that has them: -t onnx-cpu",
            )
        return array.astype(np.int32)


def _check_hash(folder: Path, name: str) -> None:
    """Core AI does not look at its own hash, and a damaged file ends the process."""
    content = (folder / "main.mlirb").read_bytes()
    kept = folder / "main.hash"
    if not kept.is_file() or hashlib.sha256(content).digest() != kept.read_bytes():
        raise RunError(
            f"Core AI cannot load {folder.name}",
            name,
            "export the model again",
            why="main.mlirb does not fit main.hash",
        )


def sentence(error: BaseException) -> str:
    """The last line of Core AI's message that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
