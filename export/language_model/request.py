"""What `--llm` asks for: how long a text may be, how much of it one call takes, and what of it is kept in few bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

from edgex.delegates.recipes.recipes import Head, Table
from edgex.errors import UsageError, nearest_name

# How many tokens one call of prefill takes where nobody says: enough to keep a CPU's matrix kernels busy.
USUAL_CHUNK = 256
# A text needs a token that was given and one that follows.
_LEAST_CONTEXT = 2
# What users write, and what it means.
_HEADS = {"int8": "int8", "none": "float"}
_TABLES = {"int8": "int8", "none": "float"}
_CACHES = {"fp32": "fp32", "int8": "int8"}
Cache = Literal["fp32", "int8"]


@dataclass(frozen=True)
class LanguageRequest:
    """A model is to be exported as a language model.

    Attributes:
        context: How many tokens a text may have, the prompt included.
        chunk: How many tokens one call of prefill takes at most.
        source: How many tokens an encoder reads at most; None is as many as the context, or as the model can.
        head: What becomes of the layer that gives the scores under a recipe; see `Recipe`.
        embedding: What becomes of the tables of embeddings under a recipe.
        kv: What the cache is kept in.
    """

    context: int
    chunk: int
    source: int | None = None
    head: Head = "recipe"
    embedding: Table = "float"
    kv: Cache = "fp32"

    @property
    def settings(self) -> dict[str, Any]:
        """What an artifact does not tell otherwise: the manifest's `settings` have it, where it was given."""
        cache = {} if self.kv == "fp32" else {"kv": self.kv}
        return {**cache, **({} if self.source is None else {"source": self.source})}

    @property
    def quantized_alone(self) -> str | None:
        """The flag that means something with `--quantize` only, where one is given."""
        if self.head != "recipe":
            return f"--head {_words(self.head)}"
        return f"--embedding {self.embedding}" if self.embedding != "float" else None


def read_request(
    llm: bool,
    context: int | None,
    chunk: int | None,
    source: int | None = None,
    head: str | None = None,
    embedding: str | None = None,
    kv: str | None = None,
) -> LanguageRequest | None:
    """`--llm` and the flags that go with it, checked; None where the model is no language model.

    Args:
        llm: Whether it is one.
        context: `--context`.
        chunk: `--chunk`.
        source: `--source`.
        head: `--head`: `int8`, `none` for float, or None for what the recipe makes of every layer.
        embedding: `--embedding`: `int8`, or None or `none` for float.
        kv: `--kv`: `int8`, or None or `fp32`.

    Raises:
        UsageError: They do not fit together.
    """
    if not llm:
        given = (("--context", context), ("--chunk", chunk), ("--source", source), ("--kv", kv))
        for flag, value in (*given, ("--head", head), ("--embedding", embedding)):
            if value is not None:
                raise UsageError(f"{flag} is for language models", fix=f"add --llm, or leave {flag} out")
        return None
    if context is None:
        raise UsageError(
            "--llm without --context",
            why="the cache has a fixed size, and no size is right for all: it bounds prompt and answer together",
            fix="say how many tokens a text may have: --context 2048",
        )
    if context < _LEAST_CONTEXT:
        raise UsageError(
            f"--context must be at least {_LEAST_CONTEXT}, not {context}", fix="say how many tokens a text may have"
        )
    if source is not None and source < 1:
        raise UsageError(f"--source must be at least 1, not {source}", fix="say how many tokens the encoder may read")
    kept = cast(Head, _read_choice("--head", head, _HEADS, "recipe"))
    table = cast(Table, _read_choice("--embedding", embedding, _TABLES, "float"))
    cache = cast(Cache, _read_choice("--kv", kv, _CACHES, "fp32"))
    if chunk is None:
        return LanguageRequest(context, min(USUAL_CHUNK, context), source, kept, table, cache)
    if not 1 <= chunk <= context:
        raise UsageError(
            f"--chunk must be 1 to the context of {context}, not {chunk}",
            fix=f"leave --chunk out, for {USUAL_CHUNK} or less",
        )
    return LanguageRequest(context, chunk, source, kept, table, cache)


def _read_choice(flag: str, given: str | None, known: dict[str, str], otherwise: str) -> str:
    if given is None:
        return otherwise
    if given not in known:
        raise UsageError(f"{flag} {given} is unknown", why=nearest_name(given, tuple(known)))
    return known[given]


def _words(head: Head) -> str:
    return next(word for word, meant in _HEADS.items() if meant == head)
