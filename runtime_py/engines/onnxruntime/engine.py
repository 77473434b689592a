"""The `onnxruntime` engine: runs `model.onnx` with ONNX Runtime. Imports no torch, and ONNX Runtime only in `open`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgex.runtime.engines.base import Setting
from edgex.runtime.engines.isa import warn_of_clipped_bytes
from edgex.runtime.engines.package import EnginePackage, PackagedEngine
from edgex.runtime.session.runner import EngineSettings

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import Artifact
    from edgex.runtime.engines.trace.tracing import EngineTrace, TracePlan
    from edgex.runtime.session.session import Session

INSTALL_COMMAND = "pip install 'edgex-toolchain[run-onnx]'"

# Distributions that hold the module `onnxruntime`; only one of them can be installed in an environment.
BUILDS = ("onnxruntime", "onnxruntime-migraphx", "onnxruntime-rocm", "onnxruntime-gpu")
PACKAGE = EnginePackage(BUILDS[0], INSTALL_COMMAND, BUILDS[1:])


class OnnxRuntimeEngine(PackagedEngine):
    """ONNX Runtime as an engine."""

    package = PACKAGE

    def open(self, artifact: Artifact, settings: EngineSettings) -> Session:
        """Load `model.onnx`.

        Args:
            artifact: An opened artifact.
            settings: `threads`: for one run. `options`:
                `graph_optimization` = `all` (default) | `extended` | `basic` | `off`; `allow_spinning` = `true`
                (default: idle threads wait busily, quicker and hotter) | `false`; `memory_arena` = `true`
                (default) | `false`. An artifact for another provider than the CPU's also takes those of its
                `ProviderOpening`.

        Raises:
            TargetUnavailable: onnxruntime is not installed, or too old for this file.
            RunError: An option is unknown, or ONNX Runtime refused the file.
        """
        # Imported here: the session module reads engines' settings, not the other way round, and this module is
        # imported to list targets.
        from edgex.runtime.engines.onnxruntime.openings import choose_opening
        from edgex.runtime.engines.onnxruntime.session import OnnxRuntimeRunner, parse_settings
        from edgex.runtime.session.session import Session

        opening = choose_opening(artifact, settings)
        if opening is None:
            warn_of_clipped_bytes(artifact, ("int8", "int8-dynamic", "8da8w"))
        choices = parse_settings(settings if opening is None else opening.settings)
        PACKAGE.check(artifact)
        runner = OnnxRuntimeRunner(artifact, choices, opening)
        session = Session(artifact, runner)
        session.assignment = runner.assignment
        session.simulator = runner.simulator
        return session

    def settings_worth_timing(self, threads: int) -> Sequence[Setting]:
        """Threads that sleep while they wait, where there are any; memory taken anew; a graph in the plain layout.

        The last rounds differently where a convolution is computed in blocks of channels, and is not kept there.
        """
        waiting = [("allow_spinning", False)] if threads > 1 else []
        return (*waiting, ("memory_arena", False), ("graph_optimization", "extended"))

    def preload(self) -> None:
        """Import onnxruntime."""
        from edgex.runtime.engines.onnxruntime.session import import_onnxruntime

        import_onnxruntime()

    def trace(self, artifact: Artifact, settings: EngineSettings, plan: TracePlan) -> EngineTrace:
        """Operators of profiled runs; see `edgex.runtime.engines.trace.tracing.TracingEngine`."""
        from edgex.runtime.engines.onnxruntime.session import OnnxRuntimeRunner, parse_settings
        from edgex.runtime.engines.onnxruntime.trace import OnnxProfile, trace_onnx
        from edgex.runtime.session.session import Session

        choices = parse_settings(settings)

        def open_profiled(profile: OnnxProfile) -> Session:
            return Session(artifact, OnnxRuntimeRunner(artifact, choices, profile=profile))

        return trace_onnx(artifact, open_profiled, plan)
