"""What runs an artifact on a Linux machine, and what puts it there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.execute.base import Progress
from edgex.runtime.execute.linux.link import Link
from edgex.runtime.execute.linux.probe import Probed


@dataclass(frozen=True)
class Program:
    """What runs an artifact on a machine: a command line that takes the runner's flags.

    Attributes:
        command: Its beginning: program, model, plug-ins.
        model_digest: SHA-256 of the native file.
        executed_on: Who runs it; None where the program tells.
        versions: Of what runs it.
        traces: Whether it can record operators.
        no_trace_reason: Why it cannot.
        planned_arena_bytes: Memory that the native file plans for activations; None where it does not say.
    """

    command: tuple[str, ...]
    model_digest: str
    executed_on: str | None
    versions: dict[str, str]
    traces: bool = True
    no_trace_reason: str | None = None
    planned_arena_bytes: int | None = None


class ProgramMaker(Protocol):
    """Puts what runs an artifact onto a machine."""

    def __call__(self, artifact: Artifact, link: Link, there: Probed, progress: Progress) -> Program:
        """Send it unless it is there.

        Raises:
            DeviceError: The machine cannot run this artifact.
        """
        ...
