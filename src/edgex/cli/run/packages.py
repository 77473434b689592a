"""Which packages open an artifact, and the command that installs them: read off its manifest, installed or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgex.errors import TargetUnavailable
from edgex.runtime.engines.onnxruntime.provider.all import PROVIDERS
from edgex.runtime.engines.onnxruntime.provider.opening import MARK
from edgex.runtime.engines.package import PackagedEngine
from edgex.runtime.engines.registry import get_engine
from edgex.runtime.support.versions import is_older

if TYPE_CHECKING:
    from edgex.runtime.artifact.manifest import Manifest


@dataclass(frozen=True)
class NeededPackages:
    """What must be installed.

    Attributes:
        versions: The oldest version that will do, by the distribution's name; None where any will.
        install_command: What installs them; None where edgex knows none.
    """

    versions: dict[str, str | None]
    install_command: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The `needs` of `edgex.inspect/2`."""
        return {"packages": self.versions, "install": self.install_command}


def find_needed(manifest: Manifest) -> NeededPackages:
    """The packages of an artifact's engine and of its execution provider.

    An engine that is another package's, or that is no package of its own, goes by its name.
    """
    needs = manifest.requirements
    name, command = needs.engine, None
    try:
        engine = get_engine(needs.engine)
    except TargetUnavailable:  # a plug-in that is not installed: what it would be called is not known
        engine = None
    if isinstance(engine, PackagedEngine):
        name, command = engine.package.name, engine.package.install_command
    versions = {name: needs.minimum_version}
    provider = PROVIDERS.get(str(manifest.options.get(MARK)))
    if provider is None:
        return NeededPackages(versions, command)
    for package, oldest in provider.packages.items():
        known = versions.get(package)
        versions[package] = oldest if known is None or is_older(known, oldest) else known
    return NeededPackages(versions, provider.install_fix)
