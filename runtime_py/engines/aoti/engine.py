"""The `aoti` engine: runs `model.pt2`, a package of AOTInductor, with torch's loader. Imports torch only in `open`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from edgex.errors import RunError, TargetUnavailable, nearest_name
from edgex.runtime.engines.aoti.consent import OPTION, require_consent
from edgex.runtime.engines.aoti.machine import check_machine
from edgex.runtime.engines.base import Availability
from edgex.runtime.engines.isa import missing_isa
from edgex.runtime.session.runner import EngineSettings
from edgex.runtime.support.entry_points import installed_version
from edgex.runtime.support.machine.threads import default_threads
from edgex.runtime.support.versions import is_older

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import Artifact
    from edgex.runtime.session.session import Session


class AotiEngine:
    """AOTInductor's compiled programs as an engine. It tells no times of operators, so it has no `trace`."""

    def availability(self) -> Availability:
        """Available on Linux on x86-64 where torch is installed; no compiler is needed to run."""
        if not self.versions():
            return Availability(False, "torch is not installed", "pip install torch")
        return check_machine()

    def preload(self) -> None:
        """Import torch."""
        import torch  # noqa: F401

    def versions(self) -> Mapping[str, str]:
        """The version of torch."""
        found = installed_version("torch")
        return {"torch": found} if found else {}

    def open(self, artifact: Artifact, settings: EngineSettings) -> Session:
        """Load `model.pt2`, which runs code in it: only what was compiled here, or is trusted.

        Args:
            artifact: An opened artifact.
            settings: `threads`: for one run. `options`: `trust_code` = True lets this session run code that was made
                elsewhere; see `edgex.runtime.engines.aoti.consent`.

        Raises:
            TargetUnavailable: torch is missing or too old, or the processor lacks what the code was compiled for.
            RunError: An option is unknown, nobody trusts the code, or torch refused the file.
        """
        from edgex.runtime.engines.aoti.session import AotiRunner
        from edgex.runtime.session.session import Session

        for option in settings.options:
            if option != OPTION:
                raise RunError(f"the aoti engine has no option {option!r}", why=nearest_name(option, [OPTION]))
        self._check_requirements(artifact)
        package = artifact.file(".pt2")
        if settings.options.get(OPTION) is not True:
            require_consent(artifact, package)
        threads = settings.threads or settings.preferred_threads or default_threads()
        return Session(artifact, AotiRunner(artifact, package, threads))

    def _check_requirements(self, artifact: Artifact) -> None:
        availability = self.availability()
        if not availability.available:
            raise TargetUnavailable(str(availability.reason), artifact.path.name, availability.fix)
        required = artifact.manifest.requirements
        missing = missing_isa(required.isa)
        if missing:
            raise TargetUnavailable(
                f"the artifact was compiled for a processor with {', '.join(missing)}, which this one lacks",
                artifact.path.name,
                "run it on one that has them, or export the model again: -t aoti --option isa=avx2",
            )
        installed = self.versions()["torch"]
        if required.minimum_version is not None and is_older(installed, required.minimum_version):
            raise TargetUnavailable(
                f"torch {installed} is too old for this artifact: it was compiled with {required.minimum_version}",
                artifact.path.name,
                f"pip install 'torch>={required.minimum_version}'",
            )
