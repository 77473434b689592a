"""The engine `executorch`: runs .pte files with ExecuTorch's C++ runtime.

What the runtime does not do is done here: state gets its initial values back, errors get their cause, the thread pool
stays whole, and outputs are the caller's own.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgex.errors import RunError, TargetUnavailable, nearest_name
from edgex.runtime.engines.base import Availability
from edgex.runtime.engines.executorch.binding import INSTALL_COMMAND
from edgex.runtime.engines.isa import missing_isa, warn_of_clipped_bytes
from edgex.runtime.engines.plugins import load_plugins
from edgex.runtime.session.runner import EngineSettings, LoadSeconds
from edgex.runtime.session.session import Session
from edgex.runtime.support.entry_points import installed_version
from edgex.runtime.support.native_stderr import NativeStderr, PythonStderr
from edgex.runtime.support.process.fork_safety import OPENMP
from edgex.runtime.support.versions import is_older

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import Artifact
    from edgex.runtime.artifact.manifest import Method
    from edgex.runtime.artifact.specs import TensorSpec
    from edgex.runtime.engines.executorch.pte import PteSummary
    from edgex.runtime.engines.plugins import EnginePlugin
    from edgex.runtime.engines.trace.tracing import EngineTrace, TracePlan

PACKAGES = ("executorch", "torch")
OPTIONS = ("trace",)

# XNNPACK's kernels load whole vectors and so read past the end of a tensor, documented as at most 16 bytes. Within the
# last page of the caller's memory that is harmless; past it the process dies. 4096 divides every page size.
_READ_PAST_BYTES = 64
_PAGE_BYTES = 4096

# Up to here copying an array takes less time (at most 0.9 us) than making a second view of its memory (3.4 us).
_SMALL_BYTES = 16384


class ExecuTorchEngine:
    """Opens artifacts whose native file is a .pte.

    Options: `trace` (bool) records an event for each operator, for the profiler; runs get slower.
    """

    def availability(self) -> Availability:
        """Whether executorch and torch are installed; nothing is imported."""
        missing = [package for package in PACKAGES if installed_version(package) is None]
        if missing:
            verb = "is" if len(missing) == 1 else "are"
            return Availability(False, f"{' and '.join(missing)} {verb} not installed", INSTALL_COMMAND)
        return Availability(True)

    def versions(self) -> Mapping[str, str]:
        """Installed versions by distribution name."""
        found = {package: installed_version(package) for package in PACKAGES}
        return {package: version for package, version in found.items() if version is not None}

    def open(self, artifact: Artifact, settings: EngineSettings) -> Session:
        """Load the artifact's .pte.

        Raises:
            TargetUnavailable: executorch, torch or a plug-in is not installed, or the processor lacks instructions.
            RunError: An option is unknown, other sessions fix another thread count, or the runtime refused the file.
            ArtifactError: The file is not a .pte.
        """
        trace = _read_options(settings.options)
        _check_requirements(artifact)
        plugins = load_plugins(artifact.manifest.requirements.plugins, artifact.path.name)
        runner = ExecuTorchRunner(
            artifact.file(".pte"),
            artifact.manifest.method,
            settings.threads,
            preferred_threads=settings.preferred_threads,
            trace=trace,
            plugins=plugins,
        )
        runner.load_companions(artifact.manifest.methods)
        return Session(artifact, runner)

    def preload(self) -> None:
        """Import torch and the runtime's binding."""
        import torch  # noqa: F401

        from edgex.runtime.engines.executorch import binding as executorch_binding

        executorch_binding.operator_names()

    def trace(self, artifact: Artifact, settings: EngineSettings, plan: TracePlan) -> EngineTrace:
        """Operators of traced runs; see `edgex.runtime.engines.trace.tracing.TracingEngine`."""
        from edgex.runtime.engines.executorch.trace.reader import trace_executorch

        traced = EngineSettings(settings.threads, {**settings.options, "trace": True})
        return trace_executorch(artifact, lambda: self.open(artifact, traced), plan)


class ExecuTorchRunner:
    """One loaded .pte; see `edgex.runtime.engines.base.Runner`.

    Attributes:
        executed_on: Backends named in the file, and `portable` where kernels outside them run too.
        threads: Threads of the process-wide pool.
        load_seconds: Program and method; the pool and the import of the binding are not counted.
        planned_arena_bytes: Memory planned for activations and state; weights and backends' own memory are apart.
    """

    def __init__(
        self,
        path: Path,
        method: Method,
        threads: int | None,
        *,
        preferred_threads: int | None = None,
        trace: bool = False,
        plugins: Sequence[EnginePlugin] = (),
    ) -> None:
        from edgex.runtime.engines.executorch.pte import read_pte
        from edgex.runtime.engines.executorch.threads import POOL

        self._path = path
        self._where = path.parent.name
        # Runners of other methods of the program, which end with it.
        self._others: list[ExecuTorchRunner] = []
        # Those with which it has state in common, by entry.
        self._companions: dict[str, ExecuTorchRunner] = {}
        self._methods: tuple[Method, ...] = (method,)
        self._uses_openmp = bool(plugins)
        summary = read_pte(path, method.entry)
        self.executed_on = describe_program(summary)
        self.planned_arena_bytes: int | None = summary.planned_arena_bytes
        self._pool = POOL
        self._stderr = NativeStderr()
        # A run writes to Python's stderr only, and must be cheap; loading may write to the descriptor too.
        self._log = PythonStderr()
        try:
            self.threads: int | None = POOL.join(threads, preferred_threads)
        except BaseException:
            self._stderr.close()
            raise
        try:
            for plugin in plugins:
                plugin.use_threads(self.threads)
            self._load(path, method, summary, trace)
        except BaseException:
            self.close()
            raise

    def method(self, method: Method) -> ExecuTorchRunner:
        """See `edgex.runtime.session.runner.HasMethods`; the methods have the program's weights in common."""
        found = self._companions.get(method.entry)
        if found is None:
            found = self._load_other(method)
            self._others.append(found)
            found.load_companions(self._methods)
        return found

    def _load_other(self, method: Method) -> ExecuTorchRunner:
        from edgex.runtime.engines.executorch.pte import read_pte

        other = copy.copy(self)
        other._others, other._companions = [], {}
        summary = read_pte(self._path, method.entry)
        other.executed_on = describe_program(summary)
        other.planned_arena_bytes = summary.planned_arena_bytes
        other._load_method(method, summary, self.load_seconds.program or 0.0)
        return other

    def load_companions(self, methods: Sequence[Method]) -> None:
        """Load the methods with which this one has state in common, before any of them runs.

        Loading a method writes the initial values of its state: loaded later, it would undo what others have written.

        Raises:
            RunError: One cannot be loaded.
        """
        self._methods = tuple(methods)
        names = set(self._initial_state)
        left = [method for method in methods if method.entry != self._entry]
        while joined := next((method for method in left if names & {spec.name for spec in method.state}), None):
            left = [method for method in left if method.entry != joined.entry]
            names |= {spec.name for spec in joined.state}
            self._companions[joined.entry] = self._load_other(joined)
        for other in self._companions.values():
            other._methods, other._companions = self._methods, {**self._companions, self._entry: self}
        self._others += self._companions.values()

    def _load(self, path: Path, method: Method, summary: PteSummary, trace: bool) -> None:
        from edgex.runtime.engines.executorch import binding as executorch_binding
        from edgex.runtime.engines.executorch.errors import engine_error

        started = time.perf_counter()
        try:
            with self._stderr.capture():
                self._program = executorch_binding.load_program(path, trace)
        except (RuntimeError, MemoryError) as error:
            raise engine_error("load the program", error, self._stderr.tail(), self._where) from error
        self._load_method(method, summary, time.perf_counter() - started)

    def _load_method(self, method: Method, summary: PteSummary, program_seconds: float) -> None:
        import torch

        from edgex.runtime.engines.executorch.errors import engine_error

        loaded = time.perf_counter()
        try:
            with self._stderr.capture():
                self._method = self._program.load_method(method.entry)
        except (RuntimeError, MemoryError) as error:
            failure = engine_error("load the program's method", error, self._stderr.tail(), self._where)
            raise _missing_parts(summary, self._where, failure.why) or failure from error
        self.load_seconds = LoadSeconds(program_seconds, time.perf_counter() - loaded)
        self._entry = method.entry
        self._from_numpy = torch.from_numpy
        # Inputs and outputs that need more than a view. bfloat16 is float32 in NumPy.
        self._unlike_numpy = {i: spec for i, spec in enumerate(method.inputs) if _is_unlike_numpy(spec)}
        self._bfloat16_outputs = [spec.dtype == "bfloat16" for spec in method.outputs]
        self._static_outputs = [spec.is_static and spec.dtype != "bfloat16" for spec in method.outputs]
        # Address and view of each static output, once it was seen.
        self._places: list[tuple[int, np.ndarray] | None] = [None] * len(method.outputs)
        self._initial_state = {state.name: _compact(self._state(state.name)) for state in method.state}

    def execute(self, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """Run once.

        Inputs are not copied, but for the few that end where a page ends; outputs are copied once and belong to the
        caller.
        """
        # A run of a tiny model takes 10 us, and every call and every block here 0.2 to 2 us of that: hence no helpers.
        from_numpy = self._from_numpy
        tensors = []
        for array in inputs:
            tensor = from_numpy(array if array.flags.writeable else _writeable(array))
            if -(tensor.data_ptr() + array.nbytes) % _PAGE_BYTES < _READ_PAST_BYTES:
                tensor = _with_room_behind(tensor)
            tensors.append(tensor)
        if self._unlike_numpy:
            for index, spec in self._unlike_numpy.items():
                tensors[index] = _as_engine_wants(tensors[index], spec)
        log = self._log
        log.begin()
        try:
            outputs = self._method(tensors, clone_outputs=False)
        except (RuntimeError, MemoryError) as error:
            from edgex.runtime.engines.executorch.errors import engine_error

            if self._uses_openmp:
                OPENMP.enter()  # what the backend refused, with what to do instead
            raise engine_error("run the program", error, log.tail(), self._where) from error
        finally:
            log.end()
        places = self._places
        if len(outputs) != len(places):
            raise RunError(
                f"the program returned {len(outputs)} outputs, the manifest names {len(places)}", self._where
            )
        # Outputs lie in the program's own memory, which the next run overwrites: each is copied, once.
        results = []
        for index, output in enumerate(outputs):
            place = places[index]
            if place is not None and place[0] == output.data_ptr():
                results.append(place[1].copy())
            else:
                results.append(self._view(index, output).copy())
        return tuple(results)

    def _view(self, index: int, output: Any) -> np.ndarray:
        """An output as an array over the program's own memory.

        The memory plan gives a static output the same place in every run. Making a view takes 4 us; it is kept.
        """
        if self._bfloat16_outputs[index]:
            output = output.float()
        view: np.ndarray = output.numpy()
        if self._static_outputs[index]:
            self._places[index] = (output.data_ptr(), view)
        return view

    def reset(self) -> None:
        """Write the saved initial values into the state's memory.

        Loading the method once more would not do: it keeps the state, or resets it for every method of the program.
        """
        for name, value in self._initial_state.items():
            state = self._state(name)
            if value.ndim or not state.ndim:
                state.copy_(value)
            else:
                state.fill_(value)

    def read_state(self) -> dict[str, np.ndarray]:
        """Copies of the state's memory; bfloat16 as float32."""
        return {
            name: (state.float() if str(state.dtype) == "torch.bfloat16" else state).numpy().copy()
            for name in self._initial_state
            for state in [self._state(name)]
        }

    def write_state(self, values: Mapping[str, np.ndarray]) -> None:
        """Copy values into the state's memory."""
        for name, value in values.items():
            self._state(name).copy_(self._from_numpy(value))

    def write_trace(self, path: Path) -> None:
        """Write the events recorded since the last call as an ETDump.

        Raises:
            RunError: The session was not opened with the option `trace`, or the file cannot be written.
        """
        from edgex.runtime.engines.executorch.errors import engine_error

        if not self._program.has_etdump():
            raise RunError("no events were recorded", self._where, "open the session with the option trace=True")
        try:
            # The binding writes through whatever fopen returned, also through NULL.
            path.open("wb").close()
            with self._stderr.capture():
                self._program.write_etdump_result_to_file(str(path))
        except OSError as error:
            raise RunError(f"the trace cannot be written to {path.name}", why=error.strerror) from error
        except RuntimeError as error:
            raise engine_error("write the trace", error, self._stderr.tail(), self._where) from error

    def close(self) -> None:
        """Release the program, then the place in the thread pool: in this order."""
        for runner in (*self._others, self):
            runner._places = []
            runner._method = runner._program = None
            runner._initial_state = {}
        self._pool.leave()
        self._stderr.close()

    def _state(self, name: str) -> Any:
        """The tensor of a state buffer; it shares the method's memory."""
        try:
            with self._stderr.capture():
                return self._method.get_attribute(name)
        except RuntimeError as error:
            from edgex.runtime.engines.executorch.errors import engine_error

            raise engine_error(f"find the state {name!r}", error, self._stderr.tail(), self._where) from error


def _is_unlike_numpy(spec: TensorSpec) -> bool:
    smallest = [dim if isinstance(dim, int) else dim.min for dim in spec.shape]
    return spec.dtype == "bfloat16" or 0 in smallest


def _as_engine_wants(tensor: Any, spec: TensorSpec) -> Any:
    """bfloat16 where the program takes it, and empty tensors with the strides that the binding insists on."""
    import torch

    if spec.dtype == "bfloat16":
        tensor = tensor.to(torch.bfloat16)
    # NumPy gives an empty array the strides 0; the binding aborts the process on them.
    return tensor if tensor.numel() else torch.empty(tensor.shape, dtype=tensor.dtype)


def _with_room_behind(tensor: Any) -> Any:
    """A copy after which `_READ_PAST_BYTES` more bytes can be read."""
    import torch

    memory = torch.empty(tensor.nbytes + _READ_PAST_BYTES, dtype=torch.uint8)
    return memory[: tensor.nbytes].view(tensor.dtype).view(tensor.shape).copy_(tensor)


def _compact(state: Any) -> Any:
    """A copy of a state tensor's value: one element where all are equal, as in most caches."""
    if state.numel() > 1:
        first = state.flatten()[0]
        if bool((state == first).all()):
            return first.clone()
    return state.clone()


def _writeable(array: np.ndarray) -> np.ndarray:
    """The same values without the read-only flag.

    torch warns of read-only arrays, because it cannot keep its users from writing; the engine only reads. A small array
    is copied sooner than a second view of its memory is made.
    """
    return array.copy() if array.nbytes <= _SMALL_BYTES else np.asarray(_WriteableAlias(array))


class _WriteableAlias:
    """NumPy makes an array of it that shares the memory of a read-only one, without the flag."""

    def __init__(self, array: np.ndarray) -> None:
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}
        self.owner = array


def describe_program(summary: PteSummary) -> str:
    """Who runs a program: its backends, and `portable` where kernels outside them run too."""
    parts = sorted(set(summary.backends))
    if summary.operators or not parts:
        parts.append("portable")
    return f"executorch: {', '.join(parts)}"


def _missing_parts(summary: PteSummary, where: str, why: str | None) -> RunError | None:
    """The error for a file that names a backend or a kernel which this runtime does not have."""
    from edgex.runtime.engines.executorch import binding as executorch_binding

    backends = sorted(set(summary.backends) - executorch_binding.backend_names())
    if backends:
        return RunError(
            f"the program needs the backend {', '.join(backends)}, which the installed executorch does not have",
            where,
            f"install an executorch that has it; this one has {', '.join(sorted(executorch_binding.backend_names()))}",
            why=why,
        )
    kernels = sorted(set(summary.operators) - executorch_binding.operator_names())
    if kernels:
        return RunError(
            f"the installed executorch has no kernel for {', '.join(kernels)}",
            where,
            "install the executorch that the artifact was made with: edgex inspect ARTIFACT names it",
            why=why,
        )
    return None


def _read_options(options: Mapping[str, Any]) -> bool:
    """The option `trace`.

    Raises:
        RunError: Another option, or a value that is no bool.
    """
    for name, value in options.items():
        if name not in OPTIONS:
            raise RunError(f"the engine executorch has no option {name!r}", why=nearest_name(name, OPTIONS))
        if not isinstance(value, bool):
            raise RunError(f"option {name!r} must be True or False, not {value!r}")
    return bool(options.get("trace", False))


def _check_requirements(artifact: Artifact) -> None:
    """Refuse what cannot run here before the runtime meets it."""
    required = artifact.manifest.requirements
    installed = installed_version("executorch")
    missing = missing_isa(required.isa)
    if artifact.manifest.target == "onednn":
        warn_of_clipped_bytes(artifact, ("int8",))
    if missing:
        raise TargetUnavailable(
            f"the artifact needs a processor with {', '.join(missing)}, which this one lacks",
            artifact.path.name,
            "run it on one that has them, or export the model again with --precision fp32",
        )
    if installed is not None and required.minimum_version and is_older(installed, required.minimum_version):
        raise TargetUnavailable(
            f"the artifact needs executorch {required.minimum_version} or newer; {installed} is installed",
            artifact.path.name,
            f"pip install 'executorch>={required.minimum_version}'",
        )
