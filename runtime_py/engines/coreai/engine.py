"""The `coreai` engine: runs an `.aimodel` with Core AI's local runtime. Imports no torch, and coreai only in `open`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from edgex.errors import RunError, TargetUnavailable, nearest_name
from edgex.runtime.engines.base import Availability
from edgex.runtime.engines.coreai.binding import INSTALL_COMMAND
from edgex.runtime.session.runner import EngineSettings
from edgex.runtime.support.entry_points import installed_version
from edgex.runtime.support.versions import is_older

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import Artifact
    from edgex.runtime.session.session import Session

PACKAGE = "coreai-core"


class CoreAiEngine:
    """Core AI's local runtime as an engine: CPU only. It tells no times of operators here, so it has no `trace`."""

    def availability(self) -> Availability:
        """Available wherever coreai-core is installed."""
        if self.versions():
            return Availability(True)
        return Availability(False, f"{PACKAGE} is not installed", INSTALL_COMMAND)

    def versions(self) -> Mapping[str, str]:
        """The version of the installed coreai-core."""
        version = installed_version(PACKAGE)
        return {PACKAGE: version} if version else {}

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

        for option in settings.options:
            raise RunError(f"the coreai engine has no option {option!r}", why=nearest_name(option, []))
        self._check_version(artifact)
        return Session(artifact, CoreAiRunner(artifact))

    def preload(self) -> None:
        """Import coreai.runtime."""
        from edgex.runtime.engines.coreai.binding import import_runtime

        import_runtime()

    def _check_version(self, artifact: Artifact) -> None:
        availability = self.availability()
        if not availability.available:
            raise TargetUnavailable(str(availability.reason), artifact.path.name, availability.fix)
        installed, needed = self.versions()[PACKAGE], artifact.manifest.requirements.minimum_version
        if needed is not None and is_older(installed, needed):
            raise TargetUnavailable(
                f"{PACKAGE} {installed} is too old for this artifact: it needs {needed} or newer",
                artifact.path.name,
                f"pip install --pre '{PACKAGE}>={needed}'",
            )
