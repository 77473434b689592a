"""One package of AOTInductor in torch's loader, and the state that it hands back and forth."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edgex.errors import EdgexError, RunError, TargetUnavailable
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.engines.aoti.binding import CompiledModel
from edgex.runtime.engines.state_file import read_state
from edgex.runtime.engines.torch.arrays import to_numpy, to_tensors, torch_threads
from edgex.runtime.session.runner import LoadSeconds
from edgex.runtime.support.machine.c_library import find_newer
from edgex.runtime.support.native_stderr import capture_native_stderr
from edgex.runtime.support.process.fork_safety import OPENMP

if TYPE_CHECKING:
    import torch


class AotiRunner:
    """One compiled program. Its first inputs and outputs are the user's, the rest is carried state."""

    planned_arena_bytes: int | None = None
    executed_on = "aoti: CPU"

    def __init__(self, artifact: Artifact, package: Path, threads: int) -> None:
        import torch

        OPENMP.enter()
        self._name = artifact.path.name
        self.threads: int | None = threads
        self._threads = threads
        method = artifact.manifest.method
        carried = [spec for spec in method.state if spec.input is not None]
        self._input_dtypes: list[torch.dtype] = [getattr(torch, spec.dtype) for spec in method.inputs]
        self._state_dtypes: list[torch.dtype] = [getattr(torch, spec.dtype) for spec in carried]
        self._user_outputs = len(method.outputs)
        self._outputs = len(method.outputs) + len(carried)
        started = time.perf_counter()
        with capture_native_stderr():
            try:
                self._model = CompiledModel(package)
            except RuntimeError as error:
                raise _refused(package.name, self._name, error) from error
        self.load_seconds = LoadSeconds(None, time.perf_counter() - started)
        self._state_names = [spec.name for spec in carried]
        self._initial = to_tensors(read_state(artifact), self._state_dtypes) if carried else []
        self._state: Sequence[torch.Tensor] = self._initial

    def execute(self, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """Run once, with this session's number of threads; the outputs are copies, owned by the caller.

        Raises:
            RunError: The compiled program fails.
        """
        OPENMP.enter()
        given = [*to_tensors(inputs, self._input_dtypes), *self._state]
        try:
            with torch_threads(self._threads):
                found = self._model(given)
        except RuntimeError as error:
            raise RunError("the compiled program failed", self._name, why=_sentence(error)) from error
        if len(found) != self._outputs:
            raise RunError(
                f"the compiled program gives {len(found)} outputs, the manifest lists {self._outputs}",
                self._name,
                "export the model again",
            )
        if self._state_names:
            self._state = found[self._user_outputs :]
        return tuple(to_numpy(output) for output in found[: self._user_outputs])

    def reset(self) -> None:
        """Start the next run from the initial values; no run writes to them."""
        self._state = self._initial

    def read_state(self) -> dict[str, np.ndarray]:
        """Copies of the carried state."""
        return {name: to_numpy(value) for name, value in zip(self._state_names, self._state, strict=True)}

    def write_state(self, values: Mapping[str, np.ndarray]) -> None:
        """Start the next run from these values."""
        self._state = to_tensors([values[name].copy() for name in self._state_names], self._state_dtypes)

    def close(self) -> None:
        """Unload the library and drop the state."""
        del self._model
        self._state = self._initial = []


def _refused(file: str, name: str, error: RuntimeError) -> EdgexError:
    newer = find_newer(str(error))
    if newer is not None:
        return TargetUnavailable(
            f"the artifact was compiled on a newer Linux than this: it needs {newer}",
            name,
            "export the model on the oldest Linux that it has to run on",
        )
    return RunError(f"torch cannot load {file}", name, "export the model again", why=_sentence(error))


def _sentence(error: RuntimeError) -> str:
    """The first line of torch's message; what follows is a native stack."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
