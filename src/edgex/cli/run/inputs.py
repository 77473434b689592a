"""`-i`: inputs of a run from files: `in.npz`, `name=file.npy`, `name=photo.jpg` where the card declares an image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edgex.errors import RunError, UsageError, nearest_name

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import Artifact

_IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp")


def read_inputs(specs: Sequence[str], artifact: Artifact) -> dict[str, np.ndarray]:
    """Inputs by name; the golden example where none are given.

    Args:
        specs: What `-i` was given, each `in.npz` or `name=file`.
        artifact: The artifact that will take them.

    Raises:
        UsageError: A file does not exist or is of a kind that cannot be read.
        RunError: A name is not an input of the artifact.
    """
    from edgex.runtime.artifact.golden import read_example

    if not specs:
        return read_example(artifact)
    names = [spec.name for spec in artifact.manifest.method.inputs]
    values: dict[str, np.ndarray] = {}
    for text in specs:
        name, separator, file = text.partition("=")
        path = Path(file if separator else text)
        if not path.is_file():
            raise UsageError(f"no such file: {path}", where=f"-i {text}")
        if not separator and path.suffix != ".npz" and len(names) == 1:
            name = names[0]
        found = _read_file(path, name, separator != "" or path.suffix != ".npz", artifact)
        for key, array in found.items():
            if key not in names:
                raise RunError(f"{path}: unknown input {key!r}", why=nearest_name(key, names))
            values[key] = array
    return values


def _read_file(path: Path, name: str, named: bool, artifact: Artifact) -> Mapping[str, np.ndarray]:
    suffix = path.suffix.lower()
    try:
        if suffix == ".npz" and not named:
            with np.load(path, allow_pickle=False) as archive:
                return {key: archive[key] for key in archive.files}
        if suffix == ".npy":
            return {name: np.load(path, allow_pickle=False)}
    except Exception as error:  # what NumPy makes of a damaged archive or a lying header it does not document
        why = str(error) or "it asks for more memory than there is"
        raise UsageError(f"{path} cannot be read", why=why) from error
    if suffix in _IMAGE_SUFFIXES:
        return {name: _read_image(path, name, artifact)}
    raise UsageError(f"{path}: inputs come as .npz, or as name=file.npy", where=f"-i {path}")


def _read_image(path: Path, name: str, artifact: Artifact) -> np.ndarray:
    """A photograph in the form that the model card's `image` entry declares.

    The card says `{"image": {"input": NAME, "layout": "NCHW"|"NHWC", "mean": [...], "std": [...]}}`; floats are scaled
    to 0..1 first, and mean and std applied where given.
    """
    card = artifact.manifest.model.get("card", {}).get("image")
    if not card or card.get("input") != name:
        raise UsageError(
            f"input {name!r} is not declared as an image, so {path.name} cannot be turned into it",
            fix="add `model_card = {'image': {'input': …, 'layout': 'NCHW'}}` to the model's file and export again",
        )
    try:
        from PIL import Image
    except ImportError as error:
        raise UsageError("reading images needs Pillow", fix="pip install pillow") from error
    spec = next(s for s in artifact.manifest.method.inputs if s.name == name)
    sizes = [dim if isinstance(dim, int) else dim.min for dim in spec.shape]
    height, width = sizes[1:3] if card["layout"] == "NHWC" else sizes[2:4]
    with Image.open(path) as picture:
        pixels = np.asarray(picture.convert("RGB").resize((width, height), Image.Resampling.BILINEAR))
    if spec.dtype != "uint8":
        scaled = pixels.astype(np.float32) / 255.0
        mean, std = card.get("mean", [0.0, 0.0, 0.0]), card.get("std", [1.0, 1.0, 1.0])
        pixels = ((scaled - np.asarray(mean, np.float32)) / np.asarray(std, np.float32)).astype(spec.numpy_dtype)
    batch = pixels[None]
    return np.ascontiguousarray(batch if card["layout"] == "NHWC" else np.moveaxis(batch, -1, 1))
