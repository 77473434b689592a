"""How the onnxruntime engine opens an artifact that was made for an AMD GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgex.runtime.engines.checks import Check
from edgex.runtime.engines.onnxruntime.provider.opening import ProviderOpening, read_whole_number
from edgex.runtime.engines.onnxruntime.provider.sessions import ProviderChoice
from edgex.runtime.engines.rocm.cache import prepare_cache
from edgex.runtime.engines.rocm.detection import Machine, chosen_library, detect
from edgex.runtime.engines.rocm.provider import MIGRAPHX
from edgex.runtime.session.runner import EngineSettings

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import Artifact


class GpuOpening(ProviderOpening):
    """See `ProviderOpening`; its own settings are which GPU, and a folder of compiled models."""

    provider = MIGRAPHX
    device = "AMD GPU"
    own_settings = ("cache_dir", "device_id")

    def __init__(self, artifact: Artifact, settings: EngineSettings) -> None:
        super().__init__(artifact, settings)
        cache = settings.options.get("cache_dir")
        self._cache = None if cache is None else Path(str(cache)).absolute()

    def find_library(self) -> Path | None:
        """See `ProviderOpening`."""
        return chosen_library()

    def look(self, library: Path | None) -> Sequence[Check]:
        """See `ProviderOpening`."""
        return detect(replace(Machine.here(), library=library), run_session=False)

    def read_options(self, options: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """See `ProviderOpening`."""
        return {**options, "device_id": read_whole_number(given, "device_id")} if "device_id" in given else options

    def prepare(self, onnxruntime: Any, choice: ProviderChoice) -> ProviderChoice:
        """See `ProviderOpening`; the folder of compiled models must be this artifact's."""
        if self._cache is None:
            return choice
        stamp = {
            "artifact": self.artifact.digest,
            "onnxruntime": str(onnxruntime.__version__),
            "provider": "classic" if choice.library is None else choice.library.name,
            "device": str(choice.options.get("device_id", 0)),
        }
        prepare_cache(self._cache, stamp)
        return replace(choice, options={**choice.options, "model_cache_dir": str(self._cache)})
