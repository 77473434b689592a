"""What a process that exports does: one model to all targets of one kind, captured once, and told as plain values."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgex.errors import EdgexError
from edgex.runtime.measure.results.row import Failure, LeftOut, Made

if TYPE_CHECKING:
    from edgex.export.result import ExportedArtifact, ExportReport
    from edgex.export.settings import ExportSettings
    from edgex.export.sweep.plan import PlannedModel

# Not an EdgexError: a defect of edgex, or of an engine.
DEFECT_CODE = 1

Progress = Callable[[str, str], None]


@dataclass(frozen=True)
class TargetResult:
    """What became of one target.

    Attributes:
        status: `verified`, `simulated`, `assembled`, `failed` or `defect`.
        seconds: By stage.
        peak_rss_bytes: Of this process.
        made: The artifact; its place is a path.
        failure: Why there is none, or what it does not meet.
    """

    status: str
    seconds: Mapping[str, float]
    peak_rss_bytes: int | None
    made: Made | None = None
    failure: Failure | None = None

    def to_json(self) -> dict[str, Any]:
        """For the process that asked."""
        return asdict(self)


def export_model(
    model: PlannedModel, settings: ExportSettings, name: str, note: Callable[[str], object] = lambda _stage: None
) -> dict[str, TargetResult]:
    """Export a model; nothing is raised that a model or an engine raises.

    Args:
        model: Which.
        settings: With all targets of one kind.
        name: The artifacts' NAME.
        note: Told each stage as it begins.
    """
    stage = "start"

    def enter(name: str, _detail: str) -> None:
        nonlocal stage
        stage = name
        note(name)

    try:
        return _read_report(_export(model, settings, name, enter))
    except EdgexError as error:  # before the first target: every target's failure
        return {target: _failed(error, stage) for target in settings.targets}
    except Exception as error:
        if len(settings.targets) > 1:  # it took the other targets with it
            found: dict[str, TargetResult] = {}
            for target in settings.targets:
                options = {k: v for k, v in settings.options.items() if "." not in k or k.rpartition(".")[0] == target}
                found |= export_model(model, replace(settings, targets=(target,), options=options), name, note)
            return found
        traceback.print_exc()
        return {settings.targets[0]: _defect(error, stage)}


def _export(model: PlannedModel, settings: ExportSettings, name: str, progress: Progress) -> ExportReport:
    from edgex.export.pipeline import export_to_targets
    from edgex.export.source.source import ModelSource, find_model

    def find() -> ModelSource:
        return find_model(model.spec, input_shapes=model.input_shapes)

    return export_to_targets(find, settings, name=name, progress=progress)


def _read_report(report: ExportReport) -> dict[str, TargetResult]:
    found = {failure.target: _failed(failure.error, "check") for failure in report.failures}
    for artifact in report.artifacts:
        shortfall = found.get(artifact.target)
        found[artifact.target] = _read_artifact(artifact, report, None if shortfall is None else shortfall.failure)
    return found


def _read_artifact(artifact: ExportedArtifact, report: ExportReport, failure: Failure | None) -> TargetResult:
    from edgex.runtime.artifact.artifact import open_artifact

    assert artifact.path is not None and artifact.sizes is not None
    plan = artifact.plan.to_json()
    proof = artifact.verification or {}
    made = Made(
        artifact=str(artifact.path),
        digest=open_artifact(str(artifact.path), check="size").digest,
        bytes=artifact.sizes.total_bytes,
        model_bytes=artifact.sizes.model_bytes,
        parameters=report.parameters,
        delegated_ops=plan["delegated_ops"],
        total_ops=plan["total_ops"],
        work_fraction=plan["work_fraction"],
        delegate_calls=plan["delegate_calls"],
        left_out=tuple(
            LeftOut(entry["op"], entry["count"], entry["code"], entry["reason"], entry.get("source"))
            for entry in plan["fallbacks"]
        ),
        min_sqnr_db=proof.get("min_sqnr_db"),
        max_abs_error=proof.get("max_abs_error"),
        warnings=artifact.warnings,
    )
    seconds = {stage: round(value, 4) for stage, value in artifact.seconds.items()}
    return TargetResult(artifact.status, seconds, artifact.peak_rss_bytes, made, failure)


def _failed(error: EdgexError, stage: str) -> TargetResult:
    from edgex.export.result import peak_rss_bytes

    failure = Failure(error.stage or stage, error.exit_code, error.what, error.where, error.why, error.fix)
    return TargetResult("failed", {}, peak_rss_bytes(), None, failure)


def _defect(error: Exception, stage: str) -> TargetResult:
    from edgex.export.result import peak_rss_bytes

    text = str(error).strip()
    place = traceback.extract_tb(error.__traceback__)[-1]
    failure = Failure(
        stage,
        DEFECT_CODE,
        f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__,
        why=f"{Path(place.filename).name}:{place.lineno} in {place.name}; this is a defect of edgex or of an engine",
    )
    return TargetResult("defect", {}, peak_rss_bytes(), None, failure)
