"""`--fail-on 3%`: fail where a candidate is surely slower than the baseline by more than a limit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from edgex.errors import UsageError
from edgex.runtime.measure.compare.reports import differing_hosts
from edgex.runtime.measure.compare.result import Comparison, Contrast


@dataclass(frozen=True)
class GateResult:
    """What a limit says of a comparison.

    Attributes:
        limit: The limit as a share: 0.03 is 3 %.
        failed: Candidates that are slower than the baseline by more than that: the verdict is `slower`, and the whole
            interval lies beyond the limit.
        undecided: Candidates that may be, but not surely: the interval reaches beyond the limit.
    """

    limit: float
    failed: tuple[str, ...]
    undecided: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The entry `fail_on`."""
        return {"limit": self.limit, "failed": list(self.failed), "undecided": list(self.undecided)}


def parse_limit(text: str) -> float:
    """`3%` or `2.5 %` as 0.03, 0.025.

    Raises:
        UsageError: It has another form.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?|\.\d+)\s*%", text.strip())
    if match is None:
        raise UsageError(
            f"--fail-on {text}: expected a percentage",
            why="the share of the baseline's latency that a candidate may be slower by",
            fix="--fail-on 3%",
        )
    return float(match[1]) / 100.0


def check_gate(comparison: Comparison, limit: float) -> GateResult:
    """Check every candidate against a limit.

    Args:
        comparison: What was found.
        limit: A share of the baseline's latency.
    """
    failed = [contrast.candidate for contrast in comparison.contrasts if _is_surely_slower(contrast, limit)]
    undecided = [
        contrast.candidate
        for contrast in comparison.contrasts
        if contrast.candidate not in failed and _may_be_slower(contrast, limit)
    ]
    return GateResult(limit, tuple(failed), tuple(undecided))


def refuse_other_hosts(comparison: Comparison, allowed: bool) -> None:
    """A gate on reports of different machines would judge the machines.

    Raises:
        UsageError: They are of different machines and that is not allowed.
    """
    first, *others = comparison.subjects
    for other in others:
        hosts = differing_hosts(first.report.host, other.report.host)
        if hosts and not allowed:
            raise UsageError(
                "--fail-on cannot judge reports of different machines",
                f"{first.label}, {other.label}",
                "measure both on one machine; --allow-different judges them all the same",
                why="; ".join(hosts),
            )


def _is_surely_slower(contrast: Contrast, limit: float) -> bool:
    interval = contrast.judgement.estimate.ci95
    return contrast.judgement.verdict == "slower" and interval is not None and interval[0] > 1.0 + limit


def _may_be_slower(contrast: Contrast, limit: float) -> bool:
    interval = contrast.judgement.estimate.ci95
    return interval is None or interval[1] > 1.0 + limit
