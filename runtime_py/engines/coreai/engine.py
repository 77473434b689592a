"""The `coreai` engine: runs an `.aimodel` with Core AI's local runtime. Imports no torch, and coreai only in `open`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgex.runtime.engines.coreai.binding import INSTALL_COMMAND
from edgex.runtime.engines.package import EnginePackage, PackagedEngine, check_options
from edgex.runtime.session.runner import EngineSettings

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import Artifact
    from edgex.runtime.session.session import Session

PACKAGE = EnginePackage("coreai-core", INSTALL_COMMAND, pre_release=True)


class CoreAiEngine(PackagedEngine):
    """Core AI's local runtime as an engine: CPU only. It tells no times of operators here, so it has no `trace`."""

    package = PACKAGE

    def open(self, artifact: Artifact, settings: EngineSettings) -> Session:
        """Compile and load `model.aimodel`.

        Args:
            artifact: An opened artifact.
            settings: There are no options. The runtime takes no number of threads, and the session's is None.

        Raises:
            TargetUnavailable: coreai-core is not installed, too old for this file, or does not import.
            RunError: An option is given, or Core AI refused the file.
        """
        from edgex.runtime.engines.coreai.session import CoreAiRunner
        from edgex.runtime.session.session import Session

        check_options("coreai", settings.options)
        PACKAGE.check(artifact)
        return Session(artifact, CoreAiRunner(artifact))

    def preload(self) -> None:
        """Import coreai.runtime."""
        from edgex.runtime.engines.coreai.binding import import_runtime

        import_runtime()
