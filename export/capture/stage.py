"""The pipeline's second stage: the program that all targets start from, or all that keeps it from being captured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from edgex.errors import CaptureError
from edgex.export.target_model import CapturedModel, Progress

if TYPE_CHECKING:
    from edgex.export.source.source import ModelSource
    from edgex.runtime.artifact.specs import Dim


def capture_source(source: ModelSource, dynamic: Mapping[tuple[str, int], Dim], progress: Progress) -> CapturedModel:
    """Capture a model.

    Raises:
        CaptureError: It cannot be captured; the error names everything that is in the way, not only the first.
    """
    from edgex.export.capture.diagnosis.blockers import find_blockers
    from edgex.export.capture.program import capture

    try:
        captured = capture(
            source.module,
            source.args,
            source.kwargs,
            source.dynamic_shapes,
            source_root=source.source_root,
            dynamic=dynamic,
        )
    except CaptureError as error:
        progress("blockers", "what else keeps the model from being captured")
        first, *others = find_blockers(source, error)
        first.others = tuple(others)
        raise
    return CapturedModel(source, captured)
