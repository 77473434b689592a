"""The pipeline's second stage: the program that all targets start from, or all that keeps it from being captured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from edgex.errors import CaptureError
from edgex.export.target_model import CapturedModel, Progress
from edgex.runtime.artifact.card import check_card_labels, fit_image, read_image_card
from edgex.runtime.artifact.card_microphone import check_microphone, read_microphone_card
from edgex.runtime.artifact.specs import Dim

if TYPE_CHECKING:
    from edgex.export.source.source import ModelSource


def capture_source(source: ModelSource, dynamic: Mapping[tuple[str, int], Dim], progress: Progress) -> CapturedModel:
    """Capture a model, every method of it.

    Raises:
        CaptureError: It cannot be captured; the error names everything that is in the way, not only the first.
        UsageError: The model card's picture does not fit the input that it names, or its labels no output.
    """
    from edgex.export.capture.diagnosis.blockers import find_blockers
    from edgex.export.capture.dimensions.chunks import explain_for_llm
    from edgex.export.capture.program import capture
    from edgex.export.methods.state import share_state

    whose = "" if source.method is None else f"method {source.method!r}: "
    try:
        captured = capture(
            source.module,
            source.args,
            source.kwargs,
            source.dynamic_shapes,
            source_root=source.source_root,
            dynamic=dynamic or source.dynamic,
        )
    except CaptureError as error:
        error.what = f"{whose}{error.what}"
        progress("blockers", "what else keeps the model from being captured")
        first, *others = find_blockers(source, error)
        if source.dynamic and not dynamic:  # of a language model: not the user's words
            for one in (first, *others):
                explain_for_llm(one, decoder=source.language is not None)
        first.others = tuple(others)
        raise
    image = read_image_card(source.model_card, source.card_place)
    if image is not None:
        fit_image(image, captured.program.inputs, source.card_place)
    microphone = read_microphone_card(source.model_card, source.card_place)
    if microphone is not None:
        check_microphone(microphone, captured.program.inputs, source.card_place)
    unsure = check_card_labels(source.model_card, captured.program.outputs, source.card_place)
    notices = tuple(f"{whose}{notice}" for notice in (*captured.notices, *([unsure] if unsure else [])))
    model = CapturedModel(source, replace(captured, notices=notices))
    if not source.others:
        return model
    model, *methods = share_state([model, *(capture_source(other, {}, progress) for other in source.others)])
    return replace(model, others=tuple(methods))
