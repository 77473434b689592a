"""Errors about sizes in the words of `--llm`, where the user has given no `--dynamic`."""

from __future__ import annotations

from edgex.errors import EdgexError
from edgex.runtime.artifact.language_model import TOKENS

_LOOP = (
    "write the recurrence over the tokens of a chunk with operators that take all of them (cumulative sums, products "
    "of matrices), or give --chunk 1: the loop has one step then, and prefill reads a prompt token by token"
)
_SIZE = (
    "take the number of tokens from the input (tokens.shape[1]), or give --chunk 1: every call then has one token, and "
    "prefill reads a prompt token by token"
)
_ENCODER = "take sizes from the encoder's input (x.shape[1]), or let them be fixed by its example inputs"


def explain_for_llm(error: EdgexError, *, decoder: bool) -> None:
    """An error about a size that varies, as somebody reads it who said `--context` and `--chunk`.

    Args:
        error: Of capture; it is changed where it speaks of `--dynamic`.
        decoder: Whether it is about the decoder, whose number of tokens varies; else about the encoder.
    """
    if "--dynamic" not in (error.fix or ""):
        return
    # Of one that torch has given a name of its own.
    if decoder and error.what.endswith(" cannot be dynamic"):
        error.what = f"the number of {TOKENS} in a call cannot vary"
    loop = "loop" in error.what or "loop" in (error.why or "")
    error.fix = (_LOOP if loop else _SIZE) if decoder else _ENCODER
