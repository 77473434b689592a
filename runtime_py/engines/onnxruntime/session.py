"""One `model.onnx` in ONNX Runtime, and the state that it hands back and forth."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from edgex.errors import EdgexError, RunError, TargetUnavailable, nearest_name
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.engines.onnxruntime.external_data import check_external_data
from edgex.runtime.engines.onnxruntime.provider.opening import read_flag
from edgex.runtime.engines.onnxruntime.provider.sessions import OpenedSession
from edgex.runtime.engines.onnxruntime.signature import check_signature
from edgex.runtime.engines.onnxruntime.state_in_place import StateInPlace, keeps_in_place
from edgex.runtime.engines.package import check_options
from edgex.runtime.engines.state_file import read_state
from edgex.runtime.session.runner import EngineSettings, LoadSeconds
from edgex.runtime.support.machine.threads import default_threads
from edgex.runtime.support.native_stderr import capture_native_stderr, stdout_on_stderr

if TYPE_CHECKING:
    from edgex.runtime.artifact.manifest import Method
    from edgex.runtime.engines.onnxruntime.trace import OnnxProfile

PROVIDER = "CPUExecutionProvider"

_OPTIMIZATION_LEVELS = {
    "all": "ORT_ENABLE_ALL",
    "extended": "ORT_ENABLE_EXTENDED",
    "basic": "ORT_ENABLE_BASIC",
    "off": "ORT_DISABLE_ALL",
}
_OPTIONS = ("allow_spinning", "graph_optimization", "memory_arena")


@dataclass(frozen=True)
class OnnxRuntimeChoices:
    """Settings for one session, checked.

    Attributes:
        threads: Threads that one run may use.
        graph_optimization: `all`, `extended`, `basic` or `off`.
        allow_spinning: Idle threads wait busily.
        memory_arena: Keep freed memory for the next run.
    """

    threads: int
    graph_optimization: str = "all"
    allow_spinning: bool = True
    memory_arena: bool = True


def parse_settings(settings: EngineSettings) -> OnnxRuntimeChoices:
    """Check the engine's settings.

    Raises:
        RunError: An option is unknown, or its value is.
    """
    check_options("onnxruntime", settings.options, _OPTIONS)
    level = settings.options.get("graph_optimization", "all")
    if level not in _OPTIMIZATION_LEVELS:
        raise RunError(f"graph_optimization={level} is unknown", why=nearest_name(str(level), _OPTIMIZATION_LEVELS))
    return OnnxRuntimeChoices(
        threads=settings.threads or settings.preferred_threads or default_threads(),
        graph_optimization=str(level),
        allow_spinning=read_flag(settings.options, "allow_spinning", default=True),
        memory_arena=read_flag(settings.options, "memory_arena", default=True),
    )


class OnnxRuntimeRunner:
    """One session. The graph's first inputs and outputs are the user's, the rest is carried state."""

    planned_arena_bytes: int | None = None

    def __init__(
        self,
        artifact: Artifact,
        choices: OnnxRuntimeChoices,
        open_session: Callable[[Any, str, Any], OpenedSession] | None = None,
        *,
        profile: OnnxProfile | None = None,
    ) -> None:
        self._artifact = artifact
        self._choices, self._open_session = choices, open_session
        # Runners of other methods, which end with this one.
        self._others: list[OnnxRuntimeRunner] = []
        path = artifact.file(".onnx")
        check_external_data(artifact, path)
        with capture_native_stderr():
            onnxruntime = import_onnxruntime()
            started = time.perf_counter()
            try:
                options = _session_options(onnxruntime, choices, profile)
                with stdout_on_stderr() if open_session else nullcontext():  # providers print banners
                    opened = open_session(onnxruntime, str(path), options) if open_session else None
                session = (
                    opened.session
                    if opened
                    else onnxruntime.InferenceSession(
                        # Its own retry would print to stdout.
                        str(path),
                        options,
                        [PROVIDER],
                        enable_fallback=False,
                    )
                )
            except EdgexError as error:
                _locate(error, artifact)
                raise
            except Exception as error:  # ONNX Runtime's exception classes have no common public base
                what = f"ONNX Runtime {onnxruntime.__version__} cannot load {path.name}"
                refused = RunError(what, artifact.path.name, "export the model again", why=_sentence(error))
                raise _locate(refused, artifact) from error
        # ONNX Runtime reads the file and prepares its kernels in one call.
        self.load_seconds = LoadSeconds(None, time.perf_counter() - started)
        self.threads: int | None = choices.threads
        self.assignment: Mapping[str, int] | None = opened.nodes if opened else None
        self.simulator = opened.simulator if opened else None
        self.executed_on = opened.executed_on if opened else f"onnxruntime: {', '.join(session.get_providers())}"
        self._run = session.run
        self._end_profiling = session.end_profiling
        self._input_names = [node.name for node in session.get_inputs()]
        self._output_names = [node.name for node in session.get_outputs()]
        carried = [spec for spec in artifact.manifest.method.state if spec.input is not None]
        check_signature(artifact, self._input_names, self._output_names)
        self._user_outputs = len(artifact.manifest.method.outputs)
        self._initial = dict(zip((spec.name for spec in carried), read_state(artifact), strict=True)) if carried else {}
        self._state_names = list(self._initial)
        # What the graph calls each of them.
        self._carried = [(str(spec.input), spec.name) for spec in carried]
        self._changed = [spec.name for spec in carried if spec.output is not None]
        # By name: the methods of an artifact have one such table.
        self._state = dict(self._initial)
        in_place = keeps_in_place(artifact.manifest.method)
        initial = list(self._initial.values())
        self._in_place = StateInPlace(session, artifact.manifest.method, initial) if in_place else None

    def method(self, method: Method) -> OnnxRuntimeRunner:
        """See `edgex.runtime.session.runner.HasMethods`; the methods' files map the same file of weights."""
        other = OnnxRuntimeRunner(self._artifact.select(method.name), self._choices, self._open_session)
        self._others.append(other)
        # What is new to the artifact has its initial value; what it has already written, or will, is the same tensor.
        self._initial |= other._initial
        self._state |= {name: value for name, value in other._state.items() if name not in self._state}
        other._initial, other._state = self._initial, self._state
        return other

    def execute(self, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """Run once.

        ONNX Runtime reads the inputs where they are; the outputs are its own memory, handed over uncopied.
        """
        if self._in_place is not None:
            try:
                return self._in_place.run(inputs)
            except Exception as error:  # see __init__
                raise self._failed(error) from error
        # `check_signature` has compared the names with the manifest's, by which the session has counted the inputs:
        # `strict` would count them again, for 0.13 us.
        feed = dict(zip(self._input_names, inputs))  # noqa: B905
        state = self._state
        for taken, name in self._carried:
            feed[taken] = state[name]
        try:
            outputs = self._run(self._output_names, feed)
        except Exception as error:  # see __init__
            raise self._failed(error) from error
        if self._changed:
            state.update(zip(self._changed, outputs[self._user_outputs :], strict=True))
            del outputs[self._user_outputs :]
        return tuple(outputs)

    def _failed(self, error: Exception) -> EdgexError:
        failed = RunError("ONNX Runtime failed to run the model", self._artifact.path.name, why=_sentence(error))
        return _locate(failed, self._artifact)

    def reset(self) -> None:
        """Start the next run from the initial values; no run writes to them."""
        if self._in_place is not None:
            self._in_place.reset()
        self._state.update(self._initial)

    def read_state(self) -> dict[str, np.ndarray]:
        """Copies of the carried state."""
        if self._in_place is not None:
            return {name: value.copy() for name, value in zip(self._state_names, self._in_place.values, strict=True)}
        return {name: self._state[name].copy() for name in self._state_names}

    def write_state(self, values: Mapping[str, np.ndarray]) -> None:
        """Start the next run from these values."""
        if self._in_place is None:
            self._state.update(values)
        else:
            self._in_place.write([values[name] for name in self._state_names])

    def end_profile(self) -> Path:
        """Write the profile of the runs so far, for a session that was opened with one."""
        return Path(self._end_profiling())

    def close(self) -> None:
        """Drop the session and the state."""
        for other in self._others:
            other.close()
        del self._run, self._end_profiling
        self._in_place = None
        self._state = self._initial = {}


def import_onnxruntime() -> ModuleType:
    """ONNX Runtime, with its telemetry off.

    Raises:
        TargetUnavailable: It does not import.
    """
    # Its Linux and macOS wheels send usage data over HTTPS unless this is set before the library is loaded.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    try:
        import onnxruntime
    except ImportError as error:
        raise TargetUnavailable(
            "onnxruntime is installed but does not import",
            why=str(error),
            fix="pip install --force-reinstall onnxruntime",
        ) from error
    onnxruntime.disable_telemetry_events()
    module: ModuleType = onnxruntime
    return module


def _session_options(onnxruntime: Any, choices: OnnxRuntimeChoices, profile: OnnxProfile | None) -> Any:
    options = onnxruntime.SessionOptions()
    # Its errors come as exceptions; what it would log on top of them is the same text with colours.
    options.log_severity_level = 4
    options.intra_op_num_threads = choices.threads
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = choices.memory_arena
    level = _OPTIMIZATION_LEVELS[choices.graph_optimization]
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    if profile is not None:
        options.enable_profiling = True
        options.profile_file_prefix = str(profile.prefix)
        if profile.graph is not None:
            options.optimized_model_filepath = str(profile.graph)
    options.add_session_config_entry("session.intra_op.allow_spinning", str(int(choices.allow_spinning)))
    return options


def _locate(error: EdgexError, artifact: Artifact) -> EdgexError:
    """See `edgex.runtime.engines.onnxruntime.origin`, which only failures need."""
    from edgex.runtime.engines.onnxruntime.origin import locate

    return locate(error, artifact)


def _sentence(error: BaseException) -> str:
    """ONNX Runtime's message without its error number, the file's place, and C++ files with their signatures."""
    text = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", str(error).strip())
    text = re.sub(r"^Load model from .*? failed: ?", "", text)
    return re.sub(r"\S+\.(?:cc|cpp|h|hpp):\d+ [^()]*\([^()]*(?:\([^()]*\)[^()]*)*\)(?: const)? ?", "", text).strip()
