"""A Session whose engine is the answer of a device: what was computed there is compared here, by the same code."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgex.errors import RunError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.execute.base import Arrays, DeviceAnswer
from edgex.runtime.session.runner import LoadSeconds
from edgex.runtime.session.session import Session


class RecordedRunner:
    """Gives the outputs of an answer, in the order in which they were asked for; see `Runner`."""

    def __init__(self, artifact: Artifact, answer: DeviceAnswer | None) -> None:
        self.executed_on = "" if answer is None else f"{answer.executed_on} (on {answer.device.address})"
        self.threads = None if answer is None else answer.threads
        self.load_seconds = LoadSeconds(None, 0.0)
        self.planned_arena_bytes: int | None = None
        self._names = [spec.name for spec in artifact.manifest.method.outputs]
        self._left: list[Arrays] = [] if answer is None else [step for steps in answer.outputs for step in steps]

    def execute(self, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """The next outputs."""
        if not self._left:
            raise RunError("the device was not asked for this run")
        found = self._left.pop(0)
        missing = [name for name in self._names if name not in found]
        if missing:
            raise RunError(f"the device returned no output {missing[0]!r}", why=f"it returned {', '.join(found)}")
        return tuple(found[name] for name in self._names)

    def reset(self) -> None:
        """The device did that before each sequence."""

    def close(self) -> None:
        """Nothing is held."""


def checking_session(artifact: Artifact) -> Session:
    """A session that checks inputs and runs nothing."""
    return Session(artifact, RecordedRunner(artifact, None))
