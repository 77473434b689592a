"""The user's decoder as the pipeline takes models: its signature, its example inputs, and whether its cache is right.

A cache that forgets, or that counts by itself, gives garbage in every artifact made of it, and no comparison of an
artifact with eager would show it. So that is asked here, before the slow steps.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from edgex.errors import CaptureError, EdgexError, UsageError
from edgex.export.language_model.encoder import Encoder, find_encoder
from edgex.export.language_model.encoder_decoder import CachedEncoderDecoder
from edgex.export.language_model.module import NextToken, check_logits, check_takes_position, find_head
from edgex.export.language_model.prefix_search import find_longer, find_rows, without_each_kind
from edgex.export.language_model.tokens import Ends, check_tokenizer, read_ends
from edgex.export.language_model.transformers_cache import CachedDecoder, is_transformers_model, with_cache
from edgex.export.language_model.valid_prefix import PrefixLengths, find_prefix, try_capture
from edgex.export.source.eager import BufferSnapshot, reference_conditions
from edgex.export.source.processors import find_files_beside
from edgex.export.source.user_code.user_line import line_of_error
from edgex.export.source.user_file import run_user_code
from edgex.export.source.weights import shorten
from edgex.runtime.artifact.language_model import ENCODE, PREFILL, TOKENS, LanguageModel
from edgex.runtime.artifact.specs import Dim
from edgex.runtime.session.numerics import EXACT_SQNR_DB, measure_sqnr_db

if TYPE_CHECKING:
    from edgex.export.language_model.request import LanguageRequest
    from edgex.export.source.source import ModelSource

SEED = 20260713

# Two ways of computing the same in float32 are further apart than this only where they compute something else.
_LEAST_AGREEMENT_DB = 60.0
# The filled part of the cache against all of it: sums of the same numbers, and zeros.
_LEAST_SAME_DB = 90.0
# The same where the cache is in 8 bits: a rounding that falls to the other side is a step of it.
_LEAST_IN_BYTES_DB = 20.0
# Tokens that are read to see what they change.
_PROBED = 2
# Ways to show the cache that are tried; each costs readings of the model.
_MOST_PREFIXES = 4
# Shorter texts have nothing to take back.
_LEAST_REWOUND = 4
# How many tokens are read one by one where chunks are compared with that; each costs a run of the model.
_MOST_SINGLE = 48

_IN_PLACE = (
    "write into registered buffers in place, at the position that is given: "
    "self.keys.index_copy_(2, position + torch.arange(tokens.shape[1]), keys)"
)


def prepare_language_model(source: ModelSource, asked: LanguageRequest) -> ModelSource:
    """The source of a language model: its module gives the scores of the next token, its example is a chunk.

    Args:
        source: As the user gave it.
        asked: Context and chunk.

    Returns:
        The source with `language` set.

    Raises:
        UsageError: The context is too long for it, or its tokenizer is another model's.
        CaptureError: It is no decoder, or its cache does not hold what it has read.
    """
    if not isinstance(source.module, torch.nn.Module):
        raise UsageError(
            "--llm needs the model itself",
            source.description,
            "give its Python file: file.py[:name]",
            why="an exported program has no methods",
        )
    module, where = source.module, source.description
    notices = list(take_as_float32(module))
    if is_transformers_model(module):
        example = source.args[0] if source.args else source.kwargs.get(getattr(module, "main_input_name", ""))
        module = with_cache(module, asked, where, example)
    elif asked.kv != "fp32":
        raise UsageError(
            f"--kv {asked.kv} is for models of transformers, whose cache edgex makes",
            where,
            "let the module keep its own cache in int8 buffers, or leave --kv out",
            why="this module keeps its own",
        )
    else:
        check_takes_position(module, where)
        if asked.source is not None:
            raise UsageError(
                "--source is for models of transformers",
                where,
                "leave it out: the encoder's example inputs and dynamic_shapes say its sizes",
            )
    encoder = find_encoder(module, source)
    if encoder is not None and asked.quantized_alone is not None:
        raise UsageError(
            f"{asked.quantized_alone} does not go with a model that has an encoder",
            where,
            "leave it out: --quantize makes the same of every linear layer, the encoder's too",
        )
    model = NextToken(module).eval()
    pristine = BufferSnapshot(model)
    if encoder is not None:
        encoder.run(model, where, source.source_root)
    # What the decoder begins with: all its texts are about the example.
    buffers = BufferSnapshot(model)
    decoder = _Decoder(model, buffers, where, source.source_root)
    count = min(2, asked.chunk)
    vocabulary = check_logits(decoder.probe(count), count, where)
    model = decoder.use_head(find_head(module, lambda: decoder.probe(count)))
    decoder.check_context(asked.context)
    files = source.processor_files or find_files_beside(source.source_root)
    if files and not source.processor_files:
        notices.append(f"carried in the artifact, for its inputs: {', '.join(files)}")
    ends = read_ends(source.module, source.model_card, files, where)
    ends.check(vocabulary, where)
    check_tokenizer(files, vocabulary)
    if encoder is not None and not ends.start and ends.bos is not None:
        ends = replace(ends, start=(ends.bos,))
    if not ends.eos:
        notices.append(
            "nothing says which token ends a text: generation goes on until --max-new, or the context is full"
        )
    cache = decoder.check_cache(asked, vocabulary)
    beside = "" if asked.kv == "fp32" else f" in 8 bits; its scores are {decoder.agreement_db:.0f} dB from float's"
    taken = f"{sum(map(_bytes, cache.values())):,} bytes"
    if decoder.longer and not decoder.rows:
        notices.append(f"the cache takes {taken}{beside}")
    elif decoder.rows:
        notices.append(f"the cache of {asked.context} tokens takes {taken}{beside}")
    else:
        notices.append(f"what the model keeps of a text takes {taken}, however long the text is")
    model, seen = decoder.show_prefix(asked, vocabulary)
    notices += seen
    pristine.restore()
    text = random_text(vocabulary, asked.chunk)
    whole = replace(
        source,
        module=model,
        args=(torch.from_numpy(text[None]), torch.zeros(1, dtype=torch.int64)),
        kwargs={},
        processor_files=files,
        notices=(*source.notices, *notices),
        language=describe(asked, vocabulary, ends, cache, encodes=encoder is not None, rewinds=decoder.rewinds),
        dynamic_shapes=None,
        dynamic={} if asked.chunk == 1 else {(TOKENS, 1): Dim("n", 1, asked.chunk)},
        example_sequence=None,
    )
    return whole if encoder is None else _with_encoder(whole, encoder)


def _with_encoder(decoder: ModelSource, encoder: Encoder) -> ModelSource:
    """The source of the method `encode`, which has that of the decoder beside it."""
    return replace(
        decoder,
        module=encoder.module,
        args=encoder.args,
        kwargs=encoder.kwargs,
        dynamic_shapes=encoder.dynamic_shapes,
        dynamic=encoder.dynamic,
        language=None,
        method=ENCODE,
        others=(replace(decoder, method=PREFILL, processor_files={}, notices=()),),
    )


def describe(
    asked: LanguageRequest,
    vocabulary: int,
    ends: Ends,
    cache: Mapping[str, torch.Tensor],
    *,
    encodes: bool = False,
    rewinds: bool = True,
) -> LanguageModel:
    """The manifest's `llm`."""
    largest = max(cache.values(), key=_bytes)
    return LanguageModel(
        vocabulary=vocabulary,
        context=asked.context,
        chunk=asked.chunk,
        bos=ends.bos,
        eos=ends.eos,
        cache_bytes=sum(map(_bytes, cache.values())),
        cache_dtype=str(largest.dtype).removeprefix("torch."),
        encode=ENCODE if encodes else None,
        start=ends.start if encodes else (),
        rewinds=rewinds,
    )


def random_text(vocabulary: int, length: int, seed: int = SEED) -> np.ndarray:
    """Ids that any model of this vocabulary can read, int64 `[length]`."""
    return np.random.default_rng(seed).integers(0, vocabulary, length, np.int64)


def pieces(length: int, chunk: int) -> list[slice]:
    """Where each call begins and ends that reads a text of this length."""
    return [slice(first, min(first + chunk, length)) for first in range(0, length, chunk)]


class _Decoder:
    """The model in eager, read from the beginning of a text."""

    def __init__(self, model: NextToken, buffers: BufferSnapshot, where: str, root: Path) -> None:
        self._model, self._buffers, self._where, self._root = model, buffers, where, root
        # How near the scores over the cache came to those without one.
        self.agreement_db = EXACT_SQNR_DB
        # Whether a smaller position takes tokens back.
        self.rewinds = True
        # The buffers with a place for each token of the context, and its dimension; see `find_rows`.
        self.rows: dict[str, int] = {}
        # Those with a place for more, and for how many.
        self.longer: dict[str, int] = {}
        # What it scored in chunks and token by token with the whole cache before it: readings that take minutes of a
        # large model, so that none is made twice.
        self._over_whole_cache: tuple[torch.Tensor | None, torch.Tensor | None] | None = None

    def probe(self, count: int) -> Any:
        """What the user's module gives for the first tokens of the vocabulary."""
        tokens = torch.zeros(1, count, dtype=torch.int64)
        found = self._call(lambda: self._model.model(tokens, torch.zeros(1, dtype=torch.int64)))
        self._buffers.restore()
        return found

    def use_head(self, head: torch.nn.Module | None) -> NextToken:
        """Let the linear layer that gives the scores see the last token only; the module that does so."""
        self._model = NextToken(self._model.model, head).eval()
        return self._model

    def check_context(self, context: int) -> None:
        """The last place of the context can be written.

        Raises:
            UsageError: The model's own cache is shorter.
        """
        tokens, last = torch.zeros(1, 1, dtype=torch.int64), torch.tensor([context - 1])
        try:
            with reference_conditions():
                self._model(tokens, last)
        except (IndexError, RuntimeError) as error:
            raise UsageError(
                f"{self._where} cannot read a token at position {context - 1}, the last of --context {context}",
                why=str(error).partition("\n")[0],
                fix="make its cache as long as the context, or give a shorter --context",
            ) from error
        finally:
            self._buffers.restore()

    def check_cache(self, asked: LanguageRequest, vocabulary: int) -> dict[str, torch.Tensor]:
        """A text that is read in chunks, and token by token, ends in the same scores as one that is read at once.

        Returns:
            The buffers that the model writes, by name.

        Raises:
            CaptureError: It does not.
        """
        length = min(2 * asked.chunk + 1, asked.context)
        text = random_text(vocabulary, length)
        short = text[: min(length, _MOST_SINGLE)]
        whole = [self._read(part, [slice(0, len(part))], at_once=True) for part in (text, short)]
        chunked = self._read(text, pieces(length, asked.chunk))
        cache = self._written()
        single = self._read(short, pieces(len(short), 1))
        self._over_whole_cache = (chunked, single)
        for expected, found, how in (
            (whole[0], chunked, f"in chunks of {asked.chunk}"),
            (whole[1], single, "token by token"),
        ):
            if expected is None or found is None:
                continue
            agreement = measure_sqnr_db(expected.numpy(), found.numpy())
            self.agreement_db = min(self.agreement_db, agreement)
            if agreement < (_LEAST_AGREEMENT_DB if asked.kv == "fp32" else _LEAST_IN_BYTES_DB):
                raise CaptureError(
                    f"{self._where} reads a text of {length} tokens otherwise {how} than at once: its scores are only "
                    f"{agreement:.0f} dB alike",
                    why=self._suspect(cache),
                    fix=_IN_PLACE,
                )
        if not cache:
            raise CaptureError(
                f"{self._where} keeps nothing from one call to the next", why="it writes no buffer", fix=_IN_PLACE
            )
        self._check_new_texts(short, vocabulary, asked)
        self._read(text[:_PROBED], pieces(min(length, _PROBED), 1))
        self.rows = find_rows(cache, self._buffers.value_of, asked.context, _PROBED)
        self.longer = find_longer(cache, self._buffers.value_of, asked.context, _PROBED)
        self._buffers.restore()
        return cache

    def _check_new_texts(self, text: np.ndarray, vocabulary: int, asked: LanguageRequest) -> None:
        """Position 0 begins a new text whatever was read before, and a smaller one takes tokens back, or it is noted.

        The module of a transformers model keeps both by itself.

        Raises:
            CaptureError: What was read before is in the scores of a new text.
        """
        if isinstance(self._model.model, CachedDecoder | CachedEncoderDecoder) or len(text) < _LEAST_REWOUND:
            return
        least = _LEAST_AGREEMENT_DB if asked.kv == "fp32" else _LEAST_IN_BYTES_DB
        # Of a short memory a long text would have nothing left.
        other = random_text(vocabulary, len(text), SEED + 1)
        parts, begin = pieces(len(text), asked.chunk), pieces(_LEAST_REWOUND // 2, asked.chunk)
        fresh = self._read(other, begin)
        self._read(text, parts)
        again = self._read(other, begin, anew=False)
        assert fresh is not None and again is not None
        agreement = measure_sqnr_db(fresh.numpy(), again.numpy())
        if agreement < least:
            raise CaptureError(
                f"{self._where} does not begin a new text at position 0: behind another text its scores are only "
                f"{agreement:.0f} dB alike",
                why="what was read before is still in its buffers, and position 0 does not clear it",
                fix="begin from nothing where position is 0: state = self.state * (position > 0)",
            )
        left = len(text) // 2
        joined = np.concatenate((text[:left], other[left : left + 1]))
        expected = self._read(joined, pieces(len(joined), asked.chunk))
        self._read(text, parts)
        found = self._read(joined, [slice(left, left + 1)], anew=False)
        assert expected is not None and found is not None
        self.rewinds = measure_sqnr_db(expected.numpy(), found.numpy()) >= least

    def show_prefix(self, asked: LanguageRequest, vocabulary: int) -> tuple[NextToken, list[str]]:
        """Let the model see the filled part of its cache only, where that changes nothing.

        Args:
            asked: Context and chunk.
            vocabulary: How many tokens there are.

        Returns:
            The module to capture, and a sentence about what is read of the cache; none for a model without one, whose
            state has one size.
        """
        whole = self._model
        if not self.rows and self.longer:
            names, size = [name.removeprefix("model.") for name in self.longer], max(self.longer.values())
            return whole, [
                f"the whole cache ({shorten(names)}) is read at every step: it has places for {size} tokens, and "
                f"--context is {asked.context}; with buffers as long as the context the filled part would be enough"
            ]
        if not self.rows:
            return whole, []
        names = [name.removeprefix("model.") for name in self.rows]
        reads_all = f"the whole cache ({shorten(names)}) is read at every step: "
        prefix = find_prefix(self.rows, asked.context)
        if prefix is None:
            return whole, [f"{reads_all}a context of {asked.context} tokens is too short to read a part of it"]
        text = random_text(vocabulary, min(2 * asked.chunk + 1, asked.context))
        ways = (pieces(len(text), asked.chunk), pieces(min(len(text), _MOST_SINGLE), 1))
        expected = self._over_whole_cache or [self._read(text[: parts[-1].stop], parts) for parts in ways]
        least = _LEAST_SAME_DB if asked.kv == "fp32" else _LEAST_IN_BYTES_DB
        problems: list[str] = []
        for tried in itertools.islice(itertools.chain([prefix], without_each_kind(prefix)), _MOST_PREFIXES):
            self._model = NextToken(whole.model, whole.head, tried).eval()
            problem = self._try_prefix(text, ways, expected, least, asked.chunk)
            self._buffers.restore()
            if problem is None:
                return self._model, [_describe_prefix(prefix, tried)]
            problems.append(problem)
        self._model = whole
        return whole, [reads_all + problems[0]]

    def _try_prefix(
        self,
        text: np.ndarray,
        ways: Sequence[Sequence[slice]],
        expected: Sequence[torch.Tensor | None],
        least: float,
        chunk: int,
    ) -> str | None:
        """Why the model with a prefix is not what it was; None where it is."""
        try:
            found = [self._read(text[: parts[-1].stop], parts) for parts in ways]
            for one, other in zip(expected, found, strict=True):
                agreement = None if one is None or other is None else measure_sqnr_db(one.numpy(), other.numpy())
                if agreement is not None and agreement < least:
                    return f"without its rest the scores are {agreement:.0f} dB alike"
            try_capture(self._model, text[:chunk])
        # The user's code meets sizes that it was not written for: whatever it raises, it keeps what it has.
        except Exception as error:
            return f"its beginning does not fit: {self._say_why(error)}"
        return None

    def _say_why(self, error: Exception) -> str:
        """The user's line at which the beginning of the cache does not fit, and what was raised there."""
        if isinstance(error, EdgexError):
            where, why = error.where, (error.why or error.what).strip().partition("\n")[0]
        else:
            line = line_of_error(error, self._root)
            where, why = None if line is None else str(line), _first_line(error)
        return f"{where}: {why}" if where else why

    def _read(
        self, text: np.ndarray, parts: Sequence[slice], *, at_once: bool = False, anew: bool = True
    ) -> torch.Tensor | None:
        """The scores after a text that is read from the beginning; None where the module takes no more than a chunk."""
        if anew:
            self._buffers.restore()
        tokens = torch.from_numpy(text[None])
        inner = self._model.model

        def read() -> torch.Tensor:
            if at_once and isinstance(inner, CachedDecoder | CachedEncoderDecoder):
                return inner.without_cache(tokens)
            logits: torch.Tensor
            for part in parts:
                logits = self._model(tokens[:, part], torch.tensor([part.start]))["logits"]
            return logits

        try:
            found: torch.Tensor = self._call(read)
        except UsageError:
            if at_once:
                return None
            raise
        return found.float()

    def _written(self) -> dict[str, torch.Tensor]:
        """The buffers that reading a text has changed.

        Raises:
            CaptureError: One of them was replaced by another of another size.
        """
        named = dict(self._model.named_buffers())
        found = {name: named[name] for name in self._buffers.touched() if name in named}
        for name, tensor in found.items():
            before = self._buffers.value_of(name)
            if before is not None and before.shape != tensor.shape:
                raise CaptureError(
                    f"{self._where} replaces its buffer {name.removeprefix('model.')}, which grows from "
                    f"{list(before.shape)} to {list(tensor.shape)}",
                    why="a program's memory is planned once: a cache that grows has no place in it",
                    fix=_IN_PLACE,
                )
        return found

    def _suspect(self, cache: Mapping[str, torch.Tensor]) -> str:
        if not cache:
            return "it writes no buffer: nothing is kept from one call to the next"
        names = [name.removeprefix("model.") for name in cache]
        return (
            f"it writes {shorten(names)}: perhaps not at the given position, or its mask lets a token see what comes "
            "after it, or what an earlier text left"
        )

    def _call(self, call: Callable[[], Any]) -> Any:
        def run() -> Any:
            with reference_conditions():
                return call()

        return run_user_code(run, self._where, self._root)


def take_as_float32(module: torch.nn.Module) -> list[str]:
    """Checkpoints of language models are kept in half precision; edgex starts from float32, which holds each value."""
    kinds = sorted({str(p.dtype).removeprefix("torch.") for p in module.parameters() if p.dtype in _HALVES})
    if not kinds:
        return []
    for owner in module.modules():
        for name, parameter in owner.named_parameters(recurse=False):
            if parameter.dtype in _HALVES:
                parameter.data = parameter.data.float()
                # As if made anew, one by one: whoever counts what memory holds may move it to disk.
                owner.register_parameter(name, parameter)
    module.float()
    return [f"the weights were {' and '.join(kinds)}: they are taken as float32, which holds the same values"]


_HALVES = (torch.float16, torch.bfloat16)


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _describe_prefix(possible: PrefixLengths, shown: PrefixLengths) -> str:
    found = f"the filled part of the cache is read, in steps of {shown.step} tokens"
    whole = [name.removeprefix("model.") for name in possible.buffers if name not in shown.buffers]
    return found if not whole else f"{found}; read whole, though as long as the context: {shorten(whole)}"


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
