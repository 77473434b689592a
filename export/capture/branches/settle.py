"""Which side of a branch holds for every input: found by running the model with the branch taken the other way.

```
if x.max() > 1: raise ValueError("…")               the other side gives no result: the artifact does without the check
if not padding_mask.any(): padding_mask = None      the other side gives the same: masking with nothing is no masking
if x.mean() > 0: x = x * 2                          the other side gives something else: no path holds; refused
```

A side is settled on where the model gives the same with it on every input that was tried, and at least one of them
would have gone the other way. Inputs that go this way are right by construction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgex.export.capture.branches.deciding import Answering, Site
from edgex.export.capture.branches.loops import describe_loops, find_whole_loops
from edgex.export.capture.branches.runs import Call, Run, alike, run_listening, run_plain, vary_call
from edgex.export.source.user_code.user_line import innermost_line, line_at

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

    from edgex.errors import CaptureError

# A trace finds more questions on the paths that the answers to others open.
_MOST_ROUNDS = 8
_MOST_SITES = 24
# Where the example asks less often: a loop that goes on while a truth holds may have no end for other inputs.
_MOST_ANSWERS = 256
# Each branch is run with all of them that go another way.
_MOST_CALLS = 16

_CHECK = "the model raises on its other side, and the artifact does not check"
_SAME = "inputs that take its other side give the same on this one, as far as they were tried"


@dataclass(frozen=True)
class Settled:
    """What the search found.

    Attributes:
        program: None where a branch stays that no path holds for.
        notices: What the user should know, a sentence each.
        undecided: Of the branch that is in the way: its file and line, the branch in words, and why neither side holds;
            None where none is.
    """

    program: ExportedProgram | None
    notices: tuple[str, ...] = ()
    undecided: tuple[str, str, str] | None = None

    def explain(self, failure: CaptureError) -> None:
        """Add to a refusal which branch is in the way, if it does not name it, and why neither side holds."""
        if self.undecided is not None:
            place, branch, why = self.undecided
            named = place in f"{failure.where} {failure.why}"
            failure.why = f"{failure.why}; {why}" if named else f"{failure.why}; {branch}: {why}"


def settle_branches(
    module: torch.nn.Module,
    calls: Sequence[Call],
    export: Callable[[Answering], ExportedProgram | Exception],
    state: Collection[str],
    source_root: Path,
) -> Settled:
    """Capture a model that asks tensors for truths, each branch taken to the side that holds for every input.

    Args:
        module: The model; its buffers are what they were afterwards.
        calls: The example's arguments, and others of the same structure.
        export: Captures the model within a mode.
        state: Names of buffers that forward writes to.
        source_root: Folder of the user's file.
    """
    calls = [*calls, *(call for given in calls for call in vary_call(given))][:_MOST_CALLS]
    whole = find_whole_loops(module, calls, state)
    for lazy_items in (False, True):
        found = _Search(module, calls, export, state, source_root, lazy_items, whole).run()
        if found.program is not None or found.undecided is not None:
            return replace(found, notices=(*describe_loops(whole, source_root), *found.notices))
    return Settled(None)


class _Search:
    """One search, with numbers that are read out of tensors as they are or as tensors."""

    def __init__(
        self,
        module: torch.nn.Module,
        calls: Sequence[Call],
        export: Callable[[Answering], ExportedProgram | Exception],
        state: Collection[str],
        source_root: Path,
        lazy_items: bool,
        whole: Collection[Site],
    ) -> None:
        self._module, self._export, self._state, self._source_root = module, export, state, source_root
        self._calls, self._lazy_items, self._whole = calls, lazy_items, whole
        self._settled: dict[Site, bool] = {}
        self._reasons: dict[Site, str] = {}
        self._notices: list[str] = []
        self._most_answers = _MOST_ANSWERS

    def run(self) -> Settled:
        """Trace, settle what the trace asks, and trace again until it asks nothing new."""
        expected = run_plain(self._module, self._calls[0])
        for _ in range(_MOST_ROUNDS):
            first = self._run(self._calls[0], self._settled)
            self._most_answers = max([_MOST_ANSWERS, *(4 * len(said) for said in first.said.values())])
            natural = [first, *(self._run(call, self._settled) for call in self._calls[1:])]
            if not alike(expected, natural[0]):
                return Settled(None)  # the model does not take what stands for its numbers
            said, constant = natural[0].said, _constant_sites(natural)
            answering = Answering(dict(self._settled), said, constant, lazy_items=self._lazy_items, whole=self._whole)
            program = self._trace(answering)
            new = [site for site in answering.asked if site not in self._settled]
            if len(new) > _MOST_SITES:
                return Settled(None)
            if undecided := self._settle_all(new, natural):
                place, branch = self._describe(undecided, answering.asked[undecided])
                return Settled(None, undecided=(place, branch, _why_not(undecided, natural)))
            for site in new:
                branch = self._describe(site, answering.asked[site])[1]
                self._notices.append(f"{branch} goes one way for all inputs: {self._reasons[site]}")
            if all(set(natural[0].said.get(site, [])) == {self._settled[site]} for site in new):
                return Settled(None) if isinstance(program, Exception) else Settled(program, tuple(self._notices))
        return Settled(None)

    def _trace(self, answering: Answering) -> ExportedProgram | Exception:
        handle = self._module.register_forward_pre_hook(answering.begin)
        try:
            return self._export(answering)
        finally:
            handle.remove()

    def _run(self, call: Call, settled: dict[Site, bool]) -> Run:
        most = self._most_answers if settled or call is not self._calls[0] else math.inf
        return run_listening(
            *(self._module, call, settled, self._state),
            lazy_items=self._lazy_items,
            most_answers=most,
            whole=self._whole,
        )

    def _settle_all(self, sites: Sequence[Site], natural: Sequence[Run]) -> Site | None:
        """Settle each, and then together what is left: sites that ask for the same truth have one answer.

        Returns:
            The first one that stays open.
        """
        left = [site for site in sites if not self._settle([site], natural)]
        return left[0] if left and (len(left) == 1 or not self._settle(left, natural)) else None

    def _settle(self, sites: Sequence[Site], natural: Sequence[Run]) -> bool:
        """Find the answers that hold for every input that was tried; False where neither do."""
        holds: dict[bool, int] = {}
        for turned in (False, True):
            answers = {site: natural[0].said.get(site, [False])[0] != turned for site in sites}
            # The others go this way by themselves, and are right by construction.
            tried = [at for at, run in enumerate(natural) if run.outputs is not None and _goes_otherwise(run, answers)]
            refused = same = operators = 0
            for count, at in enumerate(tried, 1):
                found = self._run(self._calls[at], {**self._settled, **answers})
                refused += len(sites) == 1 and sites[0] in found.refused_by
                same += alike(natural[at], found)
                operators = max(operators, found.operators)
                if max(refused, same) < count:
                    break
            if tried and refused == len(tried):
                self._take({site: not answer for site, answer in answers.items()}, _CHECK)
                return True
            if tried and same == len(tried):
                holds[turned] = operators
        if not holds:
            return False
        # A short cut for some inputs has fewer operators than the way that is right for all.
        turned = max(holds, key=lambda one: holds[one])
        self._take({site: natural[0].said.get(site, [False])[0] != turned for site in sites}, _SAME)
        return True

    def _take(self, answers: Mapping[Site, bool], reason: str) -> None:
        self._settled.update(answers)
        self._reasons.update(dict.fromkeys(answers, reason))

    def _describe(self, site: Site, frames: Sequence[tuple[str, int]]) -> tuple[str, str]:
        """`masks.py:7` and `the branch at masks.py:7 (if mask.any()), reached from net.py:12`."""
        asks, called = line_at(site.file, site.line, self._source_root), innermost_line(frames, self._source_root)
        text = f" ({asks.text.rstrip(':')})" if asks.text else ""
        reached = f", reached from {called.place}" if called is not None and called.place != asks.place else ""
        return asks.place, f"the branch at {asks.place}{text}{reached}"


def _constant_sites(natural: Sequence[Run]) -> set[Site]:
    """Sites whose answers are the same in every run, and come from nothing that is given."""
    runs = [run for run in natural if run.outputs is not None]
    return {
        site
        for site in runs[0].constant
        if all(site in run.constant and run.said[site] == runs[0].said[site] for run in runs)
    }


def _goes_otherwise(run: Run, answers: Mapping[Site, bool]) -> bool:
    """Whether a run took another side somewhere; else forcing these answers changes nothing."""
    return any(set(run.said.get(site, ())) - {answer} for site, answer in answers.items())


def _why_not(site: Site, natural: Sequence[Run]) -> str:
    said = {answer for run in natural if run.outputs is not None for answer in run.said.get(site, ())}
    return "its sides give different outputs" if said else "no input that was tried comes there"
