"""A new process on this machine for every request: for proof, load, first run and memory.

In a warm process files are cached in the engine, thread pools run and memory is already taken; only a fresh one shows
what a user's program pays. One that is wanted soon can be started ahead, as far as importing the engine's library:

```
export           lower ................ package | verify
the process      start, import torch and engine | open, run the cases
```
"""

from __future__ import annotations

from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.execute.base import Here, Keep, Progress, keep_nothing, no_progress
from edgex.runtime.execute.here.client import start_ahead
from edgex.runtime.execute.here.kept_process import KeptProcess
from edgex.runtime.execute.request import RunRequest, RunResult
from edgex.runtime.support.process.child import Child


class FreshProcess(Here):
    """See `edgex.runtime.execute.base.Executor`; nothing is held between requests but a process that was not used."""

    def __init__(self) -> None:
        """Nothing is started yet."""
        self._ahead: Child | None = None

    def prepare(self, engine: str) -> None:
        """Start the next request's process now; it imports the engine's library meanwhile."""
        if self._ahead is None:
            self._ahead = start_ahead(engine)

    def execute(
        self, artifact: Artifact, request: RunRequest, progress: Progress = no_progress, keep: Keep = keep_nothing
    ) -> RunResult:
        """See `Executor`."""
        child, self._ahead = self._ahead, None
        if child is not None and child.has_ended:  # for want of memory, say: it has not seen the artifact
            child.close()
            child = None
        with KeptProcess(child=child) as process:
            return process.execute(artifact, request, progress, keep)

    def close(self) -> None:
        """End the process that was started ahead and not used."""
        child, self._ahead = self._ahead, None
        if child is not None:
            child.kill()
