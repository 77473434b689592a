"""What an executor is given to do, and what it gives back; both can be sent to another machine as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

from edgex.export.pick.candidates import Candidate
from edgex.export.sweep.plan import Limits, PlannedModel

Ending = Literal["done", "crashed", "timeout", "memory", "lost"]


@dataclass(frozen=True)
class ExportTask:
    """Export a model to all targets of one kind.

    Attributes:
        model: Which.
        candidates: Targets of one precision or recipe.
        options: Of the delegates.
        calibration: As `--calibration` takes it.
        folder: The folder that the model is relative to.
        output: Where artifacts go, a folder or a URL; None keeps none.
        limits: Of the export.
        preload: Modules to import before the process is forked.
        attempt: 1 for the first.
    """

    model: PlannedModel
    candidates: tuple[Candidate, ...]
    options: Mapping[str, Any]
    calibration: str | None
    folder: str
    output: str | None
    limits: Limits
    preload: tuple[str, ...] = ()
    attempt: int = 1

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.model.name}: {', '.join(candidate.label for candidate in self.candidates)}"

    def to_json(self) -> dict[str, Any]:
        """For another process."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ExportTask:
        """The inverse of `to_json`."""
        shapes = {name: tuple(sizes) for name, sizes in document["model"]["input_shapes"].items()}
        return cls(
            **{
                **document,
                "model": PlannedModel(**{**document["model"], "input_shapes": shapes}),
                "candidates": tuple(Candidate(**candidate) for candidate in document["candidates"]),
                "limits": Limits(**document["limits"]),
                "preload": tuple(document["preload"]),
            }
        )


@dataclass(frozen=True)
class Subject:
    """What is measured.

    Attributes:
        job: Whose row it is.
        artifact: A path or a URL.
    """

    job: str
    artifact: str


@dataclass(frozen=True)
class MeasureTask:
    """Measure an artifact, or several in turns.

    Attributes:
        subjects: What is measured; more than one take turns.
        label: For people.
        device: `here`, which takes the whole machine, or an address, which takes that device.
        runs: Samples; None takes about three seconds' worth. Turns choose their own number.
        threads: Of a run; None is each engine's default.
        limits: Of the measurement of one artifact.
        attempt: 1 for the first.
    """

    subjects: tuple[Subject, ...]
    label: str
    device: str
    runs: int | None
    threads: int | None
    limits: Limits
    attempt: int = 1

    @property
    def seconds(self) -> float:
        """What all of it may take."""
        return self.limits.seconds * len(self.subjects)

    def to_json(self) -> dict[str, Any]:
        """For another process."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> MeasureTask:
        """The inverse of `to_json`."""
        subjects = tuple(Subject(**subject) for subject in document["subjects"])
        return cls(**{**document, "subjects": subjects, "limits": Limits(**document["limits"])})


Task = ExportTask | MeasureTask


@dataclass(frozen=True)
class Ended:
    """How a task ended.

    Attributes:
        task: Which.
        ending: `done` with an answer; `lost` where the process that had to see to it died.
        answer: What it found, empty unless it is done: of an export by target; of a measurement by job, each with
            `timing` or with `error` and `exit_code`.
        machine: Name of the machine.
        reason: In words, how its process ended.
        log: The last lines that it printed.
        stage: Of an export that was not done: where it was.
        exit_code: 128 and the signal's number for a process that was killed, 124 and 137 for the limits.
    """

    task: Task
    ending: Ending
    answer: Mapping[str, Any]
    machine: str = ""
    reason: str = ""
    log: str = ""
    stage: str = ""
    exit_code: int = 0


class TaskExecutor(Protocol):
    """Runs tasks, as many at a time as there is room for: one measurement a machine, and nothing beside it."""

    def submit(self, task: Task) -> None:
        """Take a task; it may begin at once or wait."""
        ...

    def begin(self) -> None:
        """Begin whatever there is room for."""
        ...

    def next(self) -> Ended:
        """Wait for a task to end.

        Raises:
            EdgexError: The executor itself failed.
        """
        ...

    @property
    def running(self) -> int:
        """How many tasks have begun and not ended."""
        ...

    def close(self) -> None:
        """End what runs. Closing twice is allowed."""
        ...
