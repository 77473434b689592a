"""Export and prove every candidate: one capture for those of a kind, one that fails does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from edgex.errors import EdgexError
from edgex.export.pick.candidates import Candidate, Loser, failed, settings_for
from edgex.export.pipeline import export_to_targets
from edgex.runtime.artifact.artifact import Artifact, open_artifact

if TYPE_CHECKING:
    from edgex.export.settings import ExportSettings
    from edgex.export.source.source import ModelSource
    from edgex.export.target_model import Progress

# Statuses whose artifact has run here; any other cannot be timed.
_RUNS_HERE = "verified"
_WHY_NOT_TIMED = {
    "assembled": "it is assembled: nothing of it ran on this machine",
    "simulated": "it is simulated: a simulator's times are not the device's",
}


@dataclass(frozen=True)
class Made:
    """A candidate with its proved artifact.

    Attributes:
        candidate: Which.
        artifact: In the folder of trials.
        bytes: Of the model's native files, golden data not counted.
    """

    candidate: Candidate
    artifact: Artifact
    bytes: int


def make_candidates(
    find: Callable[[], ModelSource],
    candidates: Sequence[Candidate],
    settings: ExportSettings,
    name: str,
    folder: Path,
    progress: Progress,
) -> tuple[list[Made], list[Loser]]:
    """Export candidates into a folder.

    Args:
        find: Gives the model.
        candidates: Checked ones.
        settings: Common to all.
        name: The artifacts' NAME.
        folder: Trials go to a folder each kind below it.
        progress: Called with a stage and a detail.

    Returns:
        What was made, and what failed, with the reason.

    Raises:
        UsageError: The model cannot be found, or a flag does not fit it.
        CaptureError: It cannot be captured.
    """
    made: list[Made] = []
    lost: list[Loser] = []
    ordered = sorted(candidates, key=lambda candidate: candidate.kind)  # stable: targets stay in their order
    kinds = [(kind, list(group)) for kind, group in groupby(ordered, key=lambda candidate: candidate.kind)]
    done = 0
    for kind, group in kinds:

        def tell(stage: str, detail: str, kind: str = kind, done: int = done) -> None:
            progress(stage, f"{detail}; {kind}, {done} of {len(candidates)} made")

        settings_here = settings_for(settings, group)
        try:
            report = export_to_targets(find, _into(settings_here, folder / kind), name=name, progress=tell)
        except EdgexError as error:
            # What stops a recipe alone, calibration data that do not fit for example, leaves the float ones.
            if group[0].recipe is None or len(kinds) == 1:
                raise
            lost += [failed(candidate, error) for candidate in group]
            continue
        by_target = {candidate.target: candidate for candidate in group}
        lost += [failed(by_target[failure.target], failure.error) for failure in report.failures]
        told = {failure.target for failure in report.failures}
        for exported in report.artifacts:
            candidate = by_target[exported.target]
            if exported.target in told or exported.path is None:
                continue
            if exported.status != _RUNS_HERE:
                lost.append(Loser(candidate, "not run here", _WHY_NOT_TIMED[exported.status]))
                continue
            made.append(_open(candidate, exported.path))
        done += len(group)
    return made, lost


def _into(settings: ExportSettings, folder: Path) -> ExportSettings:
    """Trials are not timed against their float siblings: the race does that, for all."""
    return replace(settings, output=folder, force=True, speed_check=False, require_speedup=False, max_drop=None)


def _open(candidate: Candidate, path: Path) -> Made:
    artifact = open_artifact(str(path), check="size")
    return Made(candidate, artifact, artifact.manifest.model_bytes)
