"""The pipeline's way from a proof that failed to the operators at fault, within a limit of time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgex.export.bisect.error_growth import Amplified, find_amplified
from edgex.export.bisect.feeds import feeds_of
from edgex.export.bisect.locations import Places
from edgex.export.bisect.parts.judging import Judge
from edgex.export.bisect.parts.recording import Feed, Recording, record, run_watched
from edgex.export.bisect.parts.steps import Whole, make_whole
from edgex.export.bisect.quantization_error import find_losses
from edgex.export.bisect.report import Bisection, Growth, Workaround
from edgex.export.bisect.search import Found, find_born
from edgex.export.bisect.subject import Subject
from edgex.export.bisect.workarounds import find_workarounds
from edgex.export.proof.verification import to_array
from edgex.runtime.session.numerics import EXACT_SQNR_DB, compare_output
from edgex.runtime.support.disk.scratch import scratch_folder

if TYPE_CHECKING:
    from edgex.delegates.base import CapturedProgram
    from edgex.export.target_model import Progress

# For how many faults ways around them are tried, and how long after the time limit.
MOST_WORKAROUNDS = 3
WORKAROUND_SECONDS = 15.0


@dataclass(frozen=True)
class Search:
    """What a bisection looked through."""

    subject: Subject
    whole: Whole
    recordings: Sequence[Recording]
    found: Found


def bisect(subject: Subject, limit_seconds: float, progress: Progress) -> tuple[Bisection, Search]:
    """Find the operators that are wrong by themselves.

    Args:
        subject: The artifact.
        limit_seconds: After this time no further part is begun.
        progress: Called with a stage and a detail.

    Returns:
        The answer, and what it was found in, for a repro and for workarounds.
    """
    started = time.monotonic()
    model = subject.model
    # Operators of several methods have the same names.
    regions = {} if model.source.method is not None else subject.lowered.regions
    whole = make_whole(model.program, regions)
    feeds = feeds_of(subject, whole.program)
    progress("bisect", f"{model.target}: {feeds[0].name}, in eager")
    recordings = [record(whole.program, feed) for feed in feeds]
    # Parts have the sizes of the first, those that only a run finds among them: how much of a cache is filled.
    recordings = [recording for recording in recordings if recording.forms == recordings[0].forms]
    feeds = [recording.feed for recording in recordings]
    unsteady = next((found.unsteady for found in recordings if found.unsteady is not None), None)
    found = Found()
    growth: tuple[Amplified, ...] = ()
    ways: list[tuple[Workaround, ...]] = []
    with (
        scratch_folder("bisect") as folder,
        Judge(model, subject.settings, subject.tolerance, folder, whole_runs=subject.broken is None) as judge,
    ):
        if unsteady is None:
            found = find_born(
                whole,
                judge,
                recordings,
                started + limit_seconds,
                lambda text: progress("bisect", f"{model.target}: {text}"),
                known_wrong=_stands_alone(model.program) and _is_wrong(subject),
            )
            growth = _follow(whole, recordings, found)
            ways = [
                find_workarounds(subject, whole, judge, recordings, born, started + limit_seconds + WORKAROUND_SECONDS)
                for born in found.born[:MOST_WORKAROUNDS]
            ]
        judged = judge.judged
    describe = Places(whole, recordings[0])
    answer = Bisection(
        model.source.description,
        model.target,
        tuple(subject.wrong),
        subject.tolerance.min_sqnr_db,
        tuple(
            replace(describe.fault(born), workarounds=ways[at] if at < len(ways) else ())
            for at, born in enumerate(found.born)
        ),
        tuple(Growth(describe.step(one.step), one.input_db, one.error_db) for one in growth),
        tuple(Growth(describe.step(one.step), EXACT_SQNR_DB, one.error_db) for one in _losses(subject, whole, feeds)),
        next((describe.node(one.not_finite) for one in recordings if one.not_finite is not None), None),
        None if unsteady is None else describe.node(unsteady),
        tuple(_ruled_out(subject, whole, found, feeds)),
        found.complete,
        judged,
        time.monotonic() - started,
        method=subject.method,
    )
    return answer, Search(subject, whole, recordings, found)


def _is_wrong(subject: Subject) -> bool:
    """Whether the artifact was seen to differ from the very program that it was lowered from."""
    if subject.model.quantized is None:
        return bool(subject.wrong or subject.broken)
    compared = {case.name for case in subject.cases if case.reference == "quantized"}
    return subject.broken is not None or any(one.name in compared for one in subject.wrong)


def _stands_alone(program: CapturedProgram) -> bool:
    """Whether the whole as a part is the artifact's program: no state that is an input now, no sizes that are fixed."""
    return not program.state and all(spec.is_static for spec in program.inputs)


def _follow(whole: Whole, recordings: Sequence[Recording], found: Found) -> tuple[Amplified, ...]:
    """What enlarges the error: of the operators at fault, or where there is none, of the first half."""
    outputs = [born.verdict.outputs for born in found.born if born.verdict.outputs is not None]
    steps = [step for born in found.born for step in born.steps if len(born.steps) == 1]
    if not steps and found.halves and found.halves[0][1].outputs is not None:
        outputs = [found.halves[0][1].outputs]
    recording = recordings[0]
    given = {name: array for one in outputs for name, array in one.get(recording.feed.name, {}).items()}
    return tuple(find_amplified(whole, recording, given, steps))


def _losses(subject: Subject, whole: Whole, feeds: Sequence[Feed]) -> tuple[Amplified, ...]:
    if subject.model.quantized is None:
        return ()
    return tuple(find_losses(whole, subject.model.rewritten.program, feeds[0]))


def _ruled_out(subject: Subject, whole: Whole, found: Found, feeds: Sequence[Feed]) -> list[str]:
    """What is not at fault, and what was not looked at."""
    sentences = []
    right = sum(last - first for first, last in found.right)
    if right:
        sentences.append(
            f"{right} of {len(whole.steps)} operators are right by themselves on {', '.join(f.name for f in feeds)}"
        )
    if found.whole is not None and found.whole.state == "right" and subject.model.quantized is not None:
        sentences.append("the engine gives what PyTorch gives for the quantized program: quantizing is what costs")
    elif found.whole is not None and found.whole.state == "right" and subject.model.own_reference is not None:
        limit = f"{subject.tolerance.min_sqnr_db:g} dB"
        sentences.append(f"beside PyTorch in float no part is further off than the recipe may be, {limit}")
    elif found.whole is not None and found.whole.state == "right":
        said = "with its sizes fixed the whole program is right: the fault lies in how the target handles that"
        if subject.model.program.state:
            said = "with eager's state as an input the whole program is right: the error comes with the state, from"
            said += " earlier runs or from how the target keeps it"
        sentences.append(f"{said}, not from an operator")
    if found.whole is not None and found.whole.state == "refused":
        sentences.append(f"the target does not lower the program with fixed sizes: {found.whole.reason}")
    far = _eager_difference(subject, whole, feeds[0])
    if far is not None:
        sentences.append(f"PyTorch itself gives other numbers when it runs the program that was lowered: {far}")
    if found.unsearched:
        count = sum(last - first for first, last in found.unsearched)
        sentences.append(f"{count} operators are wrong together and were not parted: time was up")
    return sentences


def _eager_difference(subject: Subject, whole: Whole, feed: Feed) -> str | None:
    """How far the program is from the user's model in PyTorch: capture, a rewrite or the precision changed numbers."""
    case = next((case for case in subject.cases if case.name == feed.name), None)
    if case is None or subject.model.quantized is not None or feed.state:
        return None
    outputs = run_watched(whole.program, feed, lambda _node, _value: None)
    expected = case.steps[len(feed.steps) - 1].outputs
    for spec, tensor in zip(subject.model.program.outputs, outputs, strict=True):
        compared = compare_output(expected[spec.name], to_array(tensor), subject.tolerance)
        if compared.verdict == "fail":
            return f"{spec.name}: {compared.reason}"
    return None
