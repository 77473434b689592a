"""Part a program until the steps that are wrong by themselves stand alone.

A stretch that is wrong is parted in two, at the boundary of a delegate's partition where one is inside, so that what
the delegate fuses stays together, else in the middle. Both halves are fed with eager's values: a half that is right has
only passed an error on. Where neither half is wrong the stretch as a whole is, roundings that add up, or a fusion: it
is narrowed from both ends as long as it stays wrong.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from edgex.export.bisect.parts.cutting import can_cut, cut
from edgex.export.bisect.parts.judging import Judge, Verdict
from edgex.export.bisect.parts.recording import Recording
from edgex.export.bisect.parts.steps import Step, Whole

# How many places are tried for a cut, where the delegate does not lower a half alone.
_ATTEMPTS = 3


@dataclass(frozen=True)
class Born:
    """Steps that are wrong by themselves.

    Attributes:
        steps: One; several where only together they are wrong.
        verdict: Of these alone.
        alone: The worst SQNR in dB that any half of them has by itself; None for a single step, or where time was up.
    """

    steps: tuple[Step, ...]
    verdict: Verdict
    alone: float | None = None


@dataclass
class Found:
    """What a search has found so far.

    Attributes:
        born: What is wrong by itself, in program order.
        right: Stretches that are right by themselves, as (first, last + 1).
        unsearched: Stretches that are wrong and were not parted for want of time.
        whole: Verdict on the whole program, with fixed sizes and its state as input; None where it was taken as wrong.
        halves: The first cut with the left half's verdict: what is passed on from there.
    """

    born: list[Born] = field(default_factory=list)
    right: list[tuple[int, int]] = field(default_factory=list)
    unsearched: list[tuple[int, int]] = field(default_factory=list)
    whole: Verdict | None = None
    halves: list[tuple[int, Verdict]] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether the time was enough."""
        return not self.unsearched


def find_born(
    whole: Whole,
    judge: Judge,
    recordings: Sequence[Recording],
    deadline: float,
    tell: Callable[[str], None],
    *,
    known_wrong: bool,
) -> Found:
    """Find the steps that are wrong by themselves.

    Args:
        whole: The program.
        judge: Of its parts.
        recordings: The cases on which it is wrong, all with the same sizes.
        deadline: `time.monotonic()` after which no other part is judged; one that was begun is finished.
        tell: Told what is looked at.
        known_wrong: The artifact of this very program, without state and dynamic sizes, was seen to be wrong.
    """
    return _Search(whole, judge, recordings, deadline, tell).run(known_wrong)


class _Search:
    def __init__(
        self,
        whole: Whole,
        judge: Judge,
        recordings: Sequence[Recording],
        deadline: float,
        tell: Callable[[str], None],
    ) -> None:
        self._whole, self._judge, self._recordings = whole, judge, recordings
        self._deadline, self._tell = deadline, tell
        self._forms = recordings[0].forms
        self._found = Found()

    def run(self, known_wrong: bool) -> Found:
        count = len(self._whole.steps)
        verdict = Verdict("wrong") if known_wrong else self._look(0, count)
        if not known_wrong:
            self._found.whole = verdict
        if verdict is None:
            self._found.unsearched.append((0, count))
        elif verdict.is_at_fault:
            self._part(0, count, verdict)
        elif verdict.state == "right":
            self._found.right.append((0, count))
        self._found.born.sort(key=lambda born: self._whole.steps.index(born.steps[0]))
        return self._found

    def _look(self, start: int, end: int) -> Verdict | None:
        """The verdict on a stretch; None where time is up."""
        if time.monotonic() > self._deadline:
            return None
        self._tell(f"operators {start + 1} to {end} of {len(self._whole.steps)}")
        part = cut(self._whole, self._whole.steps[start:end], self._forms)
        return self._judge.judge(part, self._recordings) if part.gives else Verdict("right")

    def _part(self, start: int, end: int, verdict: Verdict) -> None:
        steps = self._whole.steps[start:end]
        if end - start == 1:
            alone = verdict if verdict.reason is not None else self._look(start, end)
            self._found.born.append(Born(steps, alone or verdict))
            return
        best: tuple[int, Verdict, Verdict] | None = None
        for at in self._places(start, end)[:_ATTEMPTS]:
            left = self._look(start, at)
            right = None if left is None else self._look(at, end)
            if left is None or right is None:
                if left is not None and left.is_at_fault:
                    self._part(start, at, left)
                else:
                    self._found.unsearched.append((start, end))
                return
            if best is None or "refused" in (best[1].state, best[2].state):
                best = (at, left, right)
            if "refused" not in (left.state, right.state) or left.is_at_fault or right.is_at_fault:
                break
        if best is None:
            self._found.born.append(Born(steps, verdict))
            return
        at, left, right = best
        self._found.halves.append((at, left))
        for half, (first, last) in ((left, (start, at)), (right, (at, end))):
            if half.is_at_fault:
                self._part(first, last, half)
            elif half.state == "right":
                self._found.right.append((first, last))
        if not left.is_at_fault and not right.is_at_fault:
            one_refused = [half.state for half in (left, right)].count("refused") == 1
            if one_refused:  # the other half is right: what cannot be tried alone is at fault
                first, last = (start, at) if left.state == "refused" else (at, end)
                self._found.born.append(Born(self._whole.steps[first:last], verdict))
            else:
                first, last, verdict = self._narrow(start, at, end, verdict)
                halves: tuple[Verdict | None, ...] = (left, right)
                if (first, last) != (start, end):
                    halves = (self._look(first, at), self._look(at, last))
                measured = [half.error_db for half in halves if half is not None and half.error_db is not None]
                worst = None if None in halves else min(measured, default=None)
                self._found.born.append(Born(self._whole.steps[first:last], verdict, worst))

    def _narrow(self, start: int, at: int, end: int, verdict: Verdict) -> tuple[int, int, Verdict]:
        """The shortest stretch around a cut that is found to be wrong, where neither side of the cut is by itself."""

        def search(places: list[int], look: Callable[[int], Verdict | None], found: int) -> int:
            # From the cut outwards: a stretch that holds a wrong one is taken to be wrong.
            nonlocal verdict
            low, high = 0, len(places)
            while low < high:
                middle = (low + high) // 2
                looked = look(places[middle])
                if looked is None:
                    break
                if looked.is_at_fault:
                    high, found, verdict = middle, places[middle], looked
                else:
                    low = middle + 1
            return found

        cuts = [one for one in range(start + 1, end) if can_cut(self._whole, one, self._forms)]
        last = search([one for one in cuts if one > at], lambda one: self._look(start, one), end)
        first = search([one for one in reversed(cuts) if one < at], lambda one: self._look(one, last), start)
        return first, last, verdict

    def _places(self, start: int, end: int) -> list[int]:
        """Where a stretch can be cut, the best first: between partitions before inside, near the middle before far."""
        steps, middle = self._whole.steps, (start + end) / 2
        places = [at for at in range(start + 1, end) if can_cut(self._whole, at, self._forms)]

        def is_inside(at: int) -> bool:
            region = steps[at].region
            return region is not None and region == steps[at - 1].region

        return sorted(places, key=lambda at: (is_inside(at), abs(at - middle)))
