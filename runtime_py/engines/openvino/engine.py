"""The `openvino` engine: runs `model.onnx` with OpenVINO. Imports no torch, and openvino only in `open`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgex.runtime.engines.base import Setting
from edgex.runtime.engines.isa import warn_of_clipped_bytes
from edgex.runtime.engines.openvino.binding import INSTALL_COMMAND
from edgex.runtime.engines.package import EnginePackage, PackagedEngine
from edgex.runtime.session.runner import EngineSettings

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import Artifact
    from edgex.runtime.engines.trace.tracing import EngineTrace, TracePlan
    from edgex.runtime.session.session import Session

PACKAGE = EnginePackage("openvino", INSTALL_COMMAND)


class OpenVinoEngine(PackagedEngine):
    """OpenVINO as an engine."""

    package = PACKAGE

    def open(self, artifact: Artifact, settings: EngineSettings) -> Session:
        """Load `model.onnx`.

        Args:
            artifact: An opened artifact.
            settings: `threads`: for one run. `options`: `device` = `CPU` (default) | `GPU` | `NPU` | what else
                OpenVINO knows; `inference_precision` = `f32` (default) | `bf16` | `f16`: what a float graph is
                computed in. OpenVINO's own default is bf16 where the processor has it, which no proof has seen;
                `cpu_pinning` = `true` (default: each thread stays on its core) | `false`.

        Raises:
            TargetUnavailable: openvino is not installed, or too old for this file.
            RunError: An option is unknown, or OpenVINO refused the file.
        """
        from edgex.runtime.engines.openvino.session import OpenVinoRunner, parse_settings
        from edgex.runtime.session.session import Session

        choices = parse_settings(settings)
        PACKAGE.check(artifact)
        warn_of_clipped_bytes(artifact, ("int8",))
        return Session(artifact, OpenVinoRunner(artifact, choices))

    def settings_worth_timing(self, threads: int) -> Sequence[Setting]:
        """Threads that the system may move: quicker where other programs keep some of the cores busy."""
        return [("cpu_pinning", False)]

    def preload(self) -> None:
        """Import openvino."""
        from edgex.runtime.engines.openvino.binding import import_openvino

        import_openvino()

    def trace(self, artifact: Artifact, settings: EngineSettings, plan: TracePlan) -> EngineTrace:
        """Operators of runs with counters; see `edgex.runtime.engines.trace.tracing.TracingEngine`."""
        from edgex.runtime.engines.openvino.session import OpenVinoRunner, parse_settings
        from edgex.runtime.engines.openvino.trace import trace_openvino
        from edgex.runtime.session.session import Session

        runner = OpenVinoRunner(artifact, parse_settings(settings), counters=True)
        with Session(artifact, runner) as session:
            return trace_openvino(artifact, session, runner, plan)
