"""`-i`: inputs of a run from files: `in.npz`, `name=file.npy`, or a picture where an input is declared as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from edgex.cli.run.other_files import is_read, refuse_file
from edgex.cli.run.pictures import SUFFIXES, can_be_picture, find_image, read_picture
from edgex.errors import RunError, UsageError, nearest_name
from edgex.runtime.artifact.card import ImageInput, read_image_card

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import Artifact


def read_inputs(
    specs: Sequence[str],
    artifact: Artifact,
    image: ImageInput | None = None,
    *,
    notes: list[str] | None = None,
    quiet: bool = False,
) -> dict[str, np.ndarray]:
    """Inputs by name; the golden example where none are given.

    Args:
        specs: What `-i` was given, each `in.npz` or `name=file`.
        artifact: The artifact that will take them.
        image: How pictures become an input, where that is not left to the model card.
        notes: Gets a sentence about each picture that was resized; they are printed, unless `quiet`.
        quiet: See there.

    Raises:
        UsageError: A file does not exist or is of a kind that cannot be read, or an input is given twice.
        RunError: A name is not an input of the artifact.
    """
    from edgex.runtime.artifact.golden import read_example

    if not specs:
        return read_example(artifact)
    names = [spec.name for spec in artifact.manifest.method.inputs]
    values: dict[str, np.ndarray] = {}
    given: dict[str, str] = {}
    said = [] if notes is None else notes
    for text in specs:
        name, separator, file = text.partition("=")
        path = Path(file if separator else text)
        if not path.is_file():
            raise UsageError(f"no such file: {path}", where=f"-i {text}")
        if not is_read(path):
            raise refuse_file(path, name if separator else None, artifact.manifest.method.inputs)
        if not separator and path.suffix.lower() != ".npz":
            name = _guess_input(path, names, artifact, image)
        found = _read_file(path, name, separator != "" or path.suffix.lower() != ".npz", artifact, image, said.append)
        for key, array in found.items():
            if key not in names:
                raise RunError(f"{path}: unknown input {key!r}", why=nearest_name(key, names))
            if key in given:
                raise UsageError(
                    f"the input {key!r} is given twice: -i {given[key]} and -i {text}", fix="leave one of them out"
                )
            values[key], given[key] = array, text
    for sentence in () if quiet else said:
        click.echo(f"note: {sentence}", err=True)
    return values


def _guess_input(path: Path, names: Sequence[str], artifact: Artifact, image: ImageInput | None) -> str:
    """The input that a file without a name is for: the only one, or the one that is, or alone can be, a picture."""
    if len(names) == 1:
        return names[0]
    declared = image or read_image_card(artifact.manifest.model.get("card", {}), artifact.path.name)
    if path.suffix.lower() in SUFFIXES:
        fitting = [spec.name for spec in artifact.manifest.method.inputs if can_be_picture(spec)]
        if declared is not None or len(fitting) == 1:
            return fitting[0] if declared is None else declared.input
        if not fitting:
            shown = ", ".join(map(str, artifact.manifest.method.inputs))
            raise UsageError(f"-i {path}: none of the inputs can be a picture", why=f"they are {shown}")
    raise UsageError(f"-i {path}: which input?", fix=f"name it: -i {names[0]}={path}", why=f"known: {', '.join(names)}")


def _read_file(
    path: Path, name: str, named: bool, artifact: Artifact, image: ImageInput | None, note: Callable[[str], None]
) -> Mapping[str, np.ndarray]:
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
    if suffix == ".npz":
        raise UsageError(
            f"{path} holds several inputs by name", fix=f"leave the name out: -i {path}", where=f"-i {name}={path}"
        )
    specs = {spec.name: spec for spec in artifact.manifest.method.inputs}
    if name not in specs:
        raise RunError(f"{path}: unknown input {name!r}", why=nearest_name(name, specs))
    return {name: read_picture(path, find_image(artifact, name, path, image), specs[name], note)}
