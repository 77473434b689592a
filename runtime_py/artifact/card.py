"""The model card: what a model's file says of its labels and of how pictures become its input.

```python
model_card = {
    "labels": ["cat", "dog"],
    "image": {"input": "x", "layout": "NCHW", "color": "RGB", "mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25]},
    "description": "Tells cats from dogs.",
}
```

`output_image` says of an output what `image` says of an input; `detection` how outputs hold boxes (`card_detection`).

Other keys travel along; a key that looks like a misspelt one is refused, since its value would count for nothing.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgex.errors import UsageError, nearest_name
from edgex.runtime.artifact.card_detection import read_detection_card
from edgex.runtime.artifact.specs import TensorSpec

LAYOUTS = ("NCHW", "NHWC")
COLORS = ("RGB", "BGR")
_CARD_KEYS = ("labels", "image", "output_image", "detection", "description")

# How alike a key and a known one must be for it to be taken as misspelt: "lables", "Labels", "images".
_ALIKE = 0.75


@dataclass(frozen=True)
class ImageInput:
    """How a picture becomes an input: bytes as they are for uint8, else `(byte / 255 - mean) / std`.

    An output that holds a picture is described likewise, see `read_output_image_card`.

    Attributes:
        input: The input's name; of an output that holds pictures, the output's.
        layout: `NCHW` or `NHWC`.
        color: `RGB` or `BGR`: the order of the input's channels; of no account where there is one.
        mean: Of values from 0 to 1, for each channel of the input in its order; one number was spread over three.
        std: Likewise.
    """

    input: str
    layout: str
    color: str
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def channels_of(self, spec: TensorSpec) -> Any:
        """The input's dimension that holds the channels."""
        return spec.shape[3 if self.layout == "NHWC" else 1]

    def to_json(self) -> dict[str, Any]:
        """What an app's manifest says of it."""
        return {"layout": self.layout, "color": self.color, "mean": list(self.mean), "std": list(self.std)}


def check_card(card: Mapping[str, Any], where: str) -> None:
    """Refuse a card of which something would count for nothing, before any slow step.

    Args:
        card: What the model's file gives.
        where: The file, for error messages.

    Raises:
        UsageError: A key is misspelt, a value has another form, or it is not JSON.
    """
    for key in card:
        if key not in _CARD_KEYS and difflib.get_close_matches(str(key).lower(), _CARD_KEYS, 1, _ALIKE):
            raise UsageError(f"model_card has a key {key!r}", where, why=nearest_name(str(key), _CARD_KEYS))
    labels = card.get("labels")
    if labels is not None and not (isinstance(labels, (list, tuple)) and all(isinstance(x, str) for x in labels)):
        raise UsageError("model_card's labels are not a list of texts", where, "labels: ['cat', 'dog', …]")
    if not isinstance(card.get("description", ""), str):
        raise UsageError("model_card's description is not a text", where)
    read_image_card(card, where)
    read_output_image_card(card, where)
    read_detection_card(card, where)
    try:
        json.dumps(card, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError("model_card cannot be written as JSON", where, why=str(error)) from error


def read_labels(card: Mapping[str, Any]) -> tuple[str, ...]:
    """The labels of a manifest's card; none where they are no list."""
    found = card.get("labels")
    return tuple(map(str, found)) if isinstance(found, list) else ()


def read_image_card(card: Mapping[str, Any], where: str) -> ImageInput | None:
    """The `image` entry of a model card; None where there is none.

    Raises:
        UsageError: The entry is not as it must be.
    """
    return _read_picture_entry(card, "image", "input", where)


def read_output_image_card(card: Mapping[str, Any], where: str) -> ImageInput | None:
    """The `output_image` entry of a model card: which output holds a picture, and how; None where there is none.

    Raises:
        UsageError: The entry is not as it must be.
    """
    return _read_picture_entry(card, "output_image", "output", where)


def _read_picture_entry(card: Mapping[str, Any], name: str, tensor: str, where: str) -> ImageInput | None:
    entry = card.get(name)
    if entry is None:
        return None
    keys = (tensor, "layout", "color", "mean", "std")
    form = f"'{name}': {{'{tensor}': 'x', 'layout': 'NCHW', 'color': 'RGB', 'mean': [0.5], 'std': [0.5]}}"
    what = f"the model card's `{name}` entry"
    if not isinstance(entry, Mapping):
        raise UsageError(f"{what} is of type {type(entry).__name__}", where, form)
    for key in entry:
        if key not in keys:
            raise UsageError(f"{what} has a key {key!r}", where, form, why=nearest_name(str(key), keys))
    if not isinstance(entry.get(tensor), str):
        raise UsageError(f"{what} does not name its {tensor}", where, form)
    layout, color = entry.get("layout", "NCHW"), entry.get("color", "RGB")
    for key, value, known in (("layout", layout, LAYOUTS), ("color", color, COLORS)):
        if value not in known:
            raise UsageError(f"{what} has the {key} {value!r}", where, form, why=nearest_name(str(value), known))
    mean, std = (_read_numbers(entry, key, default, where, name) for key, default in (("mean", 0.0), ("std", 1.0)))
    return ImageInput(entry[tensor], layout, color, mean, std)


def parse_image_input(text: str, flag: str = "--image") -> ImageInput:
    """`name:mean,std,layout`, with `,BGR` behind it where the channels are blue, green, red.

    Mean and std are one number, or one for each channel with `/` between them.

    Raises:
        UsageError: The text has another form.
    """
    form = f"{flag} x:0.485/0.456/0.406,0.229/0.224/0.225,NCHW"
    name, _, rest = text.rpartition(":")
    parts = [part.strip() for part in rest.split(",")]
    if not name or len(parts) not in (3, 4):
        raise UsageError(f"{flag} {text}: expected name:mean,std,layout", fix=form)
    (mean, std), (layout, color) = parts[:2], [*parts[2:], "RGB"][:2]
    layout, color = layout.upper(), color.upper()
    for key, value, known in (("layout", layout, LAYOUTS), ("order of colours", color, COLORS)):
        if value not in known:
            raise UsageError(f"{flag} {text}: unknown {key} {value!r}", why=nearest_name(value, known))
    try:
        means, stds = (tuple(float(number) for number in part.split("/")) for part in (mean, std))
    except ValueError as error:
        raise UsageError(f"{flag} {text}: mean and std must be numbers", why=str(error), fix=form) from error
    return ImageInput(name, layout, color, _spread(means), _spread(stds))


def check_image(
    image: ImageInput, inputs: Sequence[TensorSpec], where: str, fix: str | None = None, kind: str = "input"
) -> None:
    """A picture must fit the input that it is to become.

    Args:
        image: What was declared.
        inputs: The inputs of the model; its outputs, where one of them holds pictures.
        where: Who declared it.
        fix: What to do where no picture can become the input.
        kind: `input` or `output`, for messages.

    Raises:
        UsageError: It does not.
    """
    specs = {spec.name: spec for spec in inputs}
    if image.input not in specs:
        raise UsageError(f"no {kind} {image.input!r} for a picture", where, why=nearest_name(image.input, specs))
    spec = specs[image.input]
    if spec.dtype not in ("float32", "float16", "uint8") or len(spec.shape) != 4:
        raise UsageError(f"a picture cannot become {spec}", where, fix, why="float or uint8 of 4 dimensions can be one")
    channels = image.channels_of(spec)
    if channels not in (1, 3):
        axis = 3 if image.layout == "NHWC" else 1
        why = f"dimension {axis} is {channels}, in layout {image.layout}; it must be 1 or 3"
        raise UsageError(f"a picture cannot become {spec}", where, "give the other layout", why=why)
    count = int(channels)
    given = f"mean {list(image.mean)}, std {list(image.std)}"
    # Three are fine for one channel: one number is spread over three before the input is known.
    if not {len(image.mean), len(image.std)} <= {count, 3} or 0.0 in image.std:
        raise UsageError(f"mean and std need {count} numbers, std none of them 0", where, why=given)
    if not all(math.isfinite(value) for value in (*image.mean, *image.std)):
        raise UsageError("mean and std must be finite numbers", where)
    if spec.dtype == "uint8" and (set(image.mean) != {0.0} or set(image.std) != {1.0}):
        raise UsageError(
            f"{spec} takes a picture's bytes as they are, so mean and std would not count",
            where,
            f"{where} {image.input}:0,1,{image.layout}" if where.startswith("--") else "leave mean and std out",
            why=given,
        )


def find_unused_labels(card: Mapping[str, Any], outputs: Sequence[TensorSpec]) -> str | None:
    """A sentence about labels that name nothing which the model gives; None where they do, or there are none."""
    count = len(card.get("labels") or ())
    scored = any(spec.dtype.startswith("float") and spec.shape[-1:] == (count,) for spec in outputs)
    if not count or scored or "detection" in card:
        return None
    shown = "; ".join(str(spec) for spec in outputs)
    return f"model_card has {count} labels, but no float output has {count} values in its last dimension: {shown}"


def scores_labels(spec: TensorSpec, count: int) -> bool:
    """Whether an output is a classifier's: one row of floats, or a batch of rows, with one for each of `count` labels.

    A feature map or a sequence whose last dimension happens to be as large is none.
    """
    return spec.dtype.startswith("float") and len(spec.shape) in (1, 2) and spec.shape[-1] == count


def _read_numbers(entry: Mapping[str, Any], key: str, default: float, where: str, name: str) -> tuple[float, ...]:
    """`mean` or `std`: one number, or a list of them."""
    value = entry.get(key, default)
    numbers = value if isinstance(value, (list, tuple)) else [value]
    if not numbers or not all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in numbers):
        raise UsageError(f"the model card's `{name}` entry has the {key} {value!r}", where, f"'{key}': [0.5, 0.5, 0.5]")
    if not all(math.isfinite(x) for x in numbers) or (key == "std" and 0 in numbers):
        raise UsageError(f"the model card's `{name}` entry has the {key} {value!r}: nothing can be scaled by it", where)
    return _spread([float(x) for x in numbers])


def _spread(values: Sequence[float]) -> tuple[float, ...]:
    """One number stands for three channels."""
    return tuple(values) * 3 if len(values) == 1 else tuple(values)
