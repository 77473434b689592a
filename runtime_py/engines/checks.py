"""Checks: what must hold, one thing on top of another, before a target works on a machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from edgex.runtime.engines.base import Availability


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: What, in one or two words.
        passed: Whether it holds; None where it was not tried because a check below failed.
        detail: What was found, one sentence.
        fix: The one command that helps, where it does not hold.
    """

    name: str
    passed: bool | None
    detail: str
    fix: str | None = None

    def to_json(self) -> dict[str, Any]:
        """One entry of `checks` of `edgex.targets/2`."""
        return asdict(self)


def check_of(name: str, found: Availability, holds: str) -> Check:
    """An availability as a check; `holds` is its sentence when it is available."""
    return Check(name, found.available, holds if found.available else str(found.reason), found.fix)


def first_failure(checks: Sequence[Check]) -> Check | None:
    """The lowest check that does not hold."""
    return next((check for check in checks if check.passed is False), None)
