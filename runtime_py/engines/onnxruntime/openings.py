"""Who opens an artifact: the CPU provider, or the provider that its manifest names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgex.errors import TargetUnavailable, nearest_name
from edgex.runtime.engines.onnxruntime.provider.opening import MARK, ProviderOpening
from edgex.runtime.session.runner import EngineSettings

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import Artifact


def choose_opening(artifact: Artifact, settings: EngineSettings) -> ProviderOpening | None:
    """How an artifact is opened; None for one of the CPU provider.

    Raises:
        TargetUnavailable: This edgex does not know the provider.
        RunError: A setting does not fit.
    """
    name = artifact.manifest.options.get(MARK)
    if name is None:
        return None
    # Most artifacts are the CPU provider's, and need none of this.
    from edgex.runtime.engines.qnn.opening import HtpOpening
    from edgex.runtime.engines.rocm.opening import GpuOpening

    openings: dict[str, type[ProviderOpening]] = {found.provider.name: found for found in (GpuOpening, HtpOpening)}
    if name not in openings:
        raise TargetUnavailable(
            f"this edgex knows no execution provider {name!r}",
            artifact.path.name,
            f"install the edgex that wrote it ({artifact.manifest.producer.get('edgex', 'another version')})",
            why=nearest_name(str(name), openings),
        )
    return openings[name](artifact, settings)
