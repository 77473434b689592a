"""What `edgex export` does when a proof fails: the error that names the operators at fault."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from edgex.errors import EdgexError, LoweringError, RunError
from edgex.export.bisect.subject import Subject, repeat_flags, wrong_cases
from edgex.export.capture.diagnosis.causes import first_line
from edgex.export.proof.verification import ProofFailed
from edgex.export.source.naming import command_name

if TYPE_CHECKING:
    from edgex.delegates.base import LoweredModule
    from edgex.export.bisect.report import Bisection
    from edgex.export.settings import ExportSettings
    from edgex.export.target_model import Progress, TargetModel

LOG = logging.getLogger("edgex.bisect")


def name_operators(
    error: EdgexError, model: TargetModel, settings: ExportSettings, lowered: LoweredModule, progress: Progress
) -> EdgexError:
    """The error of a proof with the operators that are wrong by themselves.

    Args:
        error: What the proof raised; a RunError where the engine does not even load the artifact.
        model: What was lowered.
        settings: Say how long may be looked; 0 leaves the error as it is.
        lowered: What the delegate made of it.
        progress: Called with a stage and a detail.

    Returns:
        The same error, with more to say; a LoweringError where the engine does not load what was lowered, or does not
        run it on the example: that is a refusal, not other numbers.
    """
    refusal = _refusal_of(error)
    verdict = error.verdict if isinstance(error, ProofFailed) else None
    inconclusive = verdict is not None and not any(case["verdict"] == "fail" for case in verdict["cases"])
    found = None
    if settings.bisect_seconds > 0 and not inconclusive and lowered.assembled_reason is None:
        found = _try(model, settings, lowered, error, refusal, progress)
    if isinstance(error, RunError):
        error = LoweringError(error.what, error.where, error.fix, why=error.why)
    elif refusal is not None:
        fix = "edgex why MODEL -t onnx-cpu,reference says whether another target takes it"
        error = LoweringError(f"{model.target}: the engine cannot run this model", None, fix, why=refusal)
    if found is None:
        return error
    error.bisect = found.to_json()
    error.where = next((fault.place.source for fault in found.born if fault.place.source), error.where)
    error.why = "\n".join([*filter(None, [error.why]), *found.lines])
    if not (isinstance(error, ProofFailed) and error.undecided):
        error.fix = _fix_of(model, settings, found, error.fix)
    return error


def _refusal_of(error: EdgexError) -> str | None:
    """What the engine said that does not load the artifact, or not run its example; None where it runs."""
    if not isinstance(error, ProofFailed):
        return error.what
    example = (case for case in error.verdict["cases"] if case["name"] == "example" and case["verdict"] == "fail")
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
    try:
        subject = Subject(model, settings, lowered, model.cases, wrong, refusal)
        found, _ = bisect(subject, settings.bisect_seconds, progress)
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
    more = f"edgex bisect {name} -t {model.target}{flags} --repro DIR writes a repro"
    parts = [None if way is None else f"{way.command} (tried on the operator alone: it is right)", before]
    return "; ".join(part for part in (*parts, more if found.born else None) if part)
