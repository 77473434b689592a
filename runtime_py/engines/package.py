"""The Python package that an engine needs: whether it is there, which version, and whether that suits an artifact."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgex.errors import RunError, TargetUnavailable, nearest_name
from edgex.runtime.engines.base import Availability
from edgex.runtime.support.entry_points import installed_version
from edgex.runtime.support.versions import is_older

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import Artifact


@dataclass(frozen=True)
class EnginePackage:
    """What pip installs for an engine.

    Attributes:
        name: The distribution that messages name, and that is upgraded.
        install_command: What installs it.
        builds: Other distributions that hold the same module; only one of them can be installed.
        pre_release: Whether pip must be told that releases before the first one will do.
    """

    name: str
    install_command: str
    builds: tuple[str, ...] = ()
    pre_release: bool = False

    def availability(self) -> Availability:
        """Whether it is installed; nothing is imported."""
        if self.versions():
            return Availability(True)
        return Availability(False, f"{self.name} is not installed", self.install_command)

    def versions(self) -> Mapping[str, str]:
        """The installed version, by its distribution's name; empty where there is none."""
        versions = {name: installed_version(name) for name in (self.name, *self.builds)}
        return {name: version for name, version in versions.items() if version}

    def check(self, artifact: Artifact) -> None:
        """Refuse an artifact that the installed version cannot run.

        Raises:
            TargetUnavailable: The package is not installed, or older than the artifact needs.
        """
        availability = self.availability()
        if not availability.available:
            raise TargetUnavailable(str(availability.reason), artifact.path.name, availability.fix)
        installed, needed = next(iter(self.versions().values())), artifact.manifest.requirements.minimum_version
        if needed is not None and is_older(installed, needed):
            raise TargetUnavailable(
                f"{self.name} {installed} is too old for this artifact: it needs {needed} or newer",
                artifact.path.name,
                f"pip install {'--pre ' if self.pre_release else ''}'{self.name}>={needed}'",
            )


class PackagedEngine:
    """What engines have in common that are one package of pip's.

    Attributes:
        package: It.
    """

    package: EnginePackage

    def availability(self) -> Availability:
        """Available wherever the package is installed."""
        return self.package.availability()

    def versions(self) -> Mapping[str, str]:
        """The version of the installed package, by its distribution's name."""
        return self.package.versions()


def check_options(engine: str, options: Mapping[str, Any], known: Iterable[str] = ()) -> None:
    """Refuse options that an engine does not know.

    Raises:
        RunError: There is one; the nearest known name is suggested.
    """
    names = tuple(known)
    for option in options:
        if option not in names:
            raise RunError(f"the {engine} engine has no option {option!r}", why=nearest_name(option, names))
