"""A text under way: what the cache holds, what comes next, and what is taken back.

```python
with edgex.load("chat.xnnpack.edgex") as session:
    generator = session.generator()
    for token in generator.stream([1, 2, 3], max_new=20):
        …
    generator.rewind(5)                          # the last five tokens were not wanted
    generator.save("prefix.safetensors")         # restored later, in another process, without running them again
```

A model with an encoder is given what the text is about first: `generator.feed(features)`, or `generator.feed("text")`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from edgex.errors import RunError
from edgex.runtime.generation.decoder import CachedDecoder
from edgex.runtime.generation.limits import Limits
from edgex.runtime.generation.prefix import Prefix, read_prefix, write_prefix
from edgex.runtime.generation.prompts import Prompt, PromptReader
from edgex.runtime.generation.sampling import GREEDY, Sampler, Sampling
from edgex.runtime.generation.text import Detokenizer, TextStream
from edgex.runtime.generation.tokenizer import Tokenizer

# Why a stream ended: an id that ends texts, as many tokens as were asked for, or no room left in the cache.
Finish = Literal["eos", "length", "context"]

NO_SOURCE = (
    "the encoder has not been given its input",
    None,
    "generator.feed(...) first: its inputs as the method `encode` takes them, or a text where it reads tokens",
)
NOTHING = ("there is no token to go on from", None, "give at least one id; the model's bos, if it has one")


@dataclass
class Spent:
    """What a generator has done so far.

    Attributes:
        prefilled: Tokens of prompts.
        prefill_seconds: In the engine's calls for them.
        decoded: Generated tokens that were run.
        decode_seconds: In the engine's calls for them.
        sampling_seconds: Choosing tokens.
        encode_seconds: In the engine's calls of the encoder.
    """

    prefilled: int = 0
    prefill_seconds: float = 0.0
    decoded: int = 0
    decode_seconds: float = 0.0
    sampling_seconds: float = 0.0
    encode_seconds: float = 0.0


class Generator:
    """Generates with one session, whose cache is this generator's alone as long as it is used.

    Attributes:
        spent: Tokens and seconds so far.
        finish: Why the last stream ended; None while it has not.
        seed: What the draws of the last stream started from; None where nothing was drawn.
    """

    def __init__(self, decoder: CachedDecoder, tokenizer: Path | None = None) -> None:
        """Begin with an empty text.

        Args:
            decoder: Runs the model.
            tokenizer: A `tokenizer.json` in place of the artifact's own.
        """
        self._prompts = PromptReader(decoder.artifact, decoder.limits.vocabulary, tokenizer)
        self.spent = Spent()
        self.finish: Finish | None = None
        self.seed: int | None = None
        self._decoder = decoder
        self._text: list[int] = []
        # Of `_text`, how many tokens the cache holds; the others, at most one, are run before anything else is.
        self._cached = 0
        self._scores: np.ndarray | None = None
        # Whether there is something that the text can be about; a decoder alone needs nothing.
        self._fed = decoder.limits.source is None

    @property
    def limits(self) -> Limits:
        """What the model takes: vocabulary, context, ids of the beginning and the end."""
        return self._decoder.limits

    @property
    def ids(self) -> tuple[int, ...]:
        """The text so far: prompts and what was generated."""
        return tuple(self._text)

    @property
    def position(self) -> int:
        """Length of the text so far, in tokens."""
        return len(self._text)

    @property
    def room(self) -> int | None:
        """How many more tokens the cache takes; None where there is no end."""
        return None if self.limits.context is None else self.limits.context - len(self._text)

    def feed(self, *args: Any, **kwargs: Any) -> None:
        """Have the encoder read what the text is about; the text begins anew.

        Args:
            *args: The encoder's inputs in order; or one text, where it reads tokens.
            **kwargs: Its inputs by name.

        Raises:
            RunError: The model has no encoder, or the inputs are not what it takes: then the text stays as it was.
            EdgexError: There is no tokenizer for the text.
        """
        values: tuple[Any, ...] = args
        text = values[0] if len(values) == 1 else None
        if isinstance(text, str) and self.limits.reads_text:
            values, kwargs = (), dict(self.limits.check_source(self._prompts.encode(text)))
        started = time.perf_counter()
        self._decoder.encode(*values, **kwargs)
        self.spent.encode_seconds += time.perf_counter() - started
        self._text.clear()
        self._cached, self._scores, self._fed = 0, None, True

    def _begin(self, ids: Iterable[int]) -> list[int]:
        """Tokens that can be appended; what texts begin with, where there is none yet and none is given.

        Raises:
            RunError: They cannot, or the encoder was given nothing.
        """
        if not self._fed:
            raise RunError(*NO_SOURCE)
        found = self.limits.check_ids(ids, len(self._text))
        if not found and not self._text:
            found = list(self.limits.start)
        return found

    def prefill(self, ids: Iterable[int]) -> np.ndarray:
        """Append tokens to the text.

        Args:
            ids: At least one.

        Returns:
            Scores of the token after them, float32 `[V]`, the caller's own.

        Raises:
            RunError: There is none, one is no id of the vocabulary, they do not fit the context, or the engine failed.
        """
        found = self._begin(ids)
        if not found:
            raise RunError(*NOTHING)
        self._text += found
        self._run_rest()
        assert self._scores is not None
        return self._scores.copy()

    def stream(
        self, ids: Iterable[int] = (), *, max_new: int = 128, sampling: Sampling = GREEDY, ignore_eos: bool = False
    ) -> Iterator[int]:
        """Append tokens, then generate until the text ends.

        Args:
            ids: What comes first; none goes on with the text as it is, or begins one as a model with an encoder does.
            max_new: The most tokens to generate.
            sampling: How each is chosen.
            ignore_eos: Go on behind an id that ends a text.

        Yields:
            New ids, each as soon as it is known. An id that ends the text is not among them.

        Raises:
            RunError: As `prefill`, before the first token.
        """
        if max_new < 0:
            raise RunError(f"max_new must be 0 or more, not {max_new}")
        sampler = Sampler(sampling)
        found = self._begin(ids)
        if not found and not self._text:
            raise RunError(*NOTHING)
        self._text += found
        self.finish, self.seed = None, sampler.seed
        return self._generate(max_new, sampler, frozenset(() if ignore_eos else self.limits.eos))

    @property
    def tokenizer(self) -> Tokenizer | None:
        """What makes ids of text, None where there is none; see `PromptReader.tokenizer`."""
        return self._prompts.tokenizer

    def encode(self, prompt: Prompt) -> list[int]:
        """A prompt that is to follow the text so far, as ids; see `PromptReader.encode`."""
        return self._prompts.encode(prompt, begins=not self._text)

    def stream_text(
        self,
        prompt: Prompt = (),
        *,
        max_new: int = 128,
        sampling: Sampling = GREEDY,
        stop: Sequence[str] = (),
        ignore_eos: bool = False,
    ) -> TextStream:
        """As `stream`, with text on both sides.

        Args:
            prompt: Text, messages for the chat template, or ids; what none of them means is said at `stream`.
            max_new: The most tokens to generate.
            sampling: How each is chosen.
            stop: Texts at which generation ends; they are not shown.
            ignore_eos: Go on behind an id that ends a text.

        Returns:
            Pieces of text, as they come; it knows the ids too.

        Raises:
            EdgexError: As `encode` and `prefill`, before the first piece.
        """
        tokenizer = self._prompts.need_tokenizer()
        if not all(stop):
            raise RunError("a stop text is empty", fix="leave it out")
        ids = self.encode(prompt)
        tokens = self.stream(ids, max_new=max_new, sampling=sampling, ignore_eos=ignore_eos)
        return TextStream(tokens, Detokenizer(tokenizer.decode, self._text), stop)

    def _generate(self, max_new: int, sampler: Sampler, ends: frozenset[int]) -> Iterator[int]:
        if max_new:
            self._run_rest()
        # Names of their own: the loop's part of a token's time is a few microseconds.
        text, spent, clock = self._text, self.spent, time.perf_counter
        decode, choose, context = self._decoder.decode, sampler.choose, self.limits.context
        history: Sequence[int] = () if sampler.is_greedy else text
        for number in range(max_new):
            if number:
                if context is not None and self._cached >= context:
                    self.finish = "context"
                    return
                if self._cached == len(text) - 1:
                    started = clock()
                    self._scores = decode(text[-1], self._cached)
                    spent.decode_seconds += clock() - started
                    spent.decoded += 1
                    self._cached += 1
                else:  # the caller has changed the text between two tokens
                    self._run_rest()
            scores = self._scores
            assert scores is not None
            started = clock()
            token = choose(scores, history)
            spent.sampling_seconds += clock() - started
            if token in ends:
                self.finish = "eos"
                return
            text.append(token)
            yield token
        self.finish = "length"

    def rewind(self, count: int) -> None:
        """Take back the last tokens of the text; costs nothing.

        Args:
            count: How many.

        Raises:
            RunError: There are not so many, or the model counts its own position or mixes tokens in its state, which
                only `reset` sets back.
        """
        if count < 0:
            raise RunError(f"cannot take back {count} tokens", fix="rewind(3) takes back the last 3")
        if count > len(self._text):
            raise RunError(f"cannot take back {count} tokens of a text of {len(self._text)}", fix="reset() begins anew")
        if count and self._decoder.counts_itself:
            raise RunError(
                "nothing can be taken back from this model's cache",
                fix="reset(), and prefill(...) with what is to stay",
                why="it counts its position itself, in a buffer; forward(tokens, position) leaves that to the caller",
            )
        if count and not self.limits.rewinds:
            raise RunError(
                "nothing can be taken back from this model's state",
                fix="reset(), and prefill(...) with what is to stay",
                why="it has the tokens mixed in: going back gave other scores when the model was exported",
            )
        if count:
            del self._text[-count:]
            if self._cached > len(self._text):
                # What comes after the last token that is left is not known any more: it is run once more.
                self._cached, self._scores = len(self._text), None

    def reset(self) -> None:
        """Forget the text, and what it is about; the cache has its initial value again."""
        self._decoder.reset()
        self._text.clear()
        self._cached, self._scores = 0, None
        self._fed = self.limits.source is None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the text and the cache to a file; see `edgex.runtime.generation.prefix`.

        Args:
            path: A `.safetensors` file; one that exists is replaced.

        Raises:
            RunError: There is no text yet, the engine cannot give its cache away, or the disk refuses.
        """
        if not self._text:
            raise RunError("there is no text to save", fix="prefill(...) comes first")
        self._run_rest()
        assert self._scores is not None
        prefix = Prefix(self._text, np.asarray(self._scores, np.float32), self._decoder.read_state())
        write_prefix(Path(path), prefix, self._decoder.artifact.digest)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Go on from a saved text, in place of the present one.

        Args:
            path: What `save` wrote, with the same artifact.

        Raises:
            ArtifactError: The file is not there or damaged.
            RunError: Another artifact wrote it.
        """
        decoder = self._decoder
        found = read_prefix(Path(path), decoder.artifact.digest, decoder.state, self.limits.vocabulary)
        self.limits.check_ids(found.ids)
        self.reset()
        decoder.write_state(found.state)
        self._text += found.ids
        self._cached, self._scores, self._fed = len(found.ids), found.scores, True

    def _run_rest(self) -> None:
        """Run what the cache does not hold yet; the last token again where its scores are not known.

        Raises:
            RunError: There is no text, or no room for it.
        """
        if not self._text:
            raise RunError(*NOTHING)
        if self.limits.context is not None and len(self._text) > self.limits.context:
            raise RunError(f"the context of {self.limits.context} tokens is full", fix="rewind(...) or reset()")
        if self._scores is None and self._cached == len(self._text):
            self._cached -= 1
        if self._cached < len(self._text):
            rest = self._text[self._cached :]
            started = time.perf_counter()
            self._scores = self._decoder.run(rest, self._cached)
            self.spent.prefill_seconds += time.perf_counter() - started
            self.spent.prefilled += len(rest)
            self._cached = len(self._text)
