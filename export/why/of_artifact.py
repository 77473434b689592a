"""The answer about an artifact: what its manifest says was left out, with the milliseconds of a profile."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from edgex.delegates.plan import Fallback, PartitionPlan, advise_of_text
from edgex.errors import UsageError
from edgex.export.why.report import LeftOut, Measured, TargetView, WhyReport, list_left_out
from edgex.runtime.artifact.artifact import Artifact, open_artifact
from edgex.runtime.measure.profile.report import ProfileReport
from edgex.runtime.measure.profile.saved import read_report
from edgex.runtime.report.views import LOUD_FALLBACK_SHARE, critical_fallbacks, fallback_share


def answer_artifact(path: str, report_path: Path | None) -> WhyReport:
    """What an artifact's target took and left; nothing is run.

    Args:
        path: The artifact's folder.
        report_path: A profile of this artifact, as `edgex profile -o report.json` writes it; None for none.

    Raises:
        ArtifactError: The artifact or the report cannot be read.
        UsageError: The report is of another artifact, or does not know operators.
    """
    artifact = open_artifact(path, "size")
    manifest = artifact.manifest
    report = None if report_path is None else _read_profile(report_path, artifact)
    plan = _read_plan(artifact)
    left_out = list_left_out(plan, rewrites_on=bool(manifest.rewrites))
    if report is not None:
        left_out = _measured(left_out, report)
    share = None if report is None else fallback_share(report)
    notices: tuple[str, ...] = ()
    if share is not None and share > LOUD_FALLBACK_SHARE:
        notices = (f"{share:.0%} of the measured time goes to what {manifest.target} leaves out; the dearest is first",)
    view = TargetView(manifest.target, plan, left_out, tuple(manifest.rewrites), share)
    return WhyReport(path, manifest.model.get("parameters"), "artifact", (view,), notices=notices)


def _read_profile(path: Path, artifact: Artifact) -> ProfileReport:
    report = read_report(path)
    again = f"edgex profile {artifact.path} -o {path} --force"
    if report.artifact.digest != artifact.digest:
        raise UsageError(
            f"{path.name} is a profile of another artifact",
            why=f"it measured {report.artifact.name} for {report.artifact.target}, with other model files",
            fix=again,
        )
    if not report.ops:
        raise UsageError(f"{path.name} knows no operators: they were not traced", fix=again)
    return report


def _read_plan(artifact: Artifact) -> PartitionPlan:
    delegation = artifact.manifest.delegation
    if not delegation:
        raise UsageError(
            f"the manifest of {artifact.manifest.name} does not say what was delegated",
            fix="export the model again, or ask of the model file: edgex why MODEL -t TARGET",
        )
    fallbacks = tuple(
        Fallback(
            item["op"], item["count"], item["code"], item["reason"], item["source"], item["fatal"],
            tuple(item.get("modules", ())), item.get("flops"), item.get("workaround"), item.get("rewrite"),
        )
        for item in delegation["fallbacks"]
    )  # fmt: skip
    # The manifest keeps the shares; a total of one million operations gives them back.
    share = delegation["work_fraction"]
    plan = PartitionPlan(
        delegation["delegated_ops"],
        delegation["total_ops"],
        delegation["delegate_calls"],
        fallbacks,
        None if share is None else round(share * 1e6),
        None if share is None else 10**6,
    )
    return plan if artifact.manifest.llm is None else advise_of_text(plan)


def _measured(left_out: tuple[LeftOut, ...], report: ProfileReport) -> tuple[LeftOut, ...]:
    """Each with the time of the rows of its operator and source line, most expensive first."""
    costs: dict[tuple[str, str | None], tuple[float, float]] = {}
    for place in critical_fallbacks(report):
        costs[place.operator, place.source] = (place.group.total_seconds, place.group.share or 0.0)
    found = []
    for item in left_out:
        cost = costs.pop((item.fallback.op, item.fallback.source), None)
        found.append(item if cost is None else dataclasses.replace(item, measured=Measured(*cost)))
    return tuple(sorted(found, key=lambda item: -(item.measured.median_seconds if item.measured else 0.0)))
