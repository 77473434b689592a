"""What runs against each other: artifacts with a number of threads and engine settings, and which of them are close."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgex.export.pick.candidates import Candidate, Loser
from edgex.export.pick.judging import Judged
from edgex.runtime.measure.statistics import DEFAULT_MARGIN, RatioEstimate
from edgex.runtime.report.figures import count, format_options

Progress = Callable[[str, str], None]

# Beyond this, a heat's two short blocks are enough to say that it is slower: a busy machine moved them by up to 1.4.
HEAT_MARGIN = 1.6
# The same where other programs were seen at work: they doubled and tripled blocks of a network of 40 ms.
BUSY_MARGIN = 3.0
# Who was out of reach in the heat, but there took less than this times what the winner takes in the end, was not
# beaten: the machine has become slower since.
RECALL_MARGIN = 1.2
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
        busy: Whether other programs were at work meanwhile.
    """

    timed: tuple[Contender, ...]
    failed: tuple[Loser, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    busy: bool = False

    @property
    def margin(self) -> float:
        """Who takes at most this times the time of the quickest is within reach."""
        return max(HEAT_MARGIN, BUSY_MARGIN) if self.busy else HEAT_MARGIN


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
    """The best threads and settings of each combination; settings where they are quicker by more than a draw's margin.

    Args:
        contenders: The best first.
    """
    found: dict[Candidate, Contender] = {}
    for one in contenders:
        found.setdefault(one.candidate, one)
    for candidate, one in found.items():
        default = find_default(one, contenders)
        if default is not None and default.seconds <= (1.0 + DEFAULT_MARGIN) * one.seconds:
            found[candidate] = default
    return found


def find_default(one: Contender, contenders: Sequence[Contender]) -> Contender | None:
    """The same artifact on as many threads with its engine's defaults."""
    key = one.candidate, one.threads
    return next((other for other in contenders if (other.candidate, other.threads) == key and not other.options), None)


def choose_close(timed: Sequence[Contender], margin: float | None = None) -> list[Contender]:
    """Those within reach of the quickest, as many as can run at once: each combination once before any comes twice.

    Settings never run without the defaults beside them, however these did before.

    Args:
        timed: The quickest first.
        margin: See `Heat`; None is that of a quiet machine.
    """
    reach = (HEAT_MARGIN if margin is None else margin) * timed[0].seconds
    within = [one for one in timed if one.seconds <= reach]
    chosen: list[Contender] = []
    for one in (*first_of_each(within).values(), *within):
        default = find_default(one, timed) if one.options else None
        new = [other for other in (default, one) if other is not None and other not in chosen]
        if len(chosen) + len(new) <= MOST_AT_ONCE:
            chosen += new
    return chosen
