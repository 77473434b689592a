"""What `edgex export` does when a proof fails: the error that names the operators at fault."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from edgex.errors import EdgexError, LoweringError, RunError
from edgex.export.bisect.feeds import cases_for, method_at_fault
from edgex.export.bisect.subject import Subject, wrong_cases
from edgex.export.capture.diagnosis.causes import first_line
from edgex.export.next_commands import repeat_flags
from edgex.export.proof.verification import ProofFailed
from edgex.export.source.naming import command_name

if TYPE_CHECKING:
    from edgex.delegates.base import LoweredModule
    from edgex.export.bisect.report import Bisection
    from edgex.export.settings import ExportSettings
    from edgex.export.target_model import Progress, TargetModel

LOG = logging.getLogger("edgex.bisect")

_OTHER_TARGET = "`edgex why MODEL -t onnx-cpu,reference` says whether another target takes it"


def name_operators(
    error: EdgexError, model: TargetModel, settings: ExportSettings, lowered: LoweredModule, progress: Progress
) -> EdgexError:
    """The error of a proof with the operators that are wrong by themselves.

    Args:
        error: What the proof raised; a RunError where the engine does not even load the artifact.
        model: What was lowered, with all of its methods.
        settings: Say how long may be looked; 0 leaves the error as it is.
        lowered: What the delegate made of it.
        progress: Called with a stage and a detail.

    Returns:
        The same error, with more to say; a LoweringError where the engine does not load what was lowered, or does not
        run it on the example: that is a refusal, not other numbers.
    """
    if not settings.rewrite and error.fix is not None:
        error.fix = error.fix.replace(", or --no-rewrite", "")
    refusal = _refusal_of(error, model)
    verdict = error.verdict if isinstance(error, ProofFailed) else None
    inconclusive = verdict is not None and not any(case["verdict"] == "fail" for case in verdict["cases"])
    found = None
    if settings.bisect_seconds > 0 and not inconclusive and lowered.assembled_reason is None:
        found = _try(model, settings, lowered, error, refusal, progress)
    if isinstance(error, RunError):
        # Where it was is the artifact's temporary name.
        # Parts of it run here, so that nothing is missing that could be installed.
        runs = found is not None and found.judged and not found.born and found.complete
        error = LoweringError(error.what, None, _OTHER_TARGET if runs else error.fix, why=error.why)
    elif refusal is not None:
        error = LoweringError(f"{model.target}: the engine cannot run this model", None, _OTHER_TARGET, why=refusal)
    if found is None:
        return error
    error.bisect = found.to_json()
    error.where = next((fault.place.source for fault in found.born if fault.place.source), error.where)
    error.why = "\n".join([*filter(None, [error.why]), *found.lines])
    if not (isinstance(error, ProofFailed) and error.undecided):
        error.fix = _fix_of(model, settings, found, error.fix)
    return error


def _refusal_of(error: EdgexError, model: TargetModel) -> str | None:
    """What the engine said that does not load the artifact, or not run its example; None where it runs."""
    if not isinstance(error, ProofFailed):
        return error.what
    first = {own.cases[0].name for own in model.methods if own.cases}
    example = (case for case in error.verdict["cases"] if case["name"] in first and case["verdict"] == "fail")
    return next((str(case["reason"]) for case in example if case["output"] is None), None)


def _try(
    model: TargetModel,
    settings: ExportSettings,
    lowered: LoweredModule,
    error: EdgexError,
    refusal: str | None,
    progress: Progress,
) -> Bisection | None:
    """The answer; None where looking for it failed, which must not hide the proof's own error."""
    from edgex.export.bisect.stage import bisect

    wrong = wrong_cases(error.verdict) if isinstance(error, ProofFailed) else ()
    # An engine that does not load the artifact says nothing of its methods: each is looked at.
    methods = model.methods if not wrong else (method_at_fault(model, wrong),)
    try:
        for own in methods:
            subject = Subject(own, settings, lowered, cases_for(model, own), wrong, refusal, model)
            found, _ = bisect(subject, settings.bisect_seconds / len(methods), progress)
            if found.born:
                break
    except Exception as failure:
        LOG.debug("bisect failed", exc_info=True)
        # Its first line: torch's errors may quote a whole program; -v shows the rest.
        said = f"the operator was not found: {type(failure).__name__}: {first_line(failure)}"
        error.why = "\n".join([*filter(None, [error.why]), said])
        return None
    return found


def _fix_of(model: TargetModel, settings: ExportSettings, found: Bisection | None, before: str | None) -> str | None:
    """The next command: a verified workaround first, else where the rest is told."""
    if found is None:
        return before
    way = found.workaround
    flags = repeat_flags(settings, rewrite=False)
    name = command_name(model.source.description, model.source.source_root)
    more = f"`edgex bisect {name} -t {model.target}{flags} --repro repro` writes a repro"
    parts = [None if way is None else f"`{way.command}` (tried on the operator alone: it is right)", before]
    return "; ".join(part for part in (*parts, more if found.born else None) if part)
