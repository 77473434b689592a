"""Time all artifacts briefly, each in a fresh process of its own, to find those that are close.

```
all                 a short block with the default number of threads, there and back
within some reach   other numbers of threads
the close           the settings that their engines name, one at a time, with the quickest number of threads
```

A setting takes part only where the artifact's golden inputs give the same outputs with it, to the bit, as with the
engine's defaults: what was proved and judged is an artifact with the defaults.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from edgex.errors import EdgexError
from edgex.export.pick import contenders
from edgex.export.pick.candidates import Candidate, Loser
from edgex.export.pick.contenders import Contender, Dropped, Heat, Progress, choose_close, first_of_each
from edgex.export.pick.judging import Judged
from edgex.runtime.engines.base import Setting, list_settings
from edgex.runtime.engines.registry import get_engine
from edgex.runtime.execute.request import Pace
from edgex.runtime.measure.compare.numerics import choose_cases
from edgex.runtime.measure.steps import choose_steps
from edgex.runtime.measure.turns.artifacts import ArtifactContestant
from edgex.runtime.report.figures import format_options
from edgex.runtime.session.runner import EngineSettings
from edgex.runtime.support.machine.activity import Snapshot, describe_activity, find_disturbances, take_snapshot
from edgex.runtime.support.machine.host import read_host

_BLOCK_SECONDS = 0.4

Answers = tuple[Sequence[Sequence[Mapping[str, np.ndarray]]], Mapping[int, str]]


def run_heat(judged: Sequence[Judged], threads: Sequence[int], progress: Progress, *, settings: bool = False) -> Heat:
    """Time every artifact briefly, and other numbers of threads and settings of those that are close.

    Args:
        judged: The artifacts.
        threads: Numbers of threads to try; the first is what all are timed with.
        progress: Called with a stage and a detail.
        settings: Whether engine settings are tried.
    """
    heat = _Heat(progress)
    before = take_snapshot()
    default = [_Entry(one, threads[0]) for one in judged]
    heat.run([*default, *reversed(default)])
    best = min((one.seconds for one in heat.timed), default=0.0)
    # With other threads an artifact gains at most about what cores there are, and seldom half of that.
    reach = contenders.HEAT_MARGIN * max(1.0, max(threads) / 2 if threads[0] < max(threads) else 1.5)
    close = [one.judged for one in heat.timed if one.seconds <= reach * best]
    heat.run([_Entry(one, count) for count in threads[1:] for one in close])
    busy = _was_busy(before)
    if settings and heat.timed:
        for one in first_of_each(choose_close(heat.timed)).values():
            heat.try_settings(one)
    return Heat(tuple(heat.timed), tuple(heat.failed.values()), tuple(heat.dropped), busy)


def _was_busy(before: Snapshot) -> bool:
    """Whether other programs, or other machines of the same host, were at work since then."""
    cores = read_host().logical_cores
    activity = describe_activity(before, take_snapshot(), cores)
    # Switches are counted in this process, which only waits.
    return bool(find_disturbances(dataclasses.replace(activity, involuntary_switches=None), cores))


def make_contestant(judged: Judged, threads: int, options: Mapping[str, Any] | None = None) -> ArtifactContestant:
    """An artifact for a process of its own, not started yet."""
    artifact = judged.made.artifact
    settings = EngineSettings(threads, dict(options or {}))
    return ArtifactContestant(artifact, judged.made.candidate.label, choose_steps(artifact, None), settings, "size")


@dataclass(frozen=True)
class _Entry:
    """What one block times; without a setting, the engine's defaults."""

    judged: Judged
    threads: int
    setting: Setting | None = None

    @property
    def candidate(self) -> Candidate:
        return self.judged.made.candidate

    @property
    def options(self) -> dict[str, Any]:
        return {} if self.setting is None else dict([self.setting])


class _Heat:
    """Short blocks, each in a fresh process: of several of one entry the quickest counts."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._best: dict[tuple[Candidate, int, Setting | None], Contender] = {}
        self.failed: dict[Candidate, Loser] = {}
        self.dropped: list[Dropped] = []

    @property
    def timed(self) -> list[Contender]:
        """The quickest first."""
        found = [one for one in self._best.values() if one.candidate not in self.failed]
        return sorted(found, key=lambda one: one.seconds)

    def run(self, entries: Sequence[_Entry]) -> None:
        """Time entries in their order."""
        for number, entry in enumerate(entries, 1):
            candidate = entry.candidate
            if candidate in self.failed:
                continue
            self._progress("heat", f"{candidate.label} with {entry.threads} threads, {number} of {len(entries)}")
            try:
                with _running(entry) as (contestant, pace):
                    self._time(entry, contestant, pace)
            except EdgexError as error:
                self.failed[candidate] = Loser(candidate, "failed", f"it could not be timed: {error.what}", error.fix)

    def try_settings(self, one: Contender) -> None:
        """Time the settings of a contender's engine, one at a time, after its defaults once more for their outputs."""
        settings = list_settings(get_engine(one.judged.made.artifact.manifest.engine), one.threads)
        if not settings:
            return
        cases = choose_cases(one.judged.made.artifact)
        expected: Answers | None = None
        for setting in (None, *settings):
            entry = _Entry(one.judged, one.threads, setting)
            self._progress("heat", f"{one.label}, {format_options(entry.options) or 'the default settings'}")
            try:
                with _running(entry) as (contestant, pace):
                    answers = contestant.run_cases(cases)
                    if expected is not None and not _are_equal(answers, expected):
                        self._drop(entry, "other outputs than with the default settings")
                        continue
                    self._time(entry, contestant, pace)
            except EdgexError as error:
                self._drop(entry, f"it could not be timed: {error.what}")
                if setting is None:
                    break
                continue
            expected = expected or answers

    def _time(self, entry: _Entry, contestant: ArtifactContestant, pace: Pace) -> None:
        passes = max(3, min(50, round(_BLOCK_SECONDS / max(pace.sample_seconds * pace.samples_per_pass, 1e-9))))
        seconds = median(contestant.time_block(passes, lead_in=True))
        key = entry.candidate, entry.threads, entry.setting
        known = self._best.get(key)
        if known is None or seconds < known.seconds:
            memory = contestant.fresh[-1].peak_rss_bytes
            self._best[key] = Contender(entry.judged, entry.threads, seconds, memory, options=entry.options)

    def _drop(self, entry: _Entry, reason: str) -> None:
        self.dropped.append(Dropped(entry.candidate, entry.threads, entry.options, reason))


@contextmanager
def _running(entry: _Entry) -> Iterator[tuple[ArtifactContestant, Pace]]:
    contestant = make_contestant(entry.judged, entry.threads, entry.options)
    try:
        yield contestant, contestant.start()
    finally:
        contestant.stop()


def _are_equal(ones: Answers, others: Answers) -> bool:
    """Whether two runs of the same cases refused the same and gave the same bits otherwise."""
    if ones[1].keys() != others[1].keys():
        return False
    return all(
        one.keys() == other.keys() and all(one[name].tobytes() == other[name].tobytes() for name in one)
        for steps, other_steps in zip(ones[0], others[0], strict=True)
        for one, other in zip(steps, other_steps, strict=True)
    )
