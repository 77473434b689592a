"""The pipeline's first stage: the user's model, found, checked, and known to fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from edgex.runtime.support.machine.memory import read_available_bytes

if TYPE_CHECKING:
    from edgex.delegates.base import Delegate
    from edgex.export.settings import ExportSettings
    from edgex.export.source.source import ModelSource


def find_source(
    find: Callable[[], ModelSource], settings: ExportSettings, delegates: Sequence[Delegate]
) -> ModelSource:
    """Find the model; refuse one that memory will not hold, while it is made or right after.

    Raises:
        UsageError: There is no such model, or what is asked does not go with several methods.
        CaptureError: Its weights are no numbers, or not on the CPU.
        ArtifactError: Memory would not hold its export.
    """
    from edgex.export.methods.refusals import check_methods
    from edgex.export.methods.sizes import split_by_size
    from edgex.export.source.memory.check import check_memory, refusing_large_models
    from edgex.export.source.memory.on_disk import WeightsOnDisk
    from edgex.export.source.weights import check_weights

    def find_prepared() -> ModelSource:
        source = find()
        check_methods(source, settings)
        if settings.language is None:
            return split_by_size(source, settings.sizes)
        from edgex.export.language_model.source import prepare_language_model

        source = prepare_language_model(source, settings.language)
        check_methods(source, replace(settings, language=None))
        return source

    disk = WeightsOnDisk()
    refuse = settings.memory_check
    with refusing_large_models(read_available_bytes(), disk, refuse=refuse):
        source = find_prepared()
    check_memory(source.whole, delegates, read_available_bytes, settings.quantize, disk, refuse=refuse)
    check_weights(source.whole)
    if disk.bytes:
        notice = f"memory would not hold this export: {disk.bytes / 1e9:.1f} GB of weights lie on disk meanwhile"
        source = replace(source, notices=(*source.notices, notice))
    return source
