"""What `--llm` asks for: how long a text may be, and how much of it one call takes."""

from __future__ import annotations

from dataclasses import dataclass

from edgex.errors import UsageError

# How many tokens one call of prefill takes where nobody says: enough to keep a CPU's matrix kernels busy.
USUAL_CHUNK = 256
# A text needs a token that was given and one that follows.
_LEAST_CONTEXT = 2


@dataclass(frozen=True)
class LanguageRequest:
    """A model is to be exported as a language model.

    Attributes:
        context: How many tokens a text may have, the prompt included.
        chunk: How many tokens one call of prefill takes at most.
    """

    context: int
    chunk: int


def read_request(llm: bool, context: int | None, chunk: int | None) -> LanguageRequest | None:
    """`--llm`, `--context` and `--chunk`, checked; None where the model is no language model.

    Raises:
        UsageError: They do not fit together.
    """
    if not llm:
        for flag, value in (("--context", context), ("--chunk", chunk)):
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
    if chunk is None:
        return LanguageRequest(context, min(USUAL_CHUNK, context))
    if not 1 <= chunk <= context:
        raise UsageError(
            f"--chunk must be 1 to the context of {context}, not {chunk}",
            fix=f"leave --chunk out, for {USUAL_CHUNK} or less",
        )
    return LanguageRequest(context, chunk)
