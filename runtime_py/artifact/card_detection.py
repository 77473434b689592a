"""The `detection` entry of a model card: how the outputs of a detector hold its boxes.

```python
model_card = {
    "labels": ["person", "bicycle"],
    "detection": {"boxes": "boxes", "scores": "scores", "classes": "labels", "format": "xyxy", "units": "pixels"},
}
```
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgex.errors import UsageError, nearest_name
from edgex.runtime.artifact.specs import TensorSpec

FORMATS = ("xyxy", "yxyx", "xywh", "cxcywh")
UNITS = ("pixels", "shares")
ACTIVATIONS = ("none", "sigmoid", "softmax")
_FORM = "'detection': {'boxes': 'boxes', 'scores': 'scores', 'format': 'xyxy', 'units': 'pixels'}"
_WHAT = "the model card's `detection` entry"


@dataclass(frozen=True)
class DetectionCard:
    """How boxes are coded.

    Attributes:
        boxes: Name of the output `[N, 4]`, or `[batch, N, 4]`.
        scores: Name of the output `[N]` or `[N, classes]`, with a batch before it or not.
        classes: Name of the output `[N]` that says the class of each box; None where there is a score for each class.
        format: What the four numbers are, one of `FORMATS`; `cxcywh` is centre and size.
        units: `pixels` of the model's input, or `shares` of its width and height.
        activation: What makes a probability of a score, one of `ACTIVATIONS`.
        background: The class that stands for nothing, or None.
        min_score: Boxes below it are not shown.
        max_overlap: Of boxes of one class that overlap by more (intersection over union), only the best stays; None
            where the model has seen to that itself.
    """

    boxes: str
    scores: str
    classes: str | None
    format: str
    units: str
    activation: str
    background: int | None
    min_score: float
    max_overlap: float | None


def read_detection_card(card: Mapping[str, Any], where: str) -> DetectionCard | None:
    """The `detection` entry of a model card; None where there is none.

    Raises:
        UsageError: The entry is not as it must be.
    """
    entry = card.get("detection")
    if entry is None:
        return None
    if not isinstance(entry, Mapping):
        raise UsageError(f"{_WHAT} is of type {type(entry).__name__}", where, _FORM)
    keys = tuple(DetectionCard.__dataclass_fields__)
    for key in entry:
        if key not in keys:
            raise UsageError(f"{_WHAT} has a key {key!r}", where, _FORM, why=nearest_name(str(key), keys))
    for key in ("boxes", "scores"):
        if not isinstance(entry.get(key), str):
            raise UsageError(f"{_WHAT} does not name its {key}", where, _FORM)
    for key, known in (("format", FORMATS), ("units", UNITS)):
        if entry.get(key) not in known:
            raise UsageError(
                f"{_WHAT} has the {key} {entry.get(key)!r}", where, _FORM, why=f"known: {', '.join(known)}"
            )
    activation = entry.get("activation", "none")
    if activation not in ACTIVATIONS:
        raise UsageError(
            f"{_WHAT} has the activation {activation!r}", where, why=nearest_name(str(activation), ACTIVATIONS)
        )
    classes, background = entry.get("classes"), entry.get("background")
    if not (classes is None or isinstance(classes, str)) or not (background is None or type(background) is int):
        raise UsageError(f"{_WHAT}: classes is an output's name, background a number", where, _FORM)
    min_score, max_overlap = entry.get("min_score", 0.5), entry.get("max_overlap")
    for key, value in (("min_score", min_score), ("max_overlap", max_overlap)):
        if value is not None and (type(value) not in (int, float) or not 0 <= value <= 1):
            raise UsageError(f"{_WHAT} has the {key} {value!r}", where, f"'{key}': 0.5")
    return DetectionCard(
        entry["boxes"], entry["scores"], classes, entry["format"], entry["units"], activation, background,
        float(min_score), None if max_overlap is None else float(max_overlap),
    )  # fmt: skip


def check_detection(detection: DetectionCard, outputs: Sequence[TensorSpec], where: str) -> None:
    """The outputs that the card names must be there, and of the right rank.

    Raises:
        UsageError: They are not.
    """
    specs = {spec.name: spec for spec in outputs}
    for name in (detection.boxes, detection.scores, detection.classes):
        if name is not None and name not in specs:
            raise UsageError(f"{_WHAT} names an output {name!r}", where, why=nearest_name(name, specs))
    boxes, scores = specs[detection.boxes], specs[detection.scores]
    if len(boxes.shape) not in (2, 3) or boxes.shape[-1] != 4 or not boxes.dtype.startswith("float"):
        raise UsageError(f"{boxes} holds no boxes", where, why="boxes are floats of shape [N, 4] or [batch, N, 4]")
    if len(scores.shape) not in (len(boxes.shape) - 1, len(boxes.shape)) or not scores.dtype.startswith("float"):
        raise UsageError(f"{scores} holds no scores of {boxes}", where, why="scores are floats, [N] or [N, classes]")
