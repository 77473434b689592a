"""What a process says while it takes samples, as `edgex.runtime.execute.running.take_samples` does, in a result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgex.runtime.execute.base import Progress


class Events:
    """Collects events: `progress`, `round`, and others by their name.

    Attributes:
        rounds: Samples in seconds per run.
        found: The last event of each other name.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.rounds: list[tuple[float, ...]] = []
        self.found: dict[str, Mapping[str, Any]] = {}

    def take(self, event: Mapping[str, Any]) -> None:
        """Take in one event."""
        name = event["event"]
        if name == "progress":
            self._progress(str(event["stage"]), str(event["detail"]))
        elif name == "round":
            self.rounds.append(tuple(float(value) for value in event["seconds"]))
        else:
            self.found[name] = event
        if name == "plan":
            self._progress("measure", f"{event['samples']} samples in {event['rounds']} rounds")

    def tell(self, event: str, **values: Any) -> None:
        """Take in an event of this process."""
        self.take({"event": event, **values})

    def describe(self) -> dict[str, Any]:
        """The fields of a `RunResult` that the events tell; defaults where nothing was sampled."""
        warmup, plan = self.found.get("warmup", {}), self.found.get("plan", {})
        return {
            "rounds": tuple(self.rounds),
            "steps": int(plan.get("steps", 1)),
            "calls_per_sample": int(plan.get("calls_per_sample", 1)),
            "planned_rounds": plan.get("rounds"),
            "samples_per_round": plan.get("samples_per_round"),
            "warmup_runs": int(warmup.get("runs", 0)),
            "warmup_seconds": float(warmup.get("seconds", 0.0)),
            "warmup_settled": warmup.get("settled"),
        }
