"""Ways on from an operator at fault, each tried on that operator alone before it is told."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from edgex.delegates.base import LeavesOut
from edgex.delegates.registry import delegate_names, get_delegate
from edgex.errors import EdgexError
from edgex.export.bisect.parts.cutting import Part, cut
from edgex.export.bisect.report import Workaround
from edgex.export.bisect.subject import Subject
from edgex.export.next_commands import repeat_flags
from edgex.export.rewrites import apply_rewrites, wanted_rewrites
from edgex.export.source.naming import command_name

if TYPE_CHECKING:
    from edgex.export.bisect.parts.judging import Judge, Verdict
    from edgex.export.bisect.parts.recording import Recording
    from edgex.export.bisect.parts.steps import Whole
    from edgex.export.bisect.search import Born
    from edgex.export.target_model import TargetModel

# Runs PyTorch: no way on for those who want a target, and nobody ships it.
_DEBUGGING = "reference"
# The second cannot be run on most machines.
_NO_TARGETS = (_DEBUGGING, "onnx-rocm")
# A command of more operators helps nobody.
_MOST_LEFT_OUT = 8


def find_workarounds(
    subject: Subject, whole: Whole, judge: Judge, recordings: Sequence[Recording], born: Born, deadline: float
) -> tuple[Workaround, ...]:
    """What is right in place of an operator that is wrong: a rewrite, else it outside the delegate, else targets.

    Args:
        subject: The artifact.
        whole: Its program.
        judge: Of parts.
        recordings: The cases.
        born: The fault.
        deadline: `time.monotonic()` after which nothing else is tried.

    Returns:
        The first that is right.
    """
    part = cut(whole, born.steps, recordings[0].forms)
    found: list[Workaround] = []
    for kind, command, attempt in _attempts(subject, part, judge, recordings, born):
        if found or time.monotonic() >= deadline:
            break
        verdict = attempt()
        if verdict.state == "right":
            found.append(Workaround(kind, command, verdict.error_db))
    return tuple(found)


def _attempts(
    subject: Subject, part: Part, judge: Judge, recordings: Sequence[Recording], born: Born
) -> Iterator[tuple[str, str, Callable[[], Verdict]]]:
    """Kind, command and trial of every way, the best first."""
    model = subject.model
    export = f"edgex export {command_name(model.source.description, model.source.source_root)}"
    again, exactly = repeat_flags(subject.settings), repeat_flags(subject.settings, rewrite=False)
    if not subject.settings.rewrite:
        rewritten = replace(part, program=apply_rewrites(part.program, wanted_rewrites(model.job.delegate))[0])
        yield "rewrite", f"{export} -t {model.target}{again}", lambda: judge.judge(rewritten, recordings)
    if isinstance(model.job.delegate, LeavesOut) and born.verdict.delegated is not False:
        # What is wrong only together may be right without the last.
        for steps in dict.fromkeys((born.steps[-1:], born.steps)):
            if len(steps) > _MOST_LEFT_OUT:
                continue
            names = frozenset(step.node.name for step in steps)
            left_out = replace(part, program=replace(part.program, excluded=part.program.excluded | names))
            flags = [f"--exclude {step.name}{f'@{step.module}' if step.module else ''}" for step in steps]
            command = f"{export} -t {model.target}{exactly} {' '.join(dict.fromkeys(flags))}"
            yield "exclude", command, lambda left_out=left_out: judge.judge(left_out, recordings)  # type: ignore[misc]
    for name in delegate_names() if model.target != _DEBUGGING else ():
        other = None if name in (model.target, *_NO_TARGETS) else _on_other(model, name)
        if other is not None:
            yield "target", f"{export} -t {name}{exactly}", lambda other=other: judge.judge(part, recordings, other)  # type: ignore[misc]


def _on_other(model: TargetModel, name: str) -> TargetModel | None:
    """The model as another target would take it; None where that cannot be had here."""
    try:
        delegate = get_delegate(name)
    except EdgexError:
        return None
    program = model.program
    takes = program.precision in delegate.precisions and program.recipe is None
    if not takes or not delegate.availability().available:
        return None
    return replace(model, job=replace(model.job, delegate=delegate, options=delegate.options_type()))
