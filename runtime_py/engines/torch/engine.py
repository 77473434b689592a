"""The `torch` engine: runs `model.pt2` with PyTorch's eager kernels."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from edgex.errors import RunError, TargetUnavailable, nearest_name
from edgex.runtime.engines.base import Availability
from edgex.runtime.engines.torch.arrays import to_numpy, to_tensors, torch_threads
from edgex.runtime.engines.torch.pt2.archive import load_program
from edgex.runtime.engines.torch.quantized_operators import register_quantized_operators
from edgex.runtime.session.runner import EngineSettings, LoadSeconds
from edgex.runtime.support.entry_points import installed_version
from edgex.runtime.support.machine.threads import default_threads
from edgex.runtime.support.process.fork_safety import OPENMP

if TYPE_CHECKING:
    import torch

    from edgex.runtime.artifact.artifact import Artifact
    from edgex.runtime.artifact.manifest import Method
    from edgex.runtime.engines.torch.trace import NodeTimer
    from edgex.runtime.engines.trace.tracing import EngineTrace, TracePlan
    from edgex.runtime.session.session import Session


class TorchEngine:
    """Eager PyTorch as an engine."""

    def availability(self) -> Availability:
        """Available wherever torch is installed."""
        if installed_version("torch"):
            return Availability(True)
        return Availability(False, "torch is not installed", "pip install torch")

    def preload(self) -> None:
        """Import torch."""
        import torch  # noqa: F401

    def versions(self) -> Mapping[str, str]:
        """The version of torch."""
        found = installed_version("torch")
        return {"torch": found} if found else {}

    def open(self, artifact: Artifact, settings: EngineSettings) -> Session:
        """Load `model.pt2`.

        Raises:
            TargetUnavailable: torch is not installed.
            ArtifactError: The file holds what could execute code.
            RunError: torch cannot read the file, or an option is unknown.
        """
        from edgex.runtime.session.session import Session

        availability = self.availability()
        if not availability.available:
            raise TargetUnavailable(str(availability.reason), fix=availability.fix)
        for option in settings.options:
            raise RunError(f"the torch engine has no option {option!r}", why=nearest_name(option, []))
        return Session(artifact, TorchRunner(artifact, settings.threads or settings.preferred_threads))

    def trace(self, artifact: Artifact, settings: EngineSettings, plan: TracePlan) -> EngineTrace:
        """Operators of runs node by node; see `edgex.runtime.engines.trace.tracing.TracingEngine`."""
        from edgex.runtime.engines.torch.trace import trace_torch
        from edgex.runtime.session.session import Session

        runner = TorchRunner(artifact, settings.threads)
        return trace_torch(artifact, lambda: (Session(artifact, runner), runner.time_nodes()), plan)


class TorchRunner:
    """One `.pt2` program, ready to be called."""

    planned_arena_bytes: int | None = None

    def __init__(self, artifact: Artifact, threads: int | None, shared: Mapping[str, Any] | None = None) -> None:
        """Load the program of the method that is meant.

        Args:
            artifact: Has it.
            threads: Of a run; None is the usual number.
            shared: State tensors of other methods by name, which this one keeps as its own.
        """
        import torch

        OPENMP.enter()
        started = time.perf_counter()
        register_quantized_operators(artifact.manifest.quantization)
        program = load_program(artifact.file(".pt2"))
        loaded = time.perf_counter()
        # The Session checks inputs; torch's own guards are source text made of what the file says.
        self._module: torch.nn.Module = program.module(check_guards=False)
        names = {state.name for state in artifact.manifest.method.state}
        initial = {name: buffer.detach().clone() for name, buffer in self._module.named_buffers() if name in names}
        self._call: Callable[..., Any] = self._module
        self.load_seconds = LoadSeconds(loaded - started, time.perf_counter() - loaded)
        self.executed_on = "torch: eager CPU"
        self._threads = threads if threads is not None else default_threads()
        self.threads: int | None = self._threads
        for name in names & (shared or {}).keys():
            owner, _, key = name.rpartition(".")
            setattr(self._module.get_submodule(owner), key, (shared or {})[name])
        self._artifact, self._others = artifact, list[TorchRunner]()
        self._state = {name: buffer for name, buffer in self._module.named_buffers() if name in names}
        # Of all methods: what is loaded later has the tensors of what was there.
        self._shared: dict[str, Any] = {**(shared or {}), **self._state}
        self._initial = initial
        self._input_dtypes = [getattr(torch, spec.dtype) for spec in artifact.manifest.method.inputs]

    def execute(self, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """Run once, with this session's number of threads."""
        import torch

        OPENMP.enter()
        tensors = to_tensors(inputs, self._input_dtypes)
        try:
            with torch_threads(self._threads), torch.no_grad():
                outputs: Any = self._call(*tensors)
        except RuntimeError as error:
            raise RunError("torch failed to run the program", why=str(error)) from error
        return tuple(to_numpy(output) for output in outputs)

    def method(self, method: Method) -> TorchRunner:
        """See `edgex.runtime.session.runner.HasMethods`; each method has its own weights, and state is shared."""
        other = TorchRunner(self._artifact.select(method.name), self._threads, self._shared)
        self._shared |= other._shared
        self._others.append(other)
        return other

    def time_nodes(self) -> NodeTimer:
        """Let a timer make all further runs, node by node."""
        from edgex.runtime.engines.torch.trace import NodeTimer

        self._call = timer = NodeTimer(self._module)
        return timer

    def reset(self) -> None:
        """Copy the initial values back into the program's buffers."""
        import torch

        with torch.no_grad():
            for name, value in self._initial.items():
                self._state[name].copy_(value)

    def read_state(self) -> dict[str, np.ndarray]:
        """Copies of the buffers that runs change."""
        return {name: to_numpy(buffer) for name, buffer in self._state.items()}

    def write_state(self, values: Mapping[str, np.ndarray]) -> None:
        """Copy values into them."""
        import torch

        with torch.no_grad():
            for name, value in values.items():
                self._state[name].copy_(torch.from_numpy(value))

    def close(self) -> None:
        """Drop the program."""
        for other in self._others:
            other.close()
        del self._module, self._call
        self._state, self._initial = {}, {}
