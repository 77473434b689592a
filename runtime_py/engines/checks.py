"""Rungs: what must hold, one thing on top of another, before a target works on a machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from edgex.runtime.engines.base import Availability


@dataclass(frozen=True)
class Rung:
    """One thing that was looked at.

    Attributes:
        name: What, in one or two words.
        passed: Whether it holds; None where it was not tried because a rung below failed.
        detail: What was found, one sentence.
        fix: The one command that helps, where it does not hold.
    """

    name: str
    passed: bool | None
    detail: str
    fix: str | None = None

    def to_json(self) -> dict[str, Any]:
        """One entry of `rungs` of `edgex.targets/1`."""
        return asdict(self)


def rung_of(name: str, found: Availability, holds: str) -> Rung:
    """An availability as a rung; `holds` is its sentence when it is available."""
    return Rung(name, found.available, holds if found.available else str(found.reason), found.fix)


def first_failure(rungs: Sequence[Rung]) -> Rung | None:
    """The lowest rung that does not hold."""
    return next((rung for rung in rungs if rung.passed is False), None)


def as_availability(rungs: Sequence[Rung]) -> Availability:
    """Available when every rung holds; else the first that does not, with its fix."""
    failed = first_failure(rungs)
    if failed is None:
        return Availability(True)
    return Availability(False, f"{failed.name}: {failed.detail}", failed.fix)
