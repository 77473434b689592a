"""A language model in the library: what it takes, how tokens are chosen, and its tokenizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from edgex.errors import ArtifactError, RunError
from edgex.export.android.library.byte_pairs import MERGES_FILE, VOCABULARY_FILE, describe_byte_pairs
from edgex.export.android.library.text import Unlike
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.generation.limits import Limits, read_limits
from edgex.runtime.generation.settings import read_generation_settings
from edgex.runtime.generation.tokenizer import FILE, has_file, read_processor_json


@dataclass(frozen=True)
class GenerationEntry:
    """What a library knows of a language model.

    Attributes:
        entry: `generation` of the app's manifest; None where it is none.
        files: Names beside the manifest -> lines.
        notices: What was left out.
    """

    entry: dict[str, Any] | None = None
    files: tuple[tuple[str, tuple[str, ...]], ...] = ()
    notices: tuple[str, ...] = ()


def find_generation(artifact: Artifact) -> GenerationEntry:
    """What the artifact says of generating text.

    Raises:
        ArtifactError: `tokenizer.json` or the settings of generation cannot be read.
    """
    try:
        limits = read_limits(artifact)
    except RunError:
        return GenerationEntry()
    sampling = read_generation_settings(artifact).sampling
    tokenizer, files, begins, notices = _find_tokenizer(artifact, limits)
    entry = {
        "vocabulary": limits.vocabulary,
        "context": limits.context,
        "chunk": limits.chunk,
        "begins": begins,
        "ends": list(limits.eos),
        "sampling": {
            "temperature": sampling.temperature,
            "top_k": sampling.top_k or 0,
            "top_p": sampling.top_p or 1.0,
            "repetition_penalty": sampling.repetition_penalty,
        },
        "tokenizer": tokenizer,
    }
    return GenerationEntry(entry, files, notices)


def _find_tokenizer(
    artifact: Artifact, limits: Limits
) -> tuple[dict[str, Any] | None, tuple[tuple[str, tuple[str, ...]], ...], list[int], tuple[str, ...]]:
    if not has_file(artifact, FILE):
        return None, (), [], ("the artifact carries no tokenizer, so library and app take and give ids",)
    try:
        entry, tokens, merges, begins = describe_byte_pairs(read_processor_json(artifact, FILE))
        if len(tokens) > limits.vocabulary:
            raise Unlike(f"the tokenizer has ids up to {len(tokens) - 1}, the model's end at {limits.vocabulary - 1}")
    except Unlike as unlike:
        return None, (), [], (f"library and app take and give ids, not text: {unlike}",)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ArtifactError(f"{FILE} is no tokenizer", artifact.path.name, why=repr(error)) from error
    return entry, ((VOCABULARY_FILE, tokens), (MERGES_FILE, merges)), begins, ()
