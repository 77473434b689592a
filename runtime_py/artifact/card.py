"""The model card: what a model's file says of its labels and of how pictures become its input.

```python
model_card = {
    "labels": ["cat", "dog"],
    "image": {"input": "x", "layout": "NCHW", "color": "RGB", "mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25]},
    "description": "Tells cats from dogs.",
}
```

`output_image` says of an output what `image` says of an input; `detection` how outputs hold boxes
(`card_detection`), `microphone` which input is sound (`card_microphone`).

Other keys travel along; a key that looks like a misspelt one is refused, since its value would count for nothing.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from edgex.errors import UsageError, nearest_name
from edgex.runtime.artifact.card_detection import read_detection_card
from edgex.runtime.artifact.card_microphone import read_microphone_card
from edgex.runtime.artifact.specs import Dim, TensorSpec

LAYOUTS = ("NCHW", "NHWC")
COLORS = ("RGB", "BGR")
_CARD_KEYS = ("labels", "image", "output_image", "detection", "microphone", "description")

# How alike a key and a known one must be for it to be taken as misspelt: "lables", "Labels", "images".
_ALIKE = 0.75
_SIZE = re.compile(r"([1-9]\d{0,4})X([1-9]\d{0,4})")


@dataclass(frozen=True)
class ImageInput:
    """How a picture becomes an input: bytes as they are for uint8, else `(byte / 255 - mean) / std`.

    An output that holds a picture is described likewise, see `read_output_image_card`.

    Attributes:
        input: The input's name; of an output that holds pictures, the output's.
        layout: `NCHW` or `NHWC`; None until `fit_image` has read it off the shape.
        color: `RGB` or `BGR`: the order of the input's channels; of no account where there is one.
        mean: Of values from 0 to 1, for each channel of the input in its order; one number was spread over three.
        std: Likewise.
        size: Height and width in pixels that the user wants, where those of the input may vary; None leaves the choice.
    """

    input: str
    layout: str | None
    color: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    size: tuple[int, int] | None = None

    def height_and_width_of(self, spec: TensorSpec) -> tuple[int | Dim, int | Dim]:
        """The input's dimensions in which the picture lies."""
        return (spec.shape[1], spec.shape[2]) if self.layout == "NHWC" else (spec.shape[2], spec.shape[3])

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
    read_microphone_card(card, where)
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
    named = entry.get(tensor) if isinstance(entry, Mapping) else None
    shown = named if isinstance(named, str) else tensor.upper()
    form = f"'{name}': {{'{tensor}': '{shown}', 'layout': 'NCHW', 'color': 'RGB', 'mean': [0.5], 'std': [0.5]}}"
    what = f"the model card's `{name}` entry"
    if not isinstance(entry, Mapping):
        raise UsageError(f"{what} is of type {type(entry).__name__}", where, form)
    for key in entry:
        if key not in keys:
            raise UsageError(f"{what} has a key {key!r}", where, form, why=nearest_name(str(key), keys))
    if not isinstance(entry.get(tensor), str):
        raise UsageError(f"{what} does not name its {tensor}", where, form)
    layout, color = entry.get("layout"), entry.get("color", "RGB")
    for key, value, known in (("layout", layout, LAYOUTS), ("color", color, COLORS)):
        if key in entry and value not in known:
            raise UsageError(f"{what} has the {key} {value!r}", where, form, why=nearest_name(str(value), known))
    mean, std = (_read_numbers(entry, key, default, where, name) for key, default in (("mean", 0.0), ("std", 1.0)))
    return ImageInput(entry[tensor], layout, color, mean, std)


def parse_image_input(text: str, flag: str = "--image") -> ImageInput:
    """`name:mean,std`, and behind it in any order what the input does not tell: layout, order of colours, size.

    Mean and std are one number, or one for each channel with `/` between them; a size is `HEIGHTxWIDTH`,
    of `--image` only.

    Raises:
        UsageError: The text has another form.
    """
    name, _, rest = text.rpartition(":")
    form = f"{flag} {name or 'NAME'}:0.485/0.456/0.406,0.229/0.224/0.225"
    mean, *others = (part.strip() for part in rest.split(","))
    if not name or not others:
        raise UsageError(f"{flag} {text}: expected name:mean,std", fix=form)
    std, *others = others
    layout, color, size = None, None, None
    for part in others:
        word = part.upper()
        if word in LAYOUTS and layout is None:
            layout = word
        elif word in COLORS and color is None:
            color = word
        elif (found := _SIZE.fullmatch(word)) and size is None and flag == "--image":
            size = (int(found[1]), int(found[2]))
        else:
            known = [*LAYOUTS, *COLORS, *(["HEIGHTxWIDTH"] if flag == "--image" else [])]
            again = word in (layout, color) or size is not None
            why = "it stands there twice" if again else nearest_name(word, known)
            raise UsageError(f"{flag} {text}: {part!r} cannot stand behind mean and std", why=why, fix=form)
    try:
        means, stds = (tuple(float(number) for number in part.split("/")) for part in (mean, std))
    except ValueError as error:
        raise UsageError(f"{flag} {text}: mean and std must be numbers", why=str(error), fix=form) from error
    return ImageInput(name, layout, color or "RGB", _spread(means), _spread(stds), size)


def guess_layout(spec: TensorSpec) -> str | None:
    """`NCHW` or `NHWC`, where one of the two dimensions alone can hold channels, 1 or 3; else None."""
    found = [name for name, at in (("NCHW", 1), ("NHWC", 3)) if len(spec.shape) == 4 and spec.shape[at] in (1, 3)]
    return found[0] if len(found) == 1 else None


def fit_image(
    image: ImageInput, inputs: Sequence[TensorSpec], where: str, fix: str | None = None, kind: str = "input"
) -> ImageInput:
    """A picture must fit the input that it is to become.

    Args:
        image: What was declared.
        inputs: The inputs of the model; its outputs, where one of them holds pictures.
        where: Who declared it.
        fix: What to do where no picture can become the input.
        kind: `input` or `output`, for messages.

    Returns:
        The same with its layout, read off the shape where none was declared.

    Raises:
        UsageError: It does not fit, or neither its maker nor the shape says the layout.
    """
    specs = {spec.name: spec for spec in inputs}
    if image.input not in specs:
        raise UsageError(f"no {kind} {image.input!r} for a picture", where, why=nearest_name(image.input, specs))
    spec = specs[image.input]
    if spec.dtype not in ("float32", "float16", "uint8") or len(spec.shape) != 4:
        raise UsageError(f"a picture cannot become {spec}", where, fix, why="float or uint8 of 4 dimensions can be one")
    image = replace(image, layout=image.layout or guess_layout(spec))
    if image.layout is None:
        both = spec.shape[1] in (1, 3)
        raise UsageError(
            f"{spec} does not tell the layout" if both else f"a picture cannot become {spec}",
            where,
            "say NCHW or NHWC" if both else fix,
            why=f"dimensions 1 and 3 can {'both' if both else 'not'} hold channels, which are 1 or 3",
        )
    axis = 3 if image.layout == "NHWC" else 1
    if (channels := spec.shape[axis]) not in (1, 3):
        why = f"dimension {axis} is {channels}, in layout {image.layout}; it must be 1 or 3"
        other = guess_layout(spec)
        fix = f"the shape is that of {other}: leave the layout out" if other else fix
        raise UsageError(f"a picture cannot become {spec}", where, fix, why=why)
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
            f"{where} {image.input}:0,1" if where.startswith("--") else "leave mean and std out",
            why=given,
        )
    _check_size(image, spec, where)
    return image


def _check_size(image: ImageInput, spec: TensorSpec, where: str) -> None:
    """A size that was asked for must be one that the input takes."""
    for size, dim, name in zip(image.size or (), image.height_and_width_of(spec), ("height", "width"), strict=False):
        low, high = (dim.min, dim.max) if isinstance(dim, Dim) else (dim, dim)
        if not low <= size <= high:
            raise UsageError(
                f"{spec} takes no picture with a {name} of {size}",
                where,
                why=f"it takes {low}" if low == high else f"it takes {low} to {high}",
            )


def check_card_labels(card: Mapping[str, Any], outputs: Sequence[TensorSpec], where: str) -> str | None:
    """Labels must be as many as the classes that the model scores.

    Args:
        card: The model card.
        outputs: What the captured model gives.
        where: The card's line, for messages.

    Returns:
        A sentence where nobody can know whether they name anything: the model gives numbers of classes, one score for
        two labels, or sizes that vary; None where they fit, or there are none.

    Raises:
        UsageError: No output has a score for each of them.
    """
    labels = card.get("labels") or ()
    count = len(labels)
    scores = [spec for spec in outputs if spec.dtype.startswith(("float", "bfloat")) and spec.shape]
    # Of a feature map the classes are the channels: dimension 1, or the last one of a sequence and of NHWC.
    classes = [spec.shape[at] for spec in scores for at in {len(spec.shape) - 1, min(1, len(spec.shape) - 1)}]
    if not count or "detection" in card or count in classes:
        return None
    shown = "; ".join(str(spec) for spec in outputs)
    named = f"model_card has {count} label{'' if count == 1 else 's'}"
    if len(scores) < len(outputs) or any(isinstance(size, Dim) for size in classes) or (count == 2 and 1 in classes):
        return f"{named}, but no float output has {count} values in its last dimension: {shown}"
    rows = sorted({size for spec in scores if len(spec.shape) < 3 and isinstance(size := spec.shape[-1], int)})
    raise UsageError(
        f"{named}, and the model scores {' or '.join(map(str, rows))} classes"
        if rows
        else f"{named}, and no output of the model has {count} scores",
        where,
        "give one label for each class, in the order of the scores, or leave `labels` out",
        why=f"it gives {shown}",
    )


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
