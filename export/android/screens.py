"""What the app shows of inputs and outputs: pictures, classes, boxes; else a card for each tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgex.errors import UsageError
from edgex.export.android.library.generation import GenerationEntry, find_generation
from edgex.export.android.library.text import VOCABULARY_FILE, find_text
from edgex.export.android.options import AppOptions
from edgex.export.android.refusals import check_labels
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.artifact.card import (
    ImageInput,
    fit_image,
    read_image_card,
    read_labels,
    read_output_image_card,
)
from edgex.runtime.artifact.card_detection import DetectionCard, check_detection, read_detection_card
from edgex.runtime.artifact.card_microphone import MicrophoneCard, check_microphone, read_microphone_card
from edgex.runtime.artifact.specs import TensorSpec

_NOTE = (
    "Nothing says what these outputs mean, so they are shown as numbers. A model card with labels, output_image or "
    "detection does: see docs/reference/model-card.md of edgex."
)


@dataclass(frozen=True)
class Screens:
    """How inputs and outputs are shown.

    Attributes:
        image: How a picture becomes an input, or None.
        alone: Whether the model has one input.
        painted: How an output holds a picture, or None.
        labels: Names of the classes; empty where there are none.
        scores: The output with a score for each label, or None.
        detection: How outputs hold boxes, or None.
        text: How text becomes all inputs, as in the app's manifest, or None.
        generation: What a language model takes.
        microphone: The input that is sound, where the app may record it, or None.
        files: Names beside the app's manifest -> their lines: vocabularies and merges.
        note: A sentence for people where nothing says what the outputs of a picture are, or None.
        notices: What was left out, and why.
    """

    image: ImageInput | None
    alone: bool
    painted: ImageInput | None
    labels: tuple[str, ...]
    scores: str | None
    detection: DetectionCard | None
    text: dict[str, Any] | None
    generation: GenerationEntry
    microphone: MicrophoneCard | None
    files: tuple[tuple[str, tuple[str, ...]], ...]
    note: str | None
    notices: tuple[str, ...]

    @property
    def kind(self) -> str:
        """`text`, `classes`, `boxes`, `picture`, or `tensors`: what the outputs are shown as."""
        if self.generation.entry is not None:
            return "text"
        if self.detection is not None:
            return "boxes"
        if self.painted is not None:
            return "picture"
        return "tensors" if self.scores is None else "classes"

    @property
    def asks(self) -> str:
        """`prompt`, `text`, `image`, `sound` or `tensors`: what the screen asks for."""
        if self.generation.entry is not None:
            return "prompt"
        if self.text is not None:
            return "text"
        if self.image is not None and self.alone:
            return "image"
        return "tensors" if self.microphone is None else "sound"

    def describe_detection(self, outputs: Sequence[TensorSpec]) -> dict[str, Any] | None:
        """The `detection` entry of the manifest, in which outputs are places."""
        found = self.detection
        if found is None:
            return None
        places = {spec.name: at for at, spec in enumerate(outputs)}
        return {
            "boxes": places[found.boxes],
            "scores": places[found.scores],
            "classes": None if found.classes is None else places[found.classes],
            "format": found.format,
            "in_pixels": found.units == "pixels",
            "activation": found.activation,
            "background": found.background,
            "min_score": found.min_score,
            "max_overlap": found.max_overlap,
        }


def find_screens(artifact: Artifact, options: AppOptions) -> Screens:
    """What the options and the model card say, checked against inputs and outputs.

    Raises:
        UsageError: Something of it does not fit the model.
    """
    where, method = artifact.path.name, artifact.manifest.method
    card = artifact.manifest.model.get("card", {})
    image = options.image or read_image_card(card, where)
    if image is not None:
        fix = "leave the image input out, and the app shows a tensor card"
        image = fit_image(image, method.inputs, "--image-input" if options.image else where, fix)
    notices = []
    if image is not None and len(method.inputs) > 1:
        notices.append("the model has several inputs, so the app shows tensor cards instead of the image screen")
    painted, detection = read_output_image_card(card, where), read_detection_card(card, where)
    if painted is not None:
        fix = "leave output_image out, and the app shows a tensor card"
        painted = fit_image(painted, method.outputs, where, fix, "output")
    if detection is not None:
        check_detection(detection, method.outputs, where)
        if image is None or len(method.inputs) > 1:
            notices.append("no single picture goes in to find boxes in, so the app shows tensor cards")
            detection = None
    labels, scores, left_out = _find_labels(artifact, options, detection)
    is_known = painted is not None or detection is not None or scores is not None
    note = _NOTE if image is not None and not is_known else None
    microphone = options.microphone or read_microphone_card(card, where)
    if microphone is not None:
        check_microphone(microphone, method.inputs, "--microphone" if options.microphone else where)
    generation = find_generation(artifact)
    text, vocabulary, unlike = find_text(artifact) if generation.entry is None else (None, (), ())
    files = generation.files or (((VOCABULARY_FILE, vocabulary),) if vocabulary else ())
    said = (*left_out, *notices, *unlike, *generation.notices)
    alone = len(method.inputs) == 1
    return Screens(image, alone, painted, labels, scores, detection, text, generation, microphone, files, note, said)


def _find_labels(
    artifact: Artifact, options: AppOptions, detection: DetectionCard | None
) -> tuple[tuple[str, ...], str | None, tuple[str, ...]]:
    """Labels, the output that they name, and notices.

    Given labels must fit; those of a model card that do not are left out, and that is said.
    """
    if options.labels is not None:
        named = check_labels(artifact.manifest, options.labels, "--labels") if detection is None else None
        return options.labels, named, ()
    found = artifact.manifest.model.get("card", {}).get("labels")
    if found is None:
        return (), None, ()
    labels = read_labels({"labels": found})
    if detection is not None:
        return labels, None, ()
    try:
        return labels, check_labels(artifact.manifest, labels, artifact.path.name), ()
    except UsageError as error:
        return (), None, (f"the model card's labels are left out: {error.what}",)
