"""Prompts, as text, as messages of a conversation or as ids, to ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import cast

from edgex.errors import ArtifactError, RunError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.generation.chat import Message, render_chat
from edgex.runtime.generation.tokenizer import Tokenizer, open_tokenizer

Prompt = str | Sequence[Message] | Sequence[int]


class PromptReader:
    """Reads prompts with what an artifact carries: its tokenizer and chat template."""

    def __init__(self, artifact: Artifact, vocabulary: int, tokenizer: Path | None = None) -> None:
        """Nothing is read before it is needed.

        Args:
            artifact: Of a language model.
            vocabulary: The model's.
            tokenizer: A `tokenizer.json` in place of the artifact's own.
        """
        self._artifact, self._vocabulary, self._file = artifact, vocabulary, tokenizer

    @cached_property
    def tokenizer(self) -> Tokenizer | None:
        """None where there is none.

        Raises:
            TargetUnavailable: The package tokenizers is not installed.
            ArtifactError: The file is no tokenizer.
            RunError: It does not fit the model's vocabulary.
        """
        return open_tokenizer(self._artifact, self._vocabulary, self._file)

    def need_tokenizer(self) -> Tokenizer:
        """As `tokenizer`.

        Raises:
            ArtifactError: There is none.
        """
        if self.tokenizer is None:
            raise ArtifactError(
                "the artifact carries no tokenizer.json",
                self._artifact.path.name,
                "give ids (--ids), or the tokenizer's file (--tokenizer)",
            )
        return self.tokenizer

    def encode(self, prompt: Prompt, *, begins: bool = True) -> list[int]:
        """A prompt as ids; not yet checked.

        Args:
            prompt: Text; messages, which the chat template makes text of; or ids.
            begins: Whether a text begins with it: then the tokenizer's own ids of a beginning are added.

        Raises:
            ArtifactError: There is no tokenizer, or no chat template.
            RunError: The prompt is empty, or the template refuses the messages.
        """
        if isinstance(prompt, str):
            if not prompt:
                raise RunError("the prompt is empty", fix="give at least one word")
            return self.need_tokenizer().encode(prompt, special=begins)
        if len(prompt) and isinstance(prompt[0], Mapping):
            text = render_chat(self._artifact, cast("Sequence[Message]", prompt))
            return self.need_tokenizer().encode(text, special=False)
        return list(cast("Sequence[int]", prompt))
