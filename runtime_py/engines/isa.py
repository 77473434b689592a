"""Whether this processor has the instruction sets that an artifact asks for."""

from __future__ import annotations

from collections.abc import Sequence

from edgex.runtime.support.machine.host import read_host


def missing_isa(required: Sequence[str]) -> list[str]:
    """Those of `required`, by Linux's names, that the processor lacks; none where the system does not tell."""
    present = read_host().isa if required else None
    return [] if present is None else [name for name in required if name not in present]
