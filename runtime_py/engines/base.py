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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from edgex.runtime.session.runner import EngineSettings

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import Artifact
    from edgex.runtime.session.session import Session

ENGINE_GROUP = "edgex.engines"

# An option of an engine with a value other than its default.
Setting = tuple[str, Any]


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


@runtime_checkable
class TunableEngine(Protocol):
    """An engine with options that can make an artifact quicker and change nothing that it computes."""

    def settings_worth_timing(self, threads: int) -> Sequence[Setting]:
        """Single settings that `edgex pick` times beside the defaults, the most promising first.

        What is proved of an artifact is proved with the defaults, so an option that chooses the type or the accuracy
        of a computation is none of these. One that may do so for some artifacts can be: a setting that gives other
        outputs than the default is not kept.

        Args:
            threads: Of one run.
        """
        ...


def list_settings(engine: Engine, threads: int) -> tuple[Setting, ...]:
    """The settings of an engine that are worth timing; none where it is not a `TunableEngine`."""
    return tuple(engine.settings_worth_timing(threads)) if isinstance(engine, TunableEngine) else ()
