"""The `litert` engine: runs `model.tflite` with LiteRT. Imports no torch, and ai_edge_litert only in `open`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgex.runtime.engines.litert.binding import INSTALL_COMMAND
from edgex.runtime.engines.package import EnginePackage, PackagedEngine, check_options
from edgex.runtime.session.runner import EngineSettings

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import Artifact
    from edgex.runtime.session.session import Session

PACKAGE = EnginePackage("ai-edge-litert", INSTALL_COMMAND)


class LiteRtEngine(PackagedEngine):
    """LiteRT as an engine. It tells no times of operators, so it has no `trace`."""

    package = PACKAGE

    def open(self, artifact: Artifact, settings: EngineSettings) -> Session:
        """Load `model.tflite`.

        Args:
            artifact: An opened artifact.
            settings: `threads`: for one run. There are no options.

        Raises:
            TargetUnavailable: ai-edge-litert is not installed, or too old for this file.
            RunError: An option is given, or LiteRT refused the file.
        """
        from edgex.runtime.engines.litert.session import LiteRtRunner
        from edgex.runtime.session.session import Session

        check_options("litert", settings.options)
        PACKAGE.check(artifact)
        return Session(artifact, LiteRtRunner(artifact, settings.threads or settings.preferred_threads))

    def preload(self) -> None:
        """Import ai_edge_litert."""
        from edgex.runtime.engines.litert.binding import import_interpreter

        import_interpreter()
