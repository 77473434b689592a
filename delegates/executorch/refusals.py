"""Why a backend of ExecuTorch left an operator out, and what is true of such operators whichever backend it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgex.delegates.plan import ReasonCode

if TYPE_CHECKING:
    from torch.fx import Node

SIZES_ARE_CHEAP = "the runtime computes sizes itself, at next to no cost: nothing to do"

# Operators that often work on no input at all: what they make can be made once.
_LITERALS = "arange full ones zeros tril triu where logical_not ge le lt gt eq".split()  # noqa: SIM905


_GATHERS = (
    "gathering a few elements costs little: nothing to do; where it is the padding of torch.stft(center=True), give "
    "center=False and pad the samples before they go into the model"
)


@dataclass(frozen=True)
class Refusal:
    """Why a backend left an operator out.

    Attributes:
        code: A key of `edgex.delegates.plan.REASON_CODES`.
        reason: A sentence that names the offending value.
        fatal: The engine cannot run it either.
        workaround: See `Fallback.workaround`.
        rewrite: See `Fallback.rewrite`.
    """

    code: ReasonCode
    reason: str
    fatal: bool = False
    workaround: str | None = None
    rewrite: str | None = None


EXCLUDED = Refusal("excluded", "excluded by --exclude")

Refuse = Callable[["Node"], Refusal]


def refuse_unknown(op: str, reason: str) -> Refusal:
    """The refusal of an operator that the backend does not have, for example `aten.arange.start_step`."""
    if op.partition(".")[2].partition(".")[0] in _LITERALS:
        sentence = "what depends on no input belongs in __init__, in a buffer"
        return Refusal("not_in_delegate", reason, workaround=sentence, rewrite="fold_literals")
    gathers = op.startswith("aten.index_select.")
    return Refusal("not_in_delegate", reason, workaround=_GATHERS if gathers else None)
