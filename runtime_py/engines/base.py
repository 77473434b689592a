"""The protocol behind which engines stand. An engine runs native files; a delegate made them.

A new engine is a class with these three methods and an entry point in the group `edgex.engines`:

```toml
[project.entry-points."edgex.engines"]
myengine = "mypackage.engine:MyEngine"
```

Its `open` loads the native file and returns `Session(artifact, runner)`, where the `Runner` is the only part that
touches the engine's API: arrays in, arrays out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from edgex.runtime.artifact import Artifact
    from edgex.runtime.session import Session

ENGINE_GROUP = "edgex.engines"


@dataclass(frozen=True)
class Availability:
    """Whether something can be used on this machine.

    Attributes:
        available: Usable here.
        reason: What is missing, one sentence; None when available.
        fix: The command that helps; None when available.
    """

    available: bool
    reason: str | None = None
    fix: str | None = None


@dataclass(frozen=True)
class EngineSettings:
    """How a session is to run.

    Attributes:
        threads: Threads for one run; None leaves it to the engine, whose default is
            `edgex.runtime.threads.default_threads()`.
        options: Further settings by name; an engine refuses those it does not know.
        preferred_threads: What to take instead of the default, found quickest on this machine. Unlike `threads` it is
            no order: an engine that cannot take it just now goes on with what it has.
    """

    threads: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    preferred_threads: int | None = None


@dataclass(frozen=True)
class LoadSeconds:
    """Where load time went.

    Attributes:
        program: Reading and checking the native file; None where the engine does both in one call.
        method: Making it ready to run (kernels chosen, weights packed).
    """

    program: float | None
    method: float


class Runner(Protocol):
    """One loaded method of one native file.

    Attributes:
        executed_on: Who really runs it, read back from the engine, for example `executorch: XnnpackBackend`.
        threads: Threads in effect, or None where the engine does not say.
        load_seconds: How long loading took.
        planned_arena_bytes: Memory planned for activations, None when unknown.
    """

    executed_on: str
    threads: int | None
    load_seconds: LoadSeconds
    planned_arena_bytes: int | None

    def execute(self, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """Run once.

        Args:
            inputs: C-contiguous arrays in the manifest's order and dtypes, already checked.

        Returns:
            The user's outputs in the manifest's order, owned by the caller: a later run does not overwrite them.

        Raises:
            RunError: The engine refused.
        """
        ...

    def reset(self) -> None:
        """Give every state tensor its initial value."""
        ...

    def close(self) -> None:
        """Let go of the engine's memory; called once."""
        ...


class Engine(Protocol):
    """Runs the native files of one format family."""

    def availability(self) -> Availability:
        """Whether the engine can run here, found out without importing it."""
        ...

    def open(self, artifact: Artifact, settings: EngineSettings) -> Session:
        """Load an artifact.

        Raises:
            TargetUnavailable: The engine or a plug-in of it is not installed.
            RunError: The engine refused the file.
        """
        ...

    def versions(self) -> Mapping[str, str]:
        """Installed versions of the engine's packages, by distribution name, without importing them."""
        ...


@runtime_checkable
class PreloadingEngine(Protocol):
    """An engine whose library can be imported apart from loading a file, so that its memory can be told apart."""

    def preload(self) -> None:
        """Import the engine's library.

        Raises:
            TargetUnavailable: It is not installed, or does not import.
        """
        ...
