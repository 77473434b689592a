"""What is given to be compared: artifacts or saved profiles, told apart, labelled, and held to be of one model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeGuard

from edgex.errors import ArtifactError, UsageError
from edgex.runtime.artifact.artifact import Artifact, CheckLevel, open_artifact
from edgex.runtime.measure.profile.report import ProfileReport
from edgex.runtime.measure.profile.saved import read_report
from edgex.runtime.support.arguments import check_path

Given = str | os.PathLike[str] | Artifact | ProfileReport
Subject = Artifact | ProfileReport

_FIX_TWO = "edgex compare BASELINE CANDIDATE [CANDIDATE …]"


def read_subjects(given: Sequence[Given], check: CheckLevel = "hash") -> tuple[list[str], Sequence[Subject]]:
    """Open artifacts and read reports.

    Args:
        given: Folders of artifacts, `.json` files of `edgex profile -o`, or such things already opened.
        check: See `edgex.runtime.artifact.artifact.open_artifact`.

    Returns:
        Labels, all different, and what they stand for: all artifacts, or all reports.

    Raises:
        UsageError: Fewer than two are given, or artifacts and reports together.
        ArtifactError: One is not there or damaged, or a report is of another schema.
    """
    if len(given) < 2:
        raise UsageError(f"{len(given)} given, at least two are needed to compare", fix=_FIX_TWO)
    subjects = [_read(item, check) for item in given]
    if not (all_artifacts(subjects) or all_reports(subjects)):
        raise UsageError(
            "artifacts and saved reports cannot be compared with each other",
            why="artifacts are timed in turns, side by side; a report was taken at another time",
            fix="give artifacts only, or run `edgex profile ARTIFACT -o report.json` for each and give reports only",
        )
    return _label(given), subjects


def all_artifacts(subjects: Sequence[Subject]) -> TypeGuard[Sequence[Artifact]]:
    """Whether all are artifacts."""
    return all(isinstance(subject, Artifact) for subject in subjects)


def all_reports(subjects: Sequence[Subject]) -> TypeGuard[Sequence[ProfileReport]]:
    """Whether all are reports."""
    return all(isinstance(subject, ProfileReport) for subject in subjects)


def find_differences(labels: Sequence[str], subjects: Sequence[Subject]) -> tuple[str, ...]:
    """Why the subjects are not one model with one kind of input; empty where they are.

    An artifact's model is known by its name and by names, dtypes and shapes of inputs and outputs (they stay float32
    in every precision); a report's by its name and the shapes that it ran with.
    """
    found = []
    for label, subject in list(zip(labels, subjects, strict=True))[1:]:
        for what, ours, theirs in zip(_ASPECTS, _identity(subjects[0]), _identity(subject), strict=True):
            if ours != theirs:
                found.append(f"{what}: {labels[0]} has {ours}, {label} has {theirs}")
    return tuple(found)


_ASPECTS = ("model", "inputs", "outputs", "steps between resets")


def _identity(subject: Subject) -> tuple[str, str, str, str]:
    if isinstance(subject, Artifact):
        method = subject.manifest.method
        inputs, outputs = (
            ", ".join(str(spec) for spec in specs) or "none" for specs in (method.inputs, method.outputs)
        )
        return subject.manifest.name, inputs, outputs, ""
    settings = subject.settings
    shapes = ", ".join(f"{name}{list(shape)}" for name, shape in settings.shapes.items()) or "none"
    return subject.artifact.name, shapes, "", str(settings.steps)


def refuse_differences(differences: Sequence[str], allowed: bool) -> None:
    """Different models, or different inputs, are compared only where that is wanted.

    Raises:
        UsageError: They differ and that is not allowed.
    """
    if differences and not allowed:
        raise UsageError(
            "these are different models, or they ran on different inputs",
            why="\n".join(differences),
            fix="--allow-different compares them all the same: each on its own example inputs, outputs left out",
        )


def _read(item: Given, check: CheckLevel) -> Subject:
    if isinstance(item, (Artifact, ProfileReport)):
        return item
    check_path("an artifact or report", item)
    path = Path(item)
    if path.is_dir():
        return open_artifact(path, check)
    if path.is_file():
        return read_report(path)
    raise ArtifactError(
        f"no artifact or report at {path}", fix="edgex export writes artifacts, edgex profile -o report.json reports"
    )


def _label(given: Sequence[Given]) -> list[str]:
    """Short names: the last part of the path, more of it where two are alike, a number where that does not help."""

    def name(item: Given, parts: int) -> str:
        if isinstance(item, ProfileReport):
            return f"{item.artifact.name}.{item.artifact.target}"
        path = item.path if isinstance(item, Artifact) else Path(item)
        return "/".join(path.parts[-parts:]) or str(path)  # 0 parts: all of them

    labels = [name(item, 1) for item in given]
    different = len({name(item, 0) for item in given})  # a path given twice stays what it is, however long
    for parts in (2, 3):
        if len(set(labels)) == different:
            break
        labels = [name(item, parts) for item in given]
    numbered: list[str] = []
    for at, label in enumerate(labels):
        number = labels[: at + 1].count(label)
        numbered.append(label if number == 1 else f"{label} ({number})")
    return numbered
