"""One `model.onnx` in OpenVINO, and the state that it hands back and forth."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgex.errors import RunError, nearest_name
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.artifact.specs import NUMPY_DTYPES
from edgex.runtime.engines.onnxruntime.external_data import check_external_data
from edgex.runtime.engines.onnxruntime.provider.opening import read_flag
from edgex.runtime.engines.onnxruntime.signature import check_signature
from edgex.runtime.engines.openvino.binding import import_openvino, sentence
from edgex.runtime.engines.package import check_options
from edgex.runtime.engines.state_file import read_state
from edgex.runtime.session.runner import EngineSettings, LoadSeconds
from edgex.runtime.support.machine.threads import default_threads
from edgex.runtime.support.native_stderr import capture_native_stderr

_PRECISIONS = ("f32", "bf16", "f16")
_OPTIONS = ("cpu_pinning", "device", "inference_precision")


@dataclass(frozen=True)
class OpenVinoChoices:
    """Settings for one session, checked.

    Attributes:
        threads: Threads that one run may use; devices other than the CPU have their own.
        device: OpenVINO's name of the device.
        precision: What a float graph is computed in.
        pinning: Each thread of the CPU stays on its core.
    """

    threads: int
    device: str = "CPU"
    precision: str = "f32"
    pinning: bool = True


def parse_settings(settings: EngineSettings) -> OpenVinoChoices:
    """Check the engine's settings.

    Raises:
        RunError: An option is unknown, or its value is.
    """
    check_options("openvino", settings.options, _OPTIONS)
    precision = str(settings.options.get("inference_precision", "f32"))
    if precision not in _PRECISIONS:
        raise RunError(f"inference_precision={precision} is unknown", why=nearest_name(precision, _PRECISIONS))
    threads = settings.threads or settings.preferred_threads or default_threads()
    pinning = read_flag(settings.options, "cpu_pinning", default=True)
    return OpenVinoChoices(threads, str(settings.options.get("device", "CPU")), precision, pinning)


class OpenVinoRunner:
    """One compiled model. The graph's first inputs and outputs are the user's, the rest is carried state."""

    planned_arena_bytes: int | None = None

    def __init__(self, artifact: Artifact, choices: OpenVinoChoices, *, counters: bool = False) -> None:
        self._name = artifact.path.name
        path = artifact.file(".onnx")
        check_external_data(artifact, path)
        with capture_native_stderr():
            openvino = import_openvino()
            core = openvino.Core()
            if choices.device.partition(":")[0].partition(".")[0] not in {*core.available_devices, "AUTO"}:
                here = ", ".join(core.available_devices) or "none"
                raise RunError(f"OpenVINO finds no device {choices.device} here", self._name, why=f"there are: {here}")
            try:
                started = time.perf_counter()
                model = core.read_model(str(path))
                read = time.perf_counter()
                compiled = core.compile_model(model, choices.device, _properties(choices, counters))
                self._request = compiled.create_infer_request()
            except Exception as error:  # OpenVINO's errors are RuntimeErrors of no common kind
                raise RunError(
                    f"OpenVINO {openvino.__version__} cannot load {path.name}",
                    self._name,
                    "export the model again",
                    why=sentence(error),
                ) from error
        self.load_seconds = LoadSeconds(read - started, time.perf_counter() - read)
        self.compiled = compiled
        self.threads: int | None = choices.threads if choices.device == "CPU" else None
        devices = ", ".join(compiled.get_property("EXECUTION_DEVICES"))
        self.executed_on = f"openvino: {devices}" + ("" if choices.precision == "f32" else f" in {choices.precision}")
        method = artifact.manifest.method
        outputs = [port.get_any_name() for port in model.outputs]
        check_signature(artifact, [port.get_any_name() for port in model.inputs], outputs)
        carried = [spec for spec in method.state if spec.input is not None]
        # It widens some integers and booleans; the manifest says what was promised.
        dtypes = (*(spec.dtype for spec in method.outputs), *(spec.dtype for spec in carried))
        self._dtypes = [NUMPY_DTYPES[dtype] for dtype in dtypes]
        self._user_outputs = len(method.outputs)
        self._initial = read_state(artifact) if carried else []
        self._state_names = [spec.name for spec in carried]
        self._state: Sequence[np.ndarray] = self._initial

    @property
    def counters(self) -> Sequence[Any]:
        """What each node of the last run took, for a session that was opened with counters."""
        found: Sequence[Any] = self._request.profiling_info
        return found

    def execute(self, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """Run once. OpenVINO reads the inputs where they are; the outputs are copies, owned by the caller."""
        try:
            found = self._request.infer([*inputs, *self._state], share_inputs=True)
        except Exception as error:  # see __init__
            raise RunError("OpenVINO failed to run the model", self._name, why=sentence(error)) from error
        outputs = [
            np.ascontiguousarray(found[index], dtype) if found[index].ndim else np.asarray(found[index], dtype)
            for index, dtype in enumerate(self._dtypes)
        ]
        if self._state:
            self._state = outputs[self._user_outputs :]
            del outputs[self._user_outputs :]
        return tuple(outputs)

    def reset(self) -> None:
        """Start the next run from the initial values; no run writes to them."""
        self._state = self._initial

    def read_state(self) -> dict[str, np.ndarray]:
        """Copies of the carried state."""
        return {name: value.copy() for name, value in zip(self._state_names, self._state, strict=True)}

    def write_state(self, values: Mapping[str, np.ndarray]) -> None:
        """Start the next run from these values."""
        self._state = [values[name] for name in self._state_names]

    def close(self) -> None:
        """Drop the model and the state."""
        del self._request, self.compiled
        self._state = self._initial = []


def _properties(choices: OpenVinoChoices, counters: bool) -> dict[str, Any]:
    properties: dict[str, Any] = {"PERFORMANCE_HINT": "LATENCY", "PERF_COUNT": counters}
    if choices.device == "CPU":
        properties["INFERENCE_NUM_THREADS"] = choices.threads
        if not choices.pinning:  # its own default is to pin, where the system lets it
            properties["ENABLE_CPU_PINNING"] = False
    if choices.device in ("CPU", "GPU"):
        properties["INFERENCE_PRECISION_HINT"] = choices.precision
    return properties
