"""One language model in a process of its own: the child's side of `edgex.runtime.measure.llm.collect`.

As in llama-bench, tokens are drawn at random (they do not change the work), and neither sampling nor text is in the
figures; those are measured apart.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgex.errors import EdgexError
from edgex.runtime.artifact.artifact import Artifact, open_artifact
from edgex.runtime.artifact.golden import read_example
from edgex.runtime.engines.base import PreloadingEngine
from edgex.runtime.engines.loading import open_session
from edgex.runtime.engines.registry import get_engine
from edgex.runtime.generation.decoder import CachedDecoder, read_decoder
from edgex.runtime.generation.sampling import Sampler, Sampling
from edgex.runtime.generation.tokenizer import open_tokenizer
from edgex.runtime.session.session import Session
from edgex.runtime.support.machine.activity import describe_activity, find_disturbances, take_snapshot
from edgex.runtime.support.machine.memory import read_peak_rss_bytes
from edgex.runtime.support.process.serving import Tell

_SEED = 1
# What draws usually are.
_DRAWN = Sampling(0.8, 40, 0.95, seed=_SEED)
_REPEATS = 20
_LOOP_TOKENS = 64


def answer(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Measure; see `edgex.runtime.measure.llm.collect` for what is asked."""
    artifact = open_artifact(Path(request["artifact"]), "size")
    engine = get_engine(artifact.manifest.engine)
    if isinstance(engine, PreloadingEngine):
        engine.preload()
    before_load = read_peak_rss_bytes()
    started = time.perf_counter()
    with open_session(artifact, request["threads"], {}, tuned=request["tuned"]) as session:
        load_seconds = time.perf_counter() - started
        decoder = read_decoder(session)
        subject = _Subject(session, decoder, _read_source(artifact))
        after_load = read_peak_rss_bytes()
        tests, quiet = [], take_snapshot()
        for depth in request["depths"]:
            for kind, sizes in (("pp", request["prompts"]), ("tg", request["new"])):
                for size in sizes:
                    tell("test", kind=kind, tokens=size, depth=depth)
                    tests.append(_measure(subject, kind, size, depth, request["runs"]))
        activity = describe_activity(quiet, take_snapshot(), os.cpu_count())
        tell("test", kind="apart", tokens=0, depth=0)
        return {
            "executed_on": session.executed_on,
            "threads": session.threads,
            "load_seconds": load_seconds,
            "tests": tests,
            "apart": _measure_apart(subject, artifact),
            "warnings": [asdict(warning) for warning in find_disturbances(activity, os.cpu_count())],
            "memory": {
                "before_load_bytes": before_load,
                "after_load_bytes": after_load,
                "peak_bytes": read_peak_rss_bytes(),
            },
        }


@dataclass(frozen=True)
class _Subject:
    """What is measured.

    Attributes:
        session: Open.
        decoder: Of it.
        source: What its encoder is given before a text; None where there is none.
    """

    session: Session
    decoder: CachedDecoder
    source: Mapping[str, np.ndarray] | None

    def begin(self) -> None:
        """Begin a text."""
        self.decoder.reset()
        if self.source is not None:
            self.decoder.encode(**self.source)


def _read_source(artifact: Artifact) -> Mapping[str, np.ndarray] | None:
    llm = artifact.manifest.llm
    return None if llm is None or llm.encode is None else read_example(artifact.select(llm.encode))


def _measure(subject: _Subject, kind: str, size: int, depth: int, runs: int) -> dict[str, Any]:
    """Samples of one test: of a prompt, seconds of each run; of generated text, seconds of each token."""
    decoder = subject.decoder
    ids = np.random.default_rng(_SEED).integers(0, decoder.limits.vocabulary, depth + size).tolist()
    greedy = Sampler(Sampling())
    subject.begin()
    _fill(decoder, ids[:depth])
    raw: list[list[float]] = []
    first: list[float] = []
    for number in range(runs + 1):
        # Where nothing can be taken back, the cache is filled anew.
        if number and (decoder.counts_itself or not decoder.limits.rewinds):
            subject.begin()
            _fill(decoder, ids[:depth])
        times = []
        if kind == "pp":
            started = time.perf_counter()
            scores = decoder.run(ids[depth:], depth)
            times.append(time.perf_counter() - started)
            greedy.choose(scores, ())
            first.append(time.perf_counter() - started)
        else:
            decode, clock = decoder.decode, time.perf_counter
            for position in range(depth, depth + size):
                started = clock()
                decode(ids[position], position)
                times.append(clock() - started)
        raw.append(times)
    return {
        "kind": kind,
        "tokens": size,
        "depth": depth,
        # The first is the warm-up.
        "raw_seconds": raw[1:],
        "first_token_seconds": first[1:] or None,
    }


def _fill(decoder: CachedDecoder, ids: list[int]) -> None:
    if ids:
        decoder.run(ids, 0)


def _measure_apart(subject: _Subject, artifact: Artifact) -> dict[str, float | None]:
    """What is no part of the figures, for one token: choosing it, making text of it, and the loop around it all."""
    decoder = subject.decoder
    subject.begin()
    scores = decoder.decode(1 % decoder.limits.vocabulary, 0)
    greedy, drawn = Sampler(Sampling()), Sampler(_DRAWN)
    found: dict[str, float | None] = {
        "greedy_seconds": _best(lambda: greedy.choose(scores, ())),
        "drawn_seconds": _best(lambda: drawn.choose(scores, ())),
        "loop_seconds": _measure_loop(subject),
        "encode_seconds": None,
        "decode_seconds": None,
    }
    try:
        tokenizer = open_tokenizer(artifact, decoder.limits.vocabulary)
    except EdgexError:  # without the package, or with another model's file, text is not to be had
        tokenizer = None
    if tokenizer is not None:
        ids = np.random.default_rng(_SEED).integers(0, tokenizer.largest + 1, 256).tolist()
        text = tokenizer.decode(ids)
        count = max(1, len(tokenizer.encode(text)))
        found["encode_seconds"] = _best(lambda: tokenizer.encode(text)) / count
        found["decode_seconds"] = _best(lambda: tokenizer.decode(ids)) / len(ids)
    return found


def _measure_loop(subject: _Subject) -> float | None:
    """What `Generator.stream` takes for a token beside the engine's call and the choice."""
    best = None
    for _ in range(3):
        generator = subject.session.generator()
        generator.reset()
        if subject.source is not None:
            generator.feed(**subject.source)
        count = _LOOP_TOKENS if generator.room is None else min(_LOOP_TOKENS, generator.room - 1)
        if count < 2:
            return None
        stream = generator.stream([1 % generator.limits.vocabulary], max_new=count, ignore_eos=True)
        next(stream)
        spent = generator.spent
        started, before = time.perf_counter(), spent.decode_seconds + spent.sampling_seconds
        for _token in stream:
            pass
        seconds = time.perf_counter() - started - (spent.decode_seconds + spent.sampling_seconds - before)
        best = seconds / (count - 1) if best is None else min(best, seconds / (count - 1))
    return best


def _best(act: Callable[[], object]) -> float:
    """The quickest of some calls, in seconds."""
    times = []
    for _ in range(_REPEATS):
        started = time.perf_counter()
        act()
        times.append(time.perf_counter() - started)
    return min(times)
