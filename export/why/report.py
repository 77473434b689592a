"""What `edgex why` found. JSON schema `edgex.why/2`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from edgex.delegates.plan import Fallback, PartitionPlan
from edgex.errors import EdgexError
from edgex.export.result import Failure


@dataclass(frozen=True)
class Measured:
    """What the operators of one fallback cost in a profile.

    Attributes:
        median_seconds: Their times in one traced run, summed, in seconds.
        share: Of all traced operators' time, 0 to 1.
    """

    median_seconds: float
    share: float


@dataclass(frozen=True)
class LeftOut:
    """An operator that a target leaves out, with what is known about it.

    Attributes:
        fallback: What the target's plan says. Its `rewrite` was not applied: what rewrites left has none.
        taken_by: The other targets of this report that take everything on the same source line.
        measured: Its cost, where a profile was given; None where it was not, or where the profile does not show it.
    """

    fallback: Fallback
    taken_by: tuple[str, ...] = ()
    measured: Measured | None = None

    def to_json(self) -> dict[str, Any]:
        """What one entry of `delegation.fallbacks` has beside the fallback itself."""
        found = self.measured
        measured = None if found is None else {"median_seconds": found.median_seconds, "share": round(found.share, 4)}
        return {"taken_by": list(self.taken_by), "measured": measured}


def list_left_out(plan: PartitionPlan, *, rewrites_on: bool) -> tuple[LeftOut, ...]:
    """What a plan leaves out; where rewrites were applied already, none is offered."""
    return tuple(LeftOut(replace(item, rewrite=None) if rewrites_on else item) for item in plan.fallbacks)


@dataclass(frozen=True)
class TargetView:
    """One target's answer.

    Attributes:
        target: Its name.
        plan: What it takes and leaves.
        left_out: The plan's fallbacks, most expensive first where a profile was given, else in program order.
        rewrites: What was rewritten for it before.
        fallback_share: Measured share of the time that everything left out takes; None without a profile.
        method: Which of the model's methods was asked about; None where one program is all there is.
    """

    target: str
    plan: PartitionPlan
    left_out: tuple[LeftOut, ...] = ()
    rewrites: tuple[Mapping[str, Any], ...] = ()
    fallback_share: float | None = None
    method: str | None = None

    @property
    def exportable(self) -> bool:
        """Whether everything left out can still run on the engine."""
        return not self.plan.fatal

    def to_json(self) -> dict[str, Any]:
        """One entry of `targets`."""
        delegation = PartitionPlan(**{**vars(self.plan), "fallbacks": tuple(item.fallback for item in self.left_out)})
        document = delegation.to_json()
        for entry, item in zip(document["fallbacks"], self.left_out, strict=True):
            entry.update(item.to_json())
        return {
            "target": self.target,
            **({} if self.method is None else {"method": self.method}),
            "exportable": self.exportable,
            "delegation": document,
            "rewrites": [dict(rewrite) for rewrite in self.rewrites],
            "fallback_share": None if self.fallback_share is None else round(self.fallback_share, 4),
        }


@dataclass(frozen=True)
class WhyReport:
    """The answer for all targets.

    Attributes:
        source: Where the model was found, or the artifact's path.
        parameters: How many numbers it has learned; None where unknown.
        weights: `none` where the model was built without values, `built` where its file had to build them, `artifact`
            where an artifact was asked about.
        targets: One view a target.
        blockers: What keeps the model from being captured, all that were found.
        failures: Targets without a view, and why.
        notices: What the user should know, a sentence each.
        seconds: By stage.
        peak_rss_bytes: Of the process.
    """

    source: str | None
    parameters: int | None
    weights: str
    targets: tuple[TargetView, ...] = ()
    blockers: tuple[EdgexError, ...] = ()
    failures: tuple[Failure, ...] = ()
    notices: tuple[str, ...] = ()
    seconds: Mapping[str, float] | None = None
    peak_rss_bytes: int | None = None

    @property
    def exit_code(self) -> int:
        """0; a blocker's, which is that of a failed capture; or the first failure's."""
        errors = [*self.blockers, *(failure.error for failure in self.failures)]
        return errors[0].exit_code if errors else 0

    def to_json(self) -> dict[str, Any]:
        """The `edgex.why/2` document."""
        return {
            "schema": "edgex.why/2",
            "model": {"source": self.source, "parameters": self.parameters, "weights": self.weights},
            "targets": [view.to_json() for view in self.targets],
            "blockers": [
                {"what": error.what, "where": error.where, "why": error.why, "fix": error.fix}
                for error in self.blockers
            ],
            "failures": [failure.to_json() for failure in self.failures],
            "notices": list(self.notices),
            "seconds": {stage: round(seconds, 3) for stage, seconds in (self.seconds or {}).items()},
            "peak_rss_bytes": self.peak_rss_bytes,
        }
