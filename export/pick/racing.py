"""Time the artifacts that are good enough: briefly all, longer those that are close, at length the last few.

```
heat       each in a fresh process of its own, twice, the second time in reverse order: a short block each; then
           other numbers of threads of those that are within reach
semifinal  the quickest few, in turns in one process each: those surely slower go
final      who is left, in turns in three fresh processes each, until intervals are narrow or time is up
```

A draw is an answer: whoever is not surely slower than the quickest, and not by more than the margin, is as good.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from edgex.errors import EdgexError
from edgex.export.pick.candidates import Candidate, Loser
from edgex.export.pick.judging import Judged
from edgex.runtime.measure.compare.contest import run_contest
from edgex.runtime.measure.compare.contestant import ProcessContestant
from edgex.runtime.measure.statistics import DEFAULT_MARGIN, Nesting, RatioEstimate, estimate_ratio
from edgex.runtime.measure.steps import choose_steps
from edgex.runtime.session.runner import EngineSettings

Progress = Callable[[str, str], None]

# Beyond this, a heat's two short blocks are enough to say that it is slower: a busy machine moved them by up to 1.4.
HEAT_MARGIN = 1.6
# More processes at once than this compete for memory and caches.
MOST_AT_ONCE = 8
# Of a heat's block, and of the shares of the budget.
_HEAT_SECONDS = 0.4
_SEMIFINAL_SHARE, _FINAL_SHARE = 0.3, 0.7


@dataclass(frozen=True)
class Contender:
    """An artifact with a number of threads.

    Attributes:
        judged: The artifact.
        threads: Of one run.
        seconds: Median of one run, the longest measurement that it took part in.
        peak_rss_bytes: Of a fresh process with it, after its first run.
        ratio: Its time over the winner's, from turns beside it; None where it went before.
    """

    judged: Judged
    threads: int
    seconds: float
    peak_rss_bytes: int | None = None
    ratio: RatioEstimate | None = None

    @property
    def candidate(self) -> Candidate:
        """Its combination."""
        return self.judged.made.candidate

    @property
    def label(self) -> str:
        """`xnnpack, 2 threads`."""
        return f"{self.candidate.label}, {self.threads} thread{'' if self.threads == 1 else 's'}"


@dataclass(frozen=True)
class Standing:
    """How a race ended.

    Attributes:
        drawn: Those as quick as the quickest, which is the first.
        beaten: Every other contender that was timed, the quickest first.
    """

    drawn: tuple[Contender, ...]
    beaten: tuple[Contender, ...]


def run_heat(
    judged: Sequence[Judged], threads: Sequence[int], progress: Progress
) -> tuple[list[Contender], list[Loser]]:
    """Time every artifact briefly, one process at a time, there and back; then other numbers of threads of the close.

    Args:
        judged: The artifacts.
        threads: Numbers of threads to try; the first is what all are timed with.
        progress: Called with a stage and a detail.

    Returns:
        The quickest first, and what could not be timed.
    """
    heat = _Heat(progress)
    default = [(one, threads[0]) for one in judged]
    heat.run([*default, *reversed(default)])
    best = min((one.seconds for one in heat.timed), default=0.0)
    # With other threads an artifact gains at most about what cores there are, and seldom half of that.
    reach = HEAT_MARGIN * max(1.0, max(threads) / 2 if threads[0] < max(threads) else 1.5)
    close = [one.judged for one in heat.timed if one.seconds <= reach * best]
    heat.run([(one, count) for count in threads[1:] for one in close])
    return heat.timed, list(heat.failed.values())


class _Heat:
    """Short blocks, each in a fresh process: of several of one entry the quickest counts."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._best: dict[tuple[Candidate, int], Contender] = {}
        self.failed: dict[Candidate, Loser] = {}

    @property
    def timed(self) -> list[Contender]:
        """The quickest first."""
        found = [one for one in self._best.values() if one.candidate not in self.failed]
        return sorted(found, key=lambda one: one.seconds)

    def run(self, entries: Sequence[tuple[Judged, int]]) -> None:
        """Time entries in their order."""
        for number, (one, count) in enumerate(entries, 1):
            candidate = one.made.candidate
            if candidate in self.failed:
                continue
            self._progress("heat", f"{candidate.label} with {count} threads, {number} of {len(entries)}")
            try:
                timed = self._time(one, count)
            except EdgexError as error:
                self.failed[candidate] = Loser(candidate, "failed", f"it could not be timed: {error.what}", error.fix)
                continue
            known = self._best.get((candidate, count))
            if known is None or timed.seconds < known.seconds:
                self._best[candidate, count] = timed

    def _time(self, one: Judged, count: int) -> Contender:
        contestant = _contestant(one, count)
        try:
            pace = contestant.start()
            passes = max(3, min(50, round(_HEAT_SECONDS / max(pace.sample_seconds * pace.samples_per_pass, 1e-9))))
            seconds = median(contestant.time_block(passes, lead_in=True))
            return Contender(one, count, seconds, contestant.fresh[-1].peak_rss_bytes)
        finally:
            contestant.stop()


def run_race(heat: Sequence[Contender], max_seconds: float, progress: Progress) -> Standing:
    """Let those that are close in a heat run against each other in turns.

    Args:
        heat: The quickest first.
        max_seconds: For both rounds, beside starting processes.
        progress: Called with a stage and a detail.
    """
    best = heat[0].seconds
    close = [one for one in heat if one.seconds <= HEAT_MARGIN * best][:MOST_AT_ONCE]
    beaten = [one for one in heat if one not in close]
    for stage, share, processes in (("semifinal", _SEMIFINAL_SHARE, 1), ("final", _FINAL_SHARE, 3)):
        if len(close) == 1:
            break
        progress(stage, ", ".join(one.label for one in close))
        close, slower = _run_round(close, share * max_seconds, processes, progress)
        beaten = [*slower, *beaten]
    drawn = [one for one in close if one.ratio is None or _is_as_quick(one.ratio)]
    beaten = [*(one for one in close if one not in drawn), *beaten]
    return Standing(tuple(drawn), tuple(beaten))


def _run_round(
    contenders: Sequence[Contender], seconds: float, processes: int, progress: Progress
) -> tuple[list[Contender], list[Contender]]:
    """Time contenders in turns: the quickest first and all that are not surely slower; those that are."""
    contestants = [_contestant(one.judged, one.threads) for one in contenders]
    contest = run_contest(contestants, processes=processes, max_seconds=seconds, last_is_first=False, progress=progress)
    nesting = Nesting(contest.plan.rounds_per_session, contest.rounds_per_process)
    timed = [
        replace(one, seconds=median(median(samples) for samples in rounds))
        for one, rounds in zip(contenders, contest.rounds, strict=True)
    ]
    first = min(range(len(timed)), key=lambda at: timed[at].seconds)
    kept, slower = [replace(timed[first], ratio=None)], list[Contender]()
    for at, one in enumerate(timed):
        if at == first:
            continue
        others = [rounds for other, rounds in enumerate(contest.rounds) if other not in (first, at)]
        estimate = estimate_ratio(contest.rounds[first], contest.rounds[at], nesting, others)
        surely = estimate.ci95 is not None and estimate.ci95[0] > 1.0 + DEFAULT_MARGIN
        (slower if surely else kept).append(replace(one, ratio=estimate))
    return kept, sorted(slower, key=lambda one: one.seconds)


def _is_as_quick(ratio: RatioEstimate) -> bool:
    """Whether nothing says that it is slower, and the estimate is within the margin."""
    low = 1.0 if ratio.ci95 is None else ratio.ci95[0]
    return low <= 1.0 and ratio.ratio <= 1.0 + DEFAULT_MARGIN


def _contestant(judged: Judged, threads: int) -> ProcessContestant:
    artifact = judged.made.artifact
    label = judged.made.candidate.label
    return ProcessContestant(artifact, label, choose_steps(artifact, None), EngineSettings(threads), "size")
