"""What a language model takes, read from its manifest alone: prompts are refused before anything is loaded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from edgex.errors import RunError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.artifact.manifest import Method
from edgex.runtime.artifact.specs import Dim, TensorSpec
from edgex.runtime.generation.settings import read_generation_settings

_INTEGERS = ("int64", "int32")
_SHOWN = 3


@dataclass(frozen=True)
class Limits:
    """What a language model takes.

    Attributes:
        vocabulary: Ids are 0 to this, exclusive.
        context: How many tokens the cache holds; None where the model itself forgets the oldest.
        chunk: The most tokens that one run takes.
        bos: The id that a text begins with; None where there is none, or nobody says.
        eos: Ids that end a text; none where nobody says.
        start: Ids that a text begins with behind an encoder, where nobody gives others.
        source: What the encoder takes; None where the model has none.
        rewinds: Whether a smaller position takes tokens back.
    """

    vocabulary: int
    context: int | None
    chunk: int = 1
    bos: int | None = None
    eos: tuple[int, ...] = ()
    start: tuple[int, ...] = ()
    source: tuple[TensorSpec, ...] | None = None
    rewinds: bool = True

    @property
    def reads_text(self) -> bool:
        """Whether the encoder reads ids, `[1, n]`, so that a text can be its source."""
        specs = self.source or ()
        return len(specs) == 1 and specs[0].dtype in _INTEGERS and len(specs[0].shape) == 2

    def check_source(self, ids: Iterable[int]) -> dict[str, np.ndarray]:
        """Ids as the encoder's input; its engine checks how many there are.

        Args:
            ids: From a list, a tuple or an array.

        Raises:
            RunError: One is no whole number, or there is none.
        """
        assert self.source is not None and self.reads_text
        found, spec = _as_ids(ids), self.source[0]
        if not found:
            raise RunError("there is no token for the encoder to read", fix="give at least one id")
        return {spec.name: np.array([found], spec.numpy_dtype)}

    def check_ids(self, ids: Iterable[int], taken: int = 0) -> list[int]:
        """Ids that can be run.

        Args:
            ids: From a list, a tuple or an array.
            taken: How many tokens the cache holds before them.

        Raises:
            RunError: One is no id of the vocabulary, or there are more than the cache has room for.
        """
        found = _as_ids(ids)
        strange = [token for token in found if not 0 <= token < self.vocabulary]
        if strange:
            shown = ", ".join(map(str, strange[:_SHOWN])) + (", …" if len(strange) > _SHOWN else "")
            raise RunError(
                f"{shown}: no such id in a vocabulary of {self.vocabulary}",
                fix=f"ids are 0 to {self.vocabulary - 1}; those of another model's tokenizer do not fit",
            )
        if found and self.context is not None and taken + len(found) > self.context:
            held = f", of which {taken} are taken" if taken else ""
            raise RunError(
                f"{len(found)} tokens do not fit the context of {self.context}{held}",
                fix="shorten the prompt, or export the model again with a larger --context",
            )
        return found


def read_limits(artifact: Artifact) -> Limits:
    """What the artifact's model takes.

    Raises:
        RunError: It is no language model that edgex can generate with, or nothing says how much its cache holds.
        ArtifactError: Its generation settings are damaged.
    """
    settings, llm = read_generation_settings(artifact), artifact.manifest.llm
    if llm is not None:
        source = None if llm.encode is None else artifact.manifest.find_method(llm.encode).inputs
        eos = llm.eos or settings.eos
        return Limits(llm.vocabulary, llm.context, llm.chunk, llm.bos, eos, llm.start, source, llm.rewinds)
    method, where = artifact.manifest.method, artifact.path.name
    why = _why_no_decoder(method)
    if why is not None:
        raise RunError(
            "the artifact is no language model that edgex can generate with",
            where,
            "edgex export MODEL --llm --context N: forward takes (tokens, position), and keeps its cache in buffers",
            why=why,
        )
    size, vocabulary = method.inputs[0].shape[1], method.outputs[0].shape[-1]
    assert isinstance(vocabulary, int)
    card = artifact.manifest.model.get("card", {})
    context = card.get("context") if isinstance(card, dict) else None
    context = context if isinstance(context, int) and context > 0 else None
    if counts_itself(method):
        context = None
    elif context is None:
        raise RunError(
            "nothing says how many tokens the cache holds",
            where,
            'add model_card = {"context": N} to the model\'s file, and export again',
            why="a position behind the cache's end would overwrite what lies there",
        )
    chunk = size.max if isinstance(size, Dim) else size
    return Limits(vocabulary, context, chunk, settings.bos, settings.eos)


def counts_itself(method: Method) -> bool:
    """Whether the model keeps its own position, so that nothing can be taken back."""
    return len(method.inputs) == 1


def _why_no_decoder(method: Method) -> str | None:
    """The first thing in a signature that keeps it from being a decoder's."""
    if not method.state:
        return "it carries no state: each token would have to be run with all before it"
    if not 1 <= len(method.inputs) <= 2 or len(method.outputs) != 1:
        return f"it takes {len(method.inputs)} inputs and gives {len(method.outputs)} outputs"
    tokens, scores = method.inputs[0], method.outputs[0]
    if tokens.dtype not in _INTEGERS or len(tokens.shape) != 2 or tokens.shape[0] != 1:
        return f"its first input is {tokens}, not int64[1, n]"
    size = tokens.shape[1]
    if (size.min if isinstance(size, Dim) else size) != 1:
        return f"it takes {size} tokens at once, and never a single one"
    if len(method.inputs) == 2:
        position = method.inputs[1]
        if position.dtype not in _INTEGERS or len(position.shape) > 1:
            return f"its second input is {position}, not int64[1]"
        if position.shape and position.shape[0] not in (1, size):
            return f"its second input is {position}, which fits neither one position nor one for each token"
    if not scores.dtype.startswith(("float", "bfloat")) or not scores.shape or not isinstance(scores.shape[-1], int):
        return f"its output is {scores}, not float32[1, vocabulary]"
    return None


def _as_ids(ids: Iterable[int]) -> list[int]:
    """Whole numbers.

    Raises:
        RunError: Something else is among them.
    """
    values = ids.reshape(-1).tolist() if isinstance(ids, np.ndarray) else list(ids)
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise RunError(f"{value!r} is no id", fix="ids are whole numbers, as a tokenizer gives them")
    return [int(value) for value in values]
