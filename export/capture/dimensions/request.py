"""What the user asks for one dimension of one input; nothing here needs torch."""

from __future__ import annotations

from dataclasses import dataclass

from edgex.runtime.artifact.specs import Dim


@dataclass(frozen=True)
class DimRequest(Dim):
    """A dimension of size `factor * name + offset`.

    Attributes:
        name: What dimensions share that follow each other.
        min: Smallest size of what has the name.
        max: Its largest size.
        factor: See above.
        offset: See above.
        auto: torch.export may find that it is constant, or follows another.
    """

    factor: int = 1
    offset: int = 0
    auto: bool = False
