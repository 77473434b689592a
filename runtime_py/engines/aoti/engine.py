"""The `aoti` engine: runs `model.pt2`, a package of AOTInductor, with torch's loader. Imports torch only in `open`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from edgex.errors import TargetUnavailable
from edgex.runtime.engines.aoti.consent import OPTION, require_consent
from edgex.runtime.engines.aoti.machine import check_machine
from edgex.runtime.engines.base import Availability
from edgex.runtime.engines.isa import missing_isa
from edgex.runtime.engines.package import EnginePackage, check_options
from edgex.runtime.session.runner import EngineSettings
from edgex.runtime.support.machine.threads import default_threads

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import Artifact
    from edgex.runtime.session.session import Session

PACKAGE = EnginePackage("torch", "pip install torch")


class AotiEngine:
    """AOTInductor's compiled programs as an engine. It tells no times of operators, so it has no `trace`."""

    def availability(self) -> Availability:
        """Available on Linux on x86-64 where torch is installed; no compiler is needed to run."""
        found = PACKAGE.availability()
        return check_machine() if found.available else found

    def preload(self) -> None:
        """Import torch."""
        import torch  # noqa: F401

    def versions(self) -> Mapping[str, str]:
        """The version of torch."""
        return PACKAGE.versions()

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

        check_options("aoti", settings.options, [OPTION])
        self._check_requirements(artifact)
        package = artifact.file(".pt2")
        if settings.options.get(OPTION) is not True:
            require_consent(artifact, package)
        threads = settings.threads or settings.preferred_threads or default_threads()
        return Session(artifact, AotiRunner(artifact, package, threads))

    def _check_requirements(self, artifact: Artifact) -> None:
        PACKAGE.check(artifact)
        machine = check_machine()
        if not machine.available:
            raise TargetUnavailable(str(machine.reason), artifact.path.name, machine.fix)
        missing = missing_isa(artifact.manifest.requirements.isa)
        if missing:
            raise TargetUnavailable(
                f"the artifact was compiled for a processor with {', '.join(missing)}, which this one lacks",
                artifact.path.name,
                "run it on one that has them, or export the model again: -t aoti --option isa=avx2",
            )
