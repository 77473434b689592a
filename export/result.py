"""What an export reports: artifacts, failures, seconds and memory by stage. JSON schema `edgex.export/2`."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgex.delegates.plan import PartitionPlan
from edgex.errors import EdgexError
from edgex.runtime.artifact.specs import TensorSpec


@dataclass(frozen=True)
class ArtifactSizes:
    """Bytes of an artifact: all of it, the native files that a device loads, and the proof's inputs and answers."""

    total_bytes: int
    model_bytes: int
    golden_bytes: int


@dataclass(frozen=True)
class ExportedArtifact:
    """One artifact that was written (or, for a dry run, planned: `path`, `sizes` and `verification` are None).

    `shortfall` is what it does not meet and was saved in spite of, on request; it is a failure beside the artifact.
    `next_commands` are what to do with it.
    """

    target: str
    status: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    plan: PartitionPlan
    seconds: Mapping[str, float]
    path: Path | None = None
    sizes: ArtifactSizes | None = None
    verification: Mapping[str, Any] | None = None
    rewrites: tuple[Mapping[str, Any], ...] = ()
    peak_rss_bytes: int | None = None
    warnings: tuple[str, ...] = ()
    quantization: Mapping[str, Any] | None = None
    shortfall: EdgexError | None = None
    next_commands: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """One entry of `artifacts`."""
        return {
            "target": self.target,
            "path": None if self.path is None else str(self.path),
            "status": self.status,
            "bytes": None if self.sizes is None else self.sizes.total_bytes,
            "model_bytes": None if self.sizes is None else self.sizes.model_bytes,
            "golden_bytes": None if self.sizes is None else self.sizes.golden_bytes,
            "inputs": [spec.to_json() for spec in self.inputs],
            "outputs": [spec.to_json() for spec in self.outputs],
            "verification": self.verification,
            "delegation": self.plan.to_json(),
            "rewrites": [dict(rewrite) for rewrite in self.rewrites],
            "quantization": None if self.quantization is None else dict(self.quantization),
            "seconds": {stage: round(seconds, 3) for stage, seconds in self.seconds.items()},
            "peak_rss_bytes": self.peak_rss_bytes,
            "warnings": list(self.warnings),
            "next": list(self.next_commands),
        }


@dataclass(frozen=True)
class Failure:
    """One target that could not be exported."""

    target: str
    error: EdgexError

    def to_json(self) -> dict[str, Any]:
        """One entry of `failures`."""
        return {"target": self.target, "stage": self.error.stage, **self.error.to_json(), "bisect": self.error.bisect}


@dataclass(frozen=True)
class ExportReport:
    """What happened to every target.

    Attributes:
        source: Where the model was found, for example `model.py:get_model`.
        parameters: Number of its parameters.
        artifacts: What was written.
        failures: What was not, and why.
        notices: What the user should know about the model itself.
    """

    source: str | None
    parameters: int | None
    artifacts: tuple[ExportedArtifact, ...] = ()
    failures: tuple[Failure, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0, or the first failure's."""
        return self.failures[0].error.exit_code if self.failures else 0

    def to_json(self) -> dict[str, Any]:
        """The `edgex.export/2` document."""
        return {
            "schema": "edgex.export/2",
            "model": None if self.source is None else {"source": self.source, "parameters": self.parameters},
            "artifacts": [artifact.to_json() for artifact in self.artifacts],
            "failures": [failure.to_json() for failure in self.failures],
            "notices": list(self.notices),
        }


@dataclass
class StageClock:
    """Seconds by stage; also marks an error with the stage in which it arose."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Take the time of a block; two blocks of one name add up."""
        started = time.perf_counter()
        try:
            yield
        except EdgexError as error:
            error.stage = error.stage or name
            raise
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started

    def copy(self) -> StageClock:
        """A clock that goes on from here: what targets share, counted for each of them."""
        return StageClock(dict(self.seconds))


def peak_rss_bytes() -> int:
    """The process's peak resident memory so far; Linux counts KiB, macOS bytes (getrusage(2))."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
