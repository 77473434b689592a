"""Ways on from an operator at fault, each tried on that operator alone before it is told."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from edgex.delegates.base import LeavesOut
from edgex.delegates.registry import delegate_names, get_delegate
from edgex.errors import EdgexError
from edgex.export.bisect.parts.cutting import Part, cut
from edgex.export.bisect.report import Workaround
from edgex.export.rewrites import apply_rewrites, wanted_rewrites
from edgex.export.source.naming import command_name

if TYPE_CHECKING:
    from edgex.export.bisect.parts.judging import Judge, Verdict
    from edgex.export.bisect.parts.recording import Recording
    from edgex.export.bisect.parts.steps import Whole
    from edgex.export.bisect.search import Born
    from edgex.export.bisect.subject import Subject
    from edgex.export.target_model import TargetModel

# Only for debugging, and only where it can be had: no way on.
_NO_TARGETS = ("reference", "onnx-rocm")


def find_workarounds(
    subject: Subject, whole: Whole, judge: Judge, recordings: Sequence[Recording], born: Born, deadline: float
) -> tuple[Workaround, ...]:
    """What is right in place of an operator that is wrong: a rewrite, the operator outside the delegate, a target.

    Args:
        subject: The artifact.
        whole: Its program.
        judge: Of parts.
        recordings: The cases.
        born: The fault.
        deadline: `time.monotonic()` after which nothing else is tried.
    """
    part = cut(whole, born.steps, recordings[0].forms)
    model = subject.model
    export = f"edgex export {command_name(model.source.description)}"
    found: list[Workaround] = []

    def attempt(kind: str, command: str, verdict: Verdict) -> None:
        if verdict.state == "right":
            found.append(Workaround(kind, command, verdict.error_db))

    if not subject.settings.rewrite and time.monotonic() < deadline:
        attempt(
            "rewrite", f"{export} -t {model.target}, without --no-rewrite", _rewritten(part, model, judge, recordings)
        )
    if (
        isinstance(model.job.delegate, LeavesOut)
        and born.verdict.delegated is not False
        and time.monotonic() < deadline
    ):
        names = frozenset(step.node.name for step in born.steps)
        without = replace(part, program=replace(part.program, excluded=part.program.excluded | names))
        flags = dict.fromkeys(
            f"--exclude {step.name}@{step.module}" if step.module else f"--exclude {step.name}" for step in born.steps
        )
        attempt("exclude", f"{export} -t {model.target} {' '.join(flags)}", judge.judge(without, recordings))
    for name in delegate_names():
        if name in (model.target, *_NO_TARGETS) or time.monotonic() >= deadline:
            continue
        other = _on_other(model, name)
        if other is not None:
            attempt("target", f"{export} -t {name}", judge.judge(part, recordings, other))
    return tuple(found)


def _rewritten(part: Part, model: TargetModel, judge: Judge, recordings: Sequence[Recording]) -> Verdict:
    program, _ = apply_rewrites(part.program, wanted_rewrites(model.job.delegate))
    return judge.judge(replace(part, program=program), recordings)


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
