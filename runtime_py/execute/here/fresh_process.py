"""A new process on this machine for every request: for proof, load, first run and memory.

In a warm process files are cached in the engine, thread pools run and memory is already taken; only a fresh one shows
what a user's program pays.
"""

from __future__ import annotations

from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.execute.base import Here, Keep, Progress, keep_nothing, no_progress
from edgex.runtime.execute.here.kept_process import KeptProcess
from edgex.runtime.execute.request import RunRequest, RunResult


class FreshProcess(Here):
    """See `edgex.runtime.execute.base.Executor`; nothing is held between requests."""

    def execute(
        self, artifact: Artifact, request: RunRequest, progress: Progress = no_progress, keep: Keep = keep_nothing
    ) -> RunResult:
        """See `Executor`."""
        with KeptProcess() as process:
            return process.execute(artifact, request, progress, keep)
