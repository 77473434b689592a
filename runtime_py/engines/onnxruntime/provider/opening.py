"""How the onnxruntime engine opens an artifact that was made for a provider other than the CPU's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgex.errors import RunError, TargetUnavailable
from edgex.runtime.engines.checks import Check, first_failure
from edgex.runtime.engines.onnxruntime.provider.known import Provider
from edgex.runtime.engines.onnxruntime.provider.sessions import (
    OpenedSession,
    ProviderChoice,
    open_cpu,
    open_on_provider,
)
from edgex.runtime.session.runner import EngineSettings

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import Artifact

# Key of the manifest's options that names the provider.
MARK = "execution_provider"
# Settings of a session on any provider, beside those of every onnxruntime session.
_SETTINGS = ("allow_fallback", "cpu_reference", "provider_library")


class ProviderOpening:
    """The choices of one session, checked; call it to open the session. Each provider has a subclass.

    Attributes:
        provider: Which one.
        device: What its checks look for, for messages: `AMD GPU`.
        own_settings: Names of its settings beside `allow_fallback`, `cpu_reference` and `provider_library`.
        settings: The session's settings without those.
    """

    provider: Provider
    device: str
    own_settings: tuple[str, ...] = ()

    def __init__(self, artifact: Artifact, settings: EngineSettings) -> None:
        known = (*_SETTINGS, *self.own_settings)
        given = {key: value for key, value in settings.options.items() if key in known}
        self.settings = replace(settings, options={k: v for k, v in settings.options.items() if k not in given})
        self.artifact = artifact
        self._cpu_reference = read_flag(given, "cpu_reference")
        options = self.read_options(dict(artifact.manifest.options.get("provider_options", {})), given)
        self.provider.check_options(options)
        named = given.get("provider_library")
        library = self.find_library() if named is None else Path(str(named))
        self._choice = ProviderChoice(self.provider, library, options, read_flag(given, "allow_fallback"))

    def __call__(self, onnxruntime: Any, model: str, options: Any) -> OpenedSession:
        """Open the model.

        Raises:
            TargetUnavailable: A check does not hold here and no fallback is allowed.
            RunError: The provider refuses the model.
        """
        if self._cpu_reference:
            return open_cpu(onnxruntime, model, options, "CPU reference")
        failed = first_failure(self.look(self._choice.library))
        if failed is not None:
            if self._choice.allow_fallback:
                return open_cpu(onnxruntime, model, options, f"fallback: {failed.detail}")
            raise TargetUnavailable(
                f"no {self.device} can be used here: {failed.detail}",
                self.artifact.path.name,
                f"{failed.fix}; --allow-fallback runs it on the CPU and says so",
                why=f"check {failed.name!r} does not hold; edgex targets shows all of them",
            )
        chosen = self.choose_file(model)
        return open_on_provider(onnxruntime, chosen, options, self.prepare(onnxruntime, self._choice))

    def find_library(self) -> Path | None:
        """The plug-in library to use where the settings name none; None for a provider that is built in."""
        raise NotImplementedError

    def look(self, library: Path | None) -> Sequence[Check]:
        """The checks that cost little: no session is tried."""
        raise NotImplementedError

    def read_options(self, options: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """The provider's options: those of the manifest, and what the settings change of them.

        Raises:
            RunError: A setting's value does not fit.
        """
        return options

    def choose_file(self, model: str) -> str:
        """The file that the provider opens: the model, or what it was compiled to."""
        return model

    def prepare(self, onnxruntime: Any, choice: ProviderChoice) -> ProviderChoice:
        """The choice as it is opened here, with what only this machine knows.

        Raises:
            RunError: Something that the provider would use is not what it should be.
        """
        return choice


def read_flag(given: Mapping[str, Any], name: str, *, default: bool = False) -> bool:
    """A setting that is true or false.

    Raises:
        RunError: It is something else.
    """
    value = given.get(name, default)
    flags = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if str(value).lower() not in flags:
        raise RunError(f"{name}={value} is unknown", why="known: true, false")
    return flags[str(value).lower()]


def read_whole_number(given: Mapping[str, Any], name: str) -> int:
    """A setting that is a whole number from 0 on.

    Raises:
        RunError: It is something else.
    """
    try:
        number = int(str(given[name]))
    except ValueError:
        number = -1
    if number < 0:
        raise RunError(f"{name}={given[name]}: expected a whole number from 0 on")
    return number
