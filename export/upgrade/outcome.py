"""What one environment makes of one model: artifacts or refusals, their outputs and their speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgex.export.upgrade.environment import Environment


@dataclass(frozen=True)
class Outcome:
    """One target's.

    Attributes:
        status: `verified`, `simulated`, `assembled`, or `refused`.
        what: Why it was refused; None for an artifact.
        path: The artifact.
        delegated_ops: Operators that the target took; None where it was refused.
        total_ops: Operators that there were.
        fallbacks: How many of each operator it left.
        bytes: Size of the artifact.
        median_seconds: Of a run, the lower of two measurements; None where it was not timed.
        interval_seconds: The interval of that median; None where there is none.
    """

    status: str
    what: str | None = None
    path: Path | None = None
    delegated_ops: int | None = None
    total_ops: int | None = None
    fallbacks: Mapping[str, int] | None = None
    bytes: int | None = None
    median_seconds: float | None = None
    interval_seconds: tuple[float, float] | None = None

    def to_json(self) -> dict[str, Any]:
        """Without the path, which is a temporary one."""
        return {
            "status": self.status,
            "what": self.what,
            "delegated_ops": self.delegated_ops,
            "total_ops": self.total_ops,
            "fallbacks": None if self.fallbacks is None else dict(self.fallbacks),
            "bytes": self.bytes,
            "median_seconds": self.median_seconds,
        }


def export_model(environment: Environment, model: str, targets: Sequence[str], folder: Path) -> dict[str, Outcome]:
    """Export a model there, to every target.

    Args:
        environment: Who exports.
        model: As `edgex export` takes it.
        targets: Their names.
        folder: Receives the artifacts.
    """
    arguments = ["export", model, "-t", ",".join(targets), "-o", str(folder)]
    code, document, said = environment.ask(arguments)
    if document is None or "artifacts" not in document:
        what = (document or {}).get("what") or said or f"exit code {code}"
        return {target: Outcome("refused", str(what)) for target in targets}
    found = {failure["target"]: Outcome("refused", failure["what"]) for failure in document["failures"]}
    for artifact in document["artifacts"]:
        if artifact["path"] is None:
            continue
        delegation = artifact["delegation"]
        fallbacks: dict[str, int] = {}
        for entry in delegation["fallbacks"]:
            fallbacks[entry["op"]] = fallbacks.get(entry["op"], 0) + entry["count"]
        found[artifact["target"]] = Outcome(
            artifact["status"],
            None,
            Path(artifact["path"]),
            delegation["delegated_ops"],
            delegation["total_ops"],
            dict(sorted(fallbacks.items())),
            artifact["bytes"],
        )
    return {target: found.get(target, Outcome("refused", "it says nothing of this target")) for target in targets}


def run_outputs(environment: Environment, artifact: Path, inputs: Path, output: Path) -> dict[str, np.ndarray] | str:
    """What an artifact gives for given inputs; or why it does not run."""
    arguments = ["run", str(artifact), "-i", str(inputs), "-o", str(output), "--force"]
    code, document, said = environment.ask(arguments)
    if code != 0:
        return str((document or {}).get("what") or said or f"exit code {code}")
    with np.load(output, allow_pickle=False) as arrays:
        return dict(arrays)


def measure(environment: Environment, artifact: Path, runs: int) -> tuple[float, tuple[float, float] | None] | None:
    """Median and its interval, in seconds; None where it cannot be profiled."""
    _, document, _ = environment.ask(["profile", str(artifact), "--runs", str(runs)])
    steady = (document or {}).get("steady")
    if steady is None:
        return None
    interval = steady["median_ci95"]
    return float(steady["median"]), None if interval is None else (float(interval[0]), float(interval[1]))
