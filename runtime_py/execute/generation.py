"""Generation elsewhere than in this process: what an executor is asked, and what it gives.

Prompts become ids, and ids text, here: only ids travel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.execute.base import Progress, no_progress
from edgex.runtime.execute.request import RunResult
from edgex.runtime.generation.generator import Finish, Spent
from edgex.runtime.generation.sampling import GREEDY, Sampling


@dataclass(frozen=True)
class TextRequest:
    """What is to be generated.

    Attributes:
        ids: The prompt, within the model's limits.
        max_new: The most tokens to generate.
        sampling: How each is chosen.
        ignore_eos: Go on behind an id that ends a text.
        threads: Threads of a run; None leaves it to the engine.
    """

    ids: tuple[int, ...]
    max_new: int = 128
    sampling: Sampling = GREEDY
    ignore_eos: bool = False
    threads: int | None = None


class TextRun(Protocol):
    """A text that is being generated: iterate over its new ids.

    Attributes:
        finish: Why it ended; None while it has not.
        seed: What the draws started from; None where nothing is drawn, or it is not known yet.
        spent: Tokens and seconds so far.
        load_seconds: Checking and loading the model; None where it is not known yet.
        result: Who ran it and where, without outputs.
    """

    seed: int | None
    spent: Spent
    load_seconds: float | None

    @property
    def finish(self) -> Finish | None:
        """See above."""
        ...

    @property
    def result(self) -> RunResult:
        """See above."""
        ...

    def __iter__(self) -> Iterator[int]: ...


@runtime_checkable
class GeneratesText(Protocol):
    """An executor that can generate."""

    def generate(self, artifact: Artifact, request: TextRequest, progress: Progress = no_progress) -> TextRun:
        """Generate, from an empty text; nothing runs before the first id is asked for.

        Raises:
            DeviceError: The device cannot run this artifact, or the way to it failed; also from the run.
            RunError: The engine failed, or it is no language model.
        """
        ...
