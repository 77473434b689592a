"""One `model.tflite` in LiteRT, and the state that it hands back and forth."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgex.errors import ArtifactError, RunError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.artifact.manifest import Method
from edgex.runtime.engines.litert.binding import DELEGATE_OPERATOR, Subgraph, list_operators, open_interpreter
from edgex.runtime.engines.state_file import read_state
from edgex.runtime.session.runner import LoadSeconds
from edgex.runtime.support.machine.threads import default_threads
from edgex.runtime.support.native_stderr import capture_native_stderr

# A `.tflite` file begins with an offset and these letters; LiteRT itself does not look before it follows offsets.
_MAGIC = b"TFL3"
_NOTHING_SAID = "Registration failed."


class LiteRtRunner:
    """One signature of an interpreter. Its first inputs and outputs are the user's, the rest is carried state."""

    planned_arena_bytes: int | None = None

    def __init__(self, artifact: Artifact, threads: int | None, interpreter: Any = None) -> None:
        """Load it.

        Args:
            artifact: Its manifest says which method is meant.
            threads: For one run.
            interpreter: Of the same artifact, which has loaded the file already; None loads it.
        """
        self._artifact, self._name = artifact, artifact.path.name
        path = artifact.file(".tflite")
        _check_magic(path, self._name)
        self.threads: int | None = threads or default_threads()
        with capture_native_stderr() as captured:
            try:
                started = time.perf_counter()
                self._interpreter = interpreter or open_interpreter(path, self.threads)
                read = time.perf_counter()
                self._subgraph = Subgraph(self._interpreter, artifact.manifest.method.entry)
            except (ValueError, RuntimeError) as error:
                told = str(error) or captured.tail() or ""
                raise RunError(
                    f"LiteRT cannot load {path.name}", self._name, "export the model again", why=sentence(told)
                ) from error
        self.load_seconds = LoadSeconds(read - started, time.perf_counter() - read)
        regions = list_operators(self._interpreter).count(DELEGATE_OPERATOR)
        self.executed_on = "litert: XNNPACK" if regions else "litert: built-in kernels"
        self._bind(artifact, self._subgraph.inputs, self._subgraph.outputs)

    def method(self, method: Method) -> LiteRtRunner:
        """See `edgex.runtime.session.runner.HasMethods`: another signature of the loaded file."""
        return LiteRtRunner(self._artifact.select(method.name), self.threads, self._interpreter)

    def _bind(self, artifact: Artifact, inputs: dict[str, int], outputs: dict[str, int]) -> None:
        """Tensor numbers in the manifest's order: inputs by name, outputs by place."""
        method = artifact.manifest.method
        carried = [spec for spec in method.state if spec.input is not None]
        wanted = [*(spec.name for spec in method.inputs), *(str(spec.input) for spec in carried)]
        made = [f"output_{place}" for place in range(len(method.outputs) + len(carried))]
        if set(wanted) != set(inputs) or set(made) != set(outputs):
            raise ArtifactError(
                "model.tflite does not have the inputs and outputs that the manifest lists",
                self._name,
                "export the model again",
                why=f"it takes {', '.join(inputs)} and gives {', '.join(outputs)}",
            )
        self._inputs = [inputs[name] for name in wanted]
        self._outputs = [outputs[name] for name in made]
        self._user_outputs = len(method.outputs)
        self._initial = read_state(artifact) if carried else []
        self._state: Sequence[np.ndarray] = self._initial

    def execute(self, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """Run once. LiteRT copies the inputs; the outputs are copies, owned by the caller."""
        try:
            # Both have as many: checked when it was loaded, and by the Session.
            outputs = self._subgraph.run(list(zip(self._inputs, (*inputs, *self._state))), self._outputs)  # noqa: B905
        except (ValueError, RuntimeError) as error:
            raise RunError("LiteRT failed to run the model", self._name, why=sentence(str(error))) from error
        if self._state:
            self._state = outputs[self._user_outputs :]
            del outputs[self._user_outputs :]
        return tuple(outputs)

    def reset(self) -> None:
        """Start the next run from the initial values; no run writes to them."""
        self._state = self._initial

    def close(self) -> None:
        """Drop the interpreter and the state."""
        del self._subgraph, self._interpreter
        self._state = self._initial = []


def sentence(message: str) -> str:
    """The last line of LiteRT's message that says something: what it ends with is often only that it failed."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    said = [line for line in lines if line != _NOTHING_SAID]
    return (said or lines or ["LiteRT gives no reason"])[-1]


def _check_magic(path: Path, name: str) -> None:
    with path.open("rb") as file:
        head = file.read(8)
    if head[4:] != _MAGIC:
        raise RunError(f"LiteRT cannot load {path.name}", name, "export the model again", why="it is no .tflite file")
