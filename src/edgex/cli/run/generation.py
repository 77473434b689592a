"""A text under way: who generates it, what is shown of it, and what is said of it at its end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NoReturn

from edgex.cli.run.place import Place
from edgex.errors import UsageError

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import Artifact
    from edgex.runtime.execute.base import TextRun
    from edgex.runtime.execute.request import RunResult, TextRequest
    from edgex.runtime.generation.generator import Finish
    from edgex.runtime.generation.tokenizer import Tokenizer
    from edgex.runtime.session.session import Session


def refuse_place(place: Place) -> NoReturn:
    """Say that what the place names cannot generate.

    Raises:
        UsageError: Always.
    """
    raise UsageError(
        f"edgex generate does not go with --device {place.address}",
        fix="generate here, or on a Linux machine: --device ssh:HOST, --device local-native",
    )


@contextmanager
def begin_text(
    place: Place, artifact: Artifact, request: TextRequest, *, tuned: bool, quiet: bool
) -> Iterator[TextRun]:
    """What will generate, in this process or on a device.

    Raises:
        UsageError: The device can do other things only.
        EdgexError: It cannot be loaded, or reached.
    """
    if place.is_here:
        from edgex.runtime.engines.loading import open_session

        started = time.perf_counter()
        with open_session(artifact, request.threads, {}, tuned=tuned) as session:
            yield _Here(session, request, time.perf_counter() - started)
        return
    from edgex.runtime.execute.base import GeneratesText

    with place.opened([artifact]) as executor:
        if not isinstance(executor, GeneratesText):
            refuse_place(place)
        with place.progress(quiet=quiet) as progress:
            run = executor.generate(artifact, request, progress)
        yield run


class _Here:
    """This process as a `TextRun`."""

    def __init__(self, session: Session, request: TextRequest, load_seconds: float) -> None:
        self.load_seconds: float | None = load_seconds
        self._session, self._generator = session, session.generator()
        if request.source is not None:
            self._generator.feed(**request.source)
        self._tokens = self._generator.stream(
            request.ids, max_new=request.max_new, sampling=request.sampling, ignore_eos=request.ignore_eos
        )
        self.seed, self.spent = self._generator.seed, self._generator.spent

    @property
    def finish(self) -> Finish | None:
        return self._generator.finish

    @property
    def result(self) -> RunResult:
        from edgex.runtime.execute.request import RunResult

        return RunResult(self._session.executed_on, self._session.threads, ())

    def __iter__(self) -> Iterator[int]:
        return self._tokens


class ShownText:
    """What is shown of a generation."""

    def __init__(self, run: TextRun, prompt: list[int], stop: tuple[str, ...], tokenizer: Tokenizer | None) -> None:
        from edgex.runtime.generation.text import Detokenizer, TextStream

        self._run, self._ids = run, list[int]()
        self._stream = None if tokenizer is None else TextStream(iter(run), Detokenizer(tokenizer.decode, prompt), stop)

    @property
    def ids(self) -> list[int]:
        """New ids so far."""
        return self._ids if self._stream is None else self._stream.ids

    @property
    def text(self) -> str | None:
        """The text so far; None without a tokenizer."""
        return None if self._stream is None else self._stream.text

    @property
    def finish(self) -> str | None:
        """Why it ended; None where it has not."""
        return "stop" if self._stream is not None and self._stream.stopped_by else self._run.finish

    @property
    def text_seconds(self) -> float | None:
        """Spent on making text of ids; None without a tokenizer."""
        return None if self._stream is None else self._stream.seconds

    def pieces(self) -> Iterator[str]:
        """Text, or ids with commas between them."""
        if self._stream is not None:
            yield from self._stream
            return
        for token in self._run:
            self._ids.append(token)
            yield f"{',' if len(self._ids) > 1 else ''}{token}"


def describe_text(
    artifact: Artifact, request: TextRequest, run: TextRun, text: ShownText, *, interrupted: bool
) -> dict[str, Any]:
    """The `edgex.generate/1` document."""
    spent, result = run.spent, run.result
    return {
        "schema": "edgex.generate/1",
        "artifact": str(artifact.path),
        "executed_on": result.place,
        "threads": result.threads,
        "sampling": {**asdict(request.sampling), "seed": run.seed},
        "prompt_tokens": len(request.ids),
        "ids": text.ids,
        "text": text.text,
        "finish": "interrupted" if interrupted else text.finish,
        "seconds": {
            "load": run.load_seconds,
            "encode": None if request.source is None else spent.encode_seconds,
            "prefill": spent.prefill_seconds,
            "decode": spent.decode_seconds,
            "sampling": spent.sampling_seconds,
            "text": text.text_seconds,
        },
        "tokens_per_second": {
            "prefill": _rate(spent.prefilled, spent.prefill_seconds),
            "decode": _rate(spent.decoded, spent.decode_seconds),
        },
        "device": result.describe_device(),
    }


def _rate(count: int, seconds: float) -> float | None:
    return count / seconds if count and seconds else None


_ENDINGS = {
    "eos": "the model ended the text",
    "stop": "a stop text came",
    "length": "as many as --max-new allows",
    "context": "the context is full",
}


def summarize_text(document: dict[str, Any]) -> str:
    """One line on stderr, behind the text."""
    seconds, rates = document["seconds"], document["tokens_per_second"]
    encoded = "" if seconds["encode"] is None else f"the source encoded in {seconds['encode']:.2f} s, "
    decoded = "" if rates["decode"] is None else f" at {rates['decode']:,.1f} tokens/s"
    loaded = "" if seconds["load"] is None else f", after {seconds['load']:.2f} s of loading"
    return (
        f"[{encoded}{document['prompt_tokens']} tokens read at {rates['prefill']:,.0f} tokens/s, "
        f"{len(document['ids'])} written{decoded}{loaded}; "
        f"{_ENDINGS[document['finish']]}]"
    )
