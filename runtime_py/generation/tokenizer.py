"""`tokenizer.json`, read by the library that wrote it: nothing is converted, so ids are those of the training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgex.errors import ArtifactError, RunError, TargetUnavailable
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.artifact.manifest import PROCESSOR_FOLDER
from edgex.runtime.support.json.reading import read_json

FILE = "tokenizer.json"
INSTALL = "pip install 'edgex-toolchain[text]'"


class Tokenizer:
    """Text to ids and back.

    Attributes:
        largest: The largest id.
    """

    def __init__(self, path: Path, where: str) -> None:
        """Read a file.

        Args:
            path: Of `tokenizer.json`.
            where: For error messages.

        Raises:
            TargetUnavailable: The library is not installed.
            ArtifactError: It is no tokenizer.
        """
        try:
            import tokenizers
        except ImportError as error:
            raise TargetUnavailable(
                "text needs the package tokenizers, which is not installed", fix=INSTALL, why=str(error)
            ) from error
        try:
            self._tokenizer: Any = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library's exceptions have no class of their own
            raise ArtifactError(
                f"{path.name} is no tokenizer that tokenizers {tokenizers.__version__} can read", where, why=str(error)
            ) from error
        # Files may ask for texts to be cut or filled up, which is for training.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.largest = max(self._tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Text to ids.

        Args:
            text: Any.
            special: Add the ids that the tokenizer puts around a text; not where a chat template has.
        """
        try:
            ids: list[int] = self._tokenizer.encode(text, add_special_tokens=special).ids
        except Exception as error:  # see __init__
            raise RunError("the tokenizer cannot read this text", why=str(error)) from error
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Ids to text, without ids that are no text, such as ends and beginnings."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True)
        return text


def open_tokenizer(artifact: Artifact, vocabulary: int, file: Path | None = None) -> Tokenizer | None:
    """The tokenizer of an artifact.

    Args:
        artifact: What carries it.
        vocabulary: The model's.
        file: One that lies elsewhere.

    Returns:
        None where the artifact carries none, and no other is given.

    Raises:
        TargetUnavailable: The library is not installed.
        ArtifactError: It is no tokenizer.
        RunError: It gives ids that the model does not know.
    """
    where = artifact.path.name if file is None else str(file)
    if file is None and not has_file(artifact, FILE):
        return None
    tokenizer = Tokenizer(file or artifact.path / PROCESSOR_FOLDER / FILE, where)
    if tokenizer.largest >= vocabulary:
        raise RunError(
            f"the tokenizer does not fit the model: it has ids up to {tokenizer.largest}, "
            f"the model's vocabulary ends at {vocabulary - 1}",
            where,
            "take the tokenizer that the model was trained with",
        )
    return tokenizer


def has_file(artifact: Artifact, name: str) -> bool:
    """Whether the artifact carries a processor file of this name; only listed files were checked."""
    return any(entry.path == f"{PROCESSOR_FOLDER}/{name}" for entry in artifact.manifest.files)


def read_processor_json(artifact: Artifact, name: str) -> dict[str, Any]:
    """A processor file of an artifact; empty where it carries none.

    Raises:
        ArtifactError: It is no JSON object.
    """
    if not has_file(artifact, name):
        return {}
    return read_object(artifact.path / PROCESSOR_FOLDER / name, artifact.path.name)


def read_object(path: Path, where: str) -> dict[str, Any]:
    """A JSON object.

    Raises:
        ArtifactError: The file holds none.
    """
    try:
        found = read_json(path)
    except (OSError, ValueError) as error:
        raise ArtifactError(f"{path.name} cannot be read", where, why=str(error)) from error
    if not isinstance(found, dict):
        raise ArtifactError(f"{path.name} holds no JSON object", where)
    return found
