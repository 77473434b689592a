"""Pictures: how a photograph becomes an input, and what labels say of the output."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgex.errors import UsageError
from edgex.runtime.artifact.card import ImageInput, fit_image, guess_layout, read_image_card, scores_labels
from edgex.runtime.artifact.specs import Dim, TensorSpec

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import Artifact

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp")

# Rows of an output whose best labels are shown; what has more is hardly one score for each label.
_MAX_ROWS = 16
_BEST = 5

# Proportions that differ by less are a matter of rounding.
_SEEN_STRETCH = 0.02


def find_image(artifact: Artifact, name: str, path: Path, given: ImageInput | None = None) -> ImageInput:
    """How pictures become the input `name`: as `--image` says, else as the model card does.

    Args:
        artifact: Who takes it.
        name: The input.
        path: The picture, for error messages.
        given: What `--image` says.

    Raises:
        UsageError: Neither declares it, or it does not fit.
    """
    method, where = artifact.manifest.method, artifact.path.name
    if given is not None:
        fit_image(given, method.inputs, "--image")
    image = given or read_image_card(artifact.manifest.model.get("card", {}), where)
    if image is None or image.input != name:
        raise _not_declared(artifact, name, path, image)
    return fit_image(image, method.inputs, "--image" if given else where)


def can_be_picture(spec: TensorSpec) -> bool:
    """Whether a picture could become an input: floats or bytes, `[N, C, H, W]` or `[N, H, W, C]`."""
    return (
        spec.dtype in ("float32", "float16", "uint8")
        and len(spec.shape) == 4
        and (spec.shape[1] in (1, 3) or spec.shape[3] in (1, 3))
    )


def _not_declared(artifact: Artifact, name: str, path: Path, image: ImageInput | None) -> UsageError:
    """Nothing says how a picture becomes the input: what would."""
    inputs = artifact.manifest.method.inputs
    spec = next(spec for spec in inputs if spec.name == name)
    if not can_be_picture(spec):
        other = next((spec.name for spec in inputs if can_be_picture(spec)), None)
        return UsageError(
            f"{path.name}: a picture cannot become {spec}",
            fix=f"-i {name}=file.npy" if other is None else f"-i {other}={path}",
            why="floats or bytes of 4 dimensions, of which one holds 1 or 3 channels, can be one",
        )
    layout = "" if guess_layout(spec) else ",NCHW"
    # The numbers that most photographs are scaled by; bytes are taken as they are.
    numbers = "0,1" if spec.dtype == "uint8" else "0.485/0.456/0.406,0.229/0.224/0.225"
    numbers = "0.5,0.5" if numbers != "0,1" and 1 in (spec.shape[1], spec.shape[3]) else numbers
    what = "the artifact has no model_card that says" if image is None else "its model_card does not say"
    return UsageError(
        f"{what} how {path.name} becomes the input {name!r}",
        fix=shlex.join(
            ["edgex", "run", str(artifact.path), "-i", f"{name}={path}", "--image", f"{name}:{numbers}{layout}"]
        ),
        why="--image says it for one run, as NAME:MEAN,STD, with mean and std as the model was trained. For "
        f"all runs add `model_card = {{'image': {{'input': '{name}', 'mean': …, 'std': …}}}}` to "
        "the model's file and export again",
    )


def read_picture(
    path: Path, image: ImageInput, spec: TensorSpec, note: Callable[[str], None] = lambda _text: None
) -> np.ndarray:
    """A picture as an input.

    Args:
        path: A file that Pillow reads; turned upright where a camera says how.
        image: How it becomes the input.
        spec: The input, of rank 4 with 1 or 3 channels; every item of a batch gets the same picture.
        note: Called with a sentence where the picture is resized, or its size could be another.

    Returns:
        uint8 as stored, else `(byte / 255 - mean) / std`, in the input's dtype and shape; resized bilinearly to the
        size of `choose_size`. One channel is the luma of ITU-R 601.

    Raises:
        UsageError: Pillow is missing, or does not read the file.
    """
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise UsageError("reading images needs Pillow", fix="pip install pillow") from error
    channels = spec.shape[3 if image.layout == "NHWC" else 1]
    batch = spec.shape[0].min if isinstance(spec.shape[0], Dim) else spec.shape[0]
    try:
        with Image.open(path) as opened:
            if opened.mode.startswith(("I", "F")):
                raise UsageError(
                    f"{path.name} has more than 8 bits a channel ({opened.mode})",
                    fix="save it with 8 bits, or give the input as a .npy file",
                )
            upright = ImageOps.exif_transpose(opened)
            height, width = choose_size(image, spec, (upright.height, upright.width))
            _describe_size(path, image, spec, (upright.height, upright.width), (height, width), note)
            picture = upright.convert("RGB").resize((width, height), Image.Resampling.BILINEAR)
            pixels = np.asarray(picture if channels == 3 else picture.convert("L"))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:  # what Pillow's readers raise
        raise UsageError(f"{path} cannot be read as a picture", why=str(error)) from error
    pixels = pixels.reshape(height, width, -1)
    if image.color == "BGR":
        pixels = pixels[:, :, ::-1]
    if spec.dtype != "uint8":
        mean, std = (np.asarray(values[: pixels.shape[2]], np.float32) for values in (image.mean, image.std))
        pixels = ((pixels.astype(np.float32) / 255.0 - mean) / std).astype(spec.numpy_dtype)
    if image.layout == "NCHW":
        pixels = np.moveaxis(pixels, -1, 0)
    return np.ascontiguousarray(np.broadcast_to(pixels, (batch, *pixels.shape)))


def choose_size(image: ImageInput, spec: TensorSpec, own: tuple[int, int]) -> tuple[int, int]:
    """Height and width that a picture gets: the input's, or `--image`'s, or near to its own, in proportion.

    Args:
        image: How it becomes the input.
        spec: The input.
        own: Height and width of the picture in pixels.
    """
    if image.size is not None:
        return image.size
    dims = image.height_and_width_of(spec)
    scales = [dim / pixels for dim, pixels in zip(dims, own, strict=True) if isinstance(dim, int)]
    if not scales:
        most = (dim.max / pixels for dim, pixels in zip(dims, own, strict=True) if isinstance(dim, Dim))
        scales = [min(1.0, *most)]
    height, width = (
        min(max(round(pixels * scales[0]), dim.min), dim.max) if isinstance(dim, Dim) else dim
        for dim, pixels in zip(dims, own, strict=True)
    )
    same = all(isinstance(dim, Dim) for dim in dims) and dims[0] == dims[1]
    return (min(height, width),) * 2 if same else (height, width)


def _describe_size(
    path: Path,
    image: ImageInput,
    spec: TensorSpec,
    own: tuple[int, int],
    size: tuple[int, int],
    note: Callable[[str], None],
) -> None:
    """Say which size a picture got and why, where that is not its own and the only one."""
    dims = image.height_and_width_of(spec)
    varies = any(isinstance(dim, Dim) for dim in dims)
    if own == size and not varies:
        return
    text = f"{path.name} has {own[0]}x{own[1]} pixels (height x width) and becomes {size[0]}x{size[1]}"
    if own[0] * size[1] != own[1] * size[0] and abs(own[0] * size[1] / (own[1] * size[0]) - 1) > _SEEN_STRETCH:
        text += ", which stretches it"
    if image.size is not None:
        text += ": as --image says"
    elif varies:
        text += f": {spec.name} takes a height of {dims[0]} and a width of {dims[1]}. For another size: --image "
        text += f"{spec.name}:MEAN,STD,HEIGHTxWIDTH"
    else:
        text += f": the size of {spec.name}"
    note(text)


def rank_labels(labels: Sequence[str], spec: TensorSpec, output: np.ndarray) -> list[list[dict[str, Any]]] | None:
    """The labels with the highest values, best first.

    Args:
        labels: Of the model card.
        spec: The output's.
        output: Its values.

    Returns:
        For each row `{"label", "index", "value"}` of at most five; None where the output does not score these labels.
    """
    if not labels or not scores_labels(spec, len(labels)):
        return None
    rows = output.reshape(-1, len(labels)).astype(np.float64)
    if len(rows) > _MAX_ROWS or not np.isfinite(rows).all():
        return None
    best = np.argsort(-rows, axis=1, kind="stable")[:, :_BEST]
    return [
        [{"label": labels[at], "index": int(at), "value": float(row[at])} for at in places]
        for row, places in zip(rows, best, strict=True)
    ]
