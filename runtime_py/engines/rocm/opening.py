"""How the onnxruntime engine opens an artifact that was made for an AMD GPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgex.errors import RunError, TargetUnavailable
from edgex.runtime.engines.checks import first_failure
from edgex.runtime.engines.rocm.cache import prepare_cache
from edgex.runtime.engines.rocm.detection import Machine, chosen_library, detect
from edgex.runtime.engines.rocm.options import check_provider_options
from edgex.runtime.engines.rocm.providers import OpenedSession, ProviderChoice, open_cpu, open_on_provider
from edgex.runtime.session.runner import EngineSettings

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import Artifact

# Settings of a session beside those of every onnxruntime session.
SETTINGS = ("allow_fallback", "cache_dir", "cpu_reference", "device_id", "provider_library")
# Key of the manifest's options that marks an artifact for this module.
MARK = "execution_provider"


def is_for_gpu(artifact: Artifact) -> bool:
    """Whether the artifact asks for a GPU provider."""
    return artifact.manifest.options.get(MARK) is not None


class GpuOpening:
    """The choices of one session, checked; call it to open the session."""

    def __init__(self, artifact: Artifact, settings: EngineSettings) -> None:
        given = {key: value for key, value in settings.options.items() if key in SETTINGS}
        self.settings = replace(settings, options={k: v for k, v in settings.options.items() if k not in given})
        self._artifact = artifact
        self._cpu_reference = _flag(given, "cpu_reference")
        options = dict(artifact.manifest.options.get("provider_options", {}))
        if "device_id" in given:
            options["device_id"] = _whole_number(given["device_id"])
        check_provider_options(options)
        cache = given.get("cache_dir")
        self._cache = None if cache is None else Path(str(cache)).absolute()
        named = given.get("provider_library")
        library = chosen_library() if named is None else Path(str(named))
        self._choice = ProviderChoice(library, options, _flag(given, "allow_fallback"))

    def __call__(self, onnxruntime: Any, model: str, options: Any) -> OpenedSession:
        """Open the model.

        Raises:
            TargetUnavailable: A check does not hold here and no fallback is allowed.
            RunError: The provider refuses the model.
        """
        if self._cpu_reference:
            return open_cpu(onnxruntime, model, options, "CPU reference")
        machine = replace(Machine.here(), library=self._choice.library)
        failed = first_failure(detect(machine, run_session=False))
        if failed is not None:
            if self._choice.allow_fallback:
                return open_cpu(onnxruntime, model, options, f"fallback: {failed.detail}")
            raise TargetUnavailable(
                f"no AMD GPU can be used here: {failed.detail}",
                self._artifact.path.name,
                f"{failed.fix}; --allow-fallback runs it on the CPU and says so",
                why=f"check {failed.name!r} does not hold; edgex targets shows all of them",
            )
        return open_on_provider(onnxruntime, model, options, self._with_cache(onnxruntime))

    def _with_cache(self, onnxruntime: Any) -> ProviderChoice:
        if self._cache is None:
            return self._choice
        stamp = {
            "artifact": self._artifact.digest,
            "onnxruntime": str(onnxruntime.__version__),
            "provider": "classic" if self._choice.library is None else self._choice.library.name,
            "device": str(self._choice.options.get("device_id", 0)),
        }
        prepare_cache(self._cache, stamp)
        return replace(self._choice, options={**self._choice.options, "model_cache_dir": str(self._cache)})


def _flag(given: dict[str, Any], name: str) -> bool:
    text = str(given.get(name, False)).lower()
    if text not in ("true", "1", "yes", "false", "0", "no"):
        raise RunError(f"{name}={given[name]} is unknown", why="known: true, false")
    return text in ("true", "1", "yes")


def _whole_number(value: Any) -> int:
    try:
        number = int(str(value))
    except ValueError:
        number = -1
    if number < 0:
        raise RunError(f"device_id={value}: expected a whole number from 0")
    return number
