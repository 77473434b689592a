"""The `litert` engine: runs `model.tflite` with LiteRT. Imports no torch, and ai_edge_litert only in `open`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from edgex.errors import RunError, TargetUnavailable, nearest_name
from edgex.runtime.engines.base import Availability
from edgex.runtime.engines.litert.binding import INSTALL_COMMAND
from edgex.runtime.session.runner import EngineSettings
from edgex.runtime.support.entry_points import installed_version
from edgex.runtime.support.versions import is_older

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import Artifact
    from edgex.runtime.session.session import Session

PACKAGE = "ai-edge-litert"


class LiteRtEngine:
    """LiteRT as an engine. It tells no times of operators, so it has no `trace`."""

    def availability(self) -> Availability:
        """Available wherever ai-edge-litert is installed."""
        if self.versions():
            return Availability(True)
        return Availability(False, f"{PACKAGE} is not installed", INSTALL_COMMAND)

    def versions(self) -> Mapping[str, str]:
        """The version of the installed ai-edge-litert."""
        version = installed_version(PACKAGE)
        return {PACKAGE: version} if version else {}

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

        for option in settings.options:
            raise RunError(f"the litert engine has no option {option!r}", why=nearest_name(option, []))
        self._check_version(artifact)
        return Session(artifact, LiteRtRunner(artifact, settings.threads or settings.preferred_threads))

    def preload(self) -> None:
        """Import ai_edge_litert."""
        from edgex.runtime.engines.litert.binding import import_interpreter

        import_interpreter()

    def _check_version(self, artifact: Artifact) -> None:
        availability = self.availability()
        if not availability.available:
            raise TargetUnavailable(str(availability.reason), artifact.path.name, availability.fix)
        installed, needed = self.versions()[PACKAGE], artifact.manifest.requirements.minimum_version
        if needed is not None and is_older(installed, needed):
            raise TargetUnavailable(
                f"{PACKAGE} {installed} is too old for this artifact: it needs {needed} or newer",
                artifact.path.name,
                f"pip install '{PACKAGE}>={needed}'",
            )
