"""What runs against each other: artifacts with a number of threads and engine settings, and which of them are close."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgex.export.pick.candidates import Candidate, Loser
from edgex.export.pick.judging import Judged
from edgex.runtime.measure.statistics import RatioEstimate
from edgex.runtime.report.figures import count, format_options

Progress = Callable[[str, str], None]

# Beyond this, a heat's two short blocks are enough to say that it is slower: a busy machine moved them by up to 1.4.
HEAT_MARGIN = 1.6
# More processes at once than this compete for memory and caches.
MOST_AT_ONCE = 8


@dataclass(frozen=True)
class Contender:
    """An artifact with a number of threads and engine settings.

    Attributes:
        judged: The artifact.
        threads: Of one run.
        seconds: Median of one run, the longest measurement that it took part in.
        peak_rss_bytes: Of a fresh process with it, after its first run.
        ratio: Its time over the winner's, from turns beside it; None where it went before.
        options: Engine settings other than the defaults.
    """

    judged: Judged
    threads: int
    seconds: float
    peak_rss_bytes: int | None = None
    ratio: RatioEstimate | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def candidate(self) -> Candidate:
        """Its combination."""
        return self.judged.made.candidate

    @property
    def label(self) -> str:
        """`onnx-cpu, 2 threads, allow_spinning=false`."""
        options = [format_options(self.options)] if self.options else []
        return ", ".join((self.candidate.label, count(self.threads, "thread"), *options))


@dataclass(frozen=True)
class Dropped:
    """Settings of an artifact that are out, and why: they change outputs, or the engine refused them.

    Attributes:
        candidate: Which.
        threads: Of one run.
        options: The settings.
        reason: A sentence.
    """

    candidate: Candidate
    threads: int
    options: Mapping[str, Any]
    reason: str


@dataclass(frozen=True)
class Heat:
    """How a heat ended.

    Attributes:
        timed: The quickest first.
        failed: What could not be timed.
        dropped: Settings that are out.
    """

    timed: tuple[Contender, ...]
    failed: tuple[Loser, ...] = ()
    dropped: tuple[Dropped, ...] = ()


@dataclass(frozen=True)
class Standing:
    """How a race ended.

    Attributes:
        drawn: Those as quick as the quickest, which is the first.
        beaten: Every other contender that was timed, the quickest first.
    """

    drawn: tuple[Contender, ...]
    beaten: tuple[Contender, ...]


def first_of_each(contenders: Sequence[Contender]) -> dict[Candidate, Contender]:
    """The first of each combination, its best threads and settings, from contenders with the best first."""
    found: dict[Candidate, Contender] = {}
    for one in contenders:
        found.setdefault(one.candidate, one)
    return found


def choose_close(timed: Sequence[Contender]) -> list[Contender]:
    """Those within reach of the quickest, as many as can run at once: each combination once before any comes twice.

    Args:
        timed: The quickest first.
    """
    within = [one for one in timed if one.seconds <= HEAT_MARGIN * timed[0].seconds]
    firsts = list(first_of_each(within).values())
    return [*firsts, *(one for one in within if one not in firsts)][:MOST_AT_ONCE]
