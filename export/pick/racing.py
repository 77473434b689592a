"""Let the artifacts that are close run against each other, longer those that stay close.

```
semifinal  the quickest few of the heat, in turns in one process each: those surely slower go
final      who is left, in turns in three fresh processes each, until intervals are narrow or time is up
```

Who was out of reach in the heat and took no longer there than the winner in the end is called back, and all is run
again with it: the heat runs one after another, and a machine may become slower meanwhile.

A draw is an answer: whoever is not surely slower than the quickest, and not by more than the margin, is as good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from edgex.export.pick.contenders import (
    MOST_AT_ONCE,
    RECALL_MARGIN,
    Contender,
    Heat,
    Progress,
    Standing,
    choose_close,
    first_of_each,
)
from edgex.export.pick.heat import make_contestant
from edgex.runtime.measure.statistics import DEFAULT_MARGIN, Nesting, RatioEstimate, estimate_ratio
from edgex.runtime.measure.turns.contest import MIN_SESSIONS, PROCESSES, run_contest

# Of the time that is given.
_SEMIFINAL_SHARE, _FINAL_SHARE = 0.3, 0.7
# Who is not surely slower goes on: the semifinal need not know more, and eight artifacts of 400 MB take 15 s to open.
_SEMIFINAL_SESSIONS = 4


@dataclass(frozen=True)
class _Round:
    """How a round is run: fresh processes of each, sessions of each over all of them, and seconds of measuring."""

    stage: str
    processes: int
    least_sessions: int
    seconds: float


def run_race(heat: Heat, max_seconds: float, progress: Progress) -> Standing:
    """Let those that are close in a heat run against each other in turns.

    Args:
        heat: Somebody was timed in it.
        max_seconds: For both rounds, beside starting processes.
        progress: Called with a stage and a detail.
    """
    close = choose_close(heat.timed, heat.margin)
    standing = _race(close, [one for one in heat.timed if one not in close], max_seconds, progress)
    back = _find_recalled(standing)
    if back:
        runs = [*standing.drawn[: max(1, MOST_AT_ONCE - len(back))], *back][:MOST_AT_ONCE]
        others = [one for one in (*standing.drawn, *standing.beaten) if one not in runs]
        standing = _race(runs, others, max_seconds, progress)
    return standing


def _race(close: Sequence[Contender], beaten: Sequence[Contender], max_seconds: float, progress: Progress) -> Standing:
    semifinal = _Round("semifinal", 1, _SEMIFINAL_SESSIONS, _SEMIFINAL_SHARE * max_seconds)
    final = _Round("final", PROCESSES, MIN_SESSIONS, _FINAL_SHARE * max_seconds)
    for turn in (semifinal, final):
        if len(close) == 1:
            break
        progress(turn.stage, "; ".join(one.label for one in close))
        close, slower = _run_round(close, turn, progress)
        beaten = [*slower, *beaten]
    drawn = [one for one in close if one.ratio is None or _is_as_quick(one.ratio)]
    return Standing(tuple(drawn), (*(one for one in close if one not in drawn), *beaten))


def _find_recalled(standing: Standing) -> list[Contender]:
    """The best of each combination that never ran beside another, and whose block says nothing against it by now."""
    limit = RECALL_MARGIN * standing.drawn[0].seconds
    ran = {one.candidate for one in (*standing.drawn, *standing.beaten) if one.ratio is not None}
    ran |= {one.candidate for one in standing.drawn}
    waiting = sorted((one for one in standing.beaten if one.candidate not in ran), key=lambda one: one.seconds)
    return [one for one in first_of_each(waiting).values() if one.seconds <= limit]


def _run_round(
    contenders: Sequence[Contender], turn: _Round, progress: Progress
) -> tuple[list[Contender], list[Contender]]:
    """Time contenders in turns: the quickest first and all that are not surely slower; those that are."""
    contestants = [make_contestant(one.judged, one.threads, one.options) for one in contenders]
    contest = run_contest(
        contestants,
        processes=turn.processes,
        least_sessions=turn.least_sessions,
        max_seconds=turn.seconds,
        last_is_first=False,
        progress=progress,
    )
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
