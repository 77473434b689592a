"""`edgex.verify`: repeat an artifact's proof in this process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from edgex.runtime.artifact.artifact import Artifact, CheckLevel, open_artifact
from edgex.runtime.execute import verification
from edgex.runtime.execute.here.in_process import InProcess
from edgex.runtime.execute.verification import Verification
from edgex.runtime.support.arguments import check_mapping, check_threads


def verify(
    artifact: str | os.PathLike[str] | Artifact,
    *,
    threads: int | None = None,
    options: Mapping[str, Any] | None = None,
    check: CheckLevel = "hash",
) -> Verification:
    """Run every golden case of an artifact here, and compare its outputs with eager's.

    Args:
        artifact: Its folder, or an opened artifact such as `edgex.export_model` returns.
        threads: Threads of a run; None leaves it to the engine.
        options: Engine settings by name.
        check: `hash` checks SHA-256 of every file first, `size` only their sizes.

    Returns:
        The verdict: `passed`, `reason` where it is not, and a result for each case and output in `cases`.

    Raises:
        UsageError: An argument is of another type, or there is no such `check`.
        ArtifactError: The artifact is damaged, or holds no golden data.
        TargetUnavailable: Its engine is not installed.
        RunError: The engine refused it.
    """
    check_threads(threads)
    check_mapping("options", options)
    opened = open_artifact(artifact.path if isinstance(artifact, Artifact) else artifact, check)
    with InProcess() as executor:
        verdict, _ = verification.verify(executor, opened, threads=threads, options=options, check="size")
    return verdict
