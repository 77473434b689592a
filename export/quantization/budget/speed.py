"""Whether quantizing paid: the artifact timed in turns with its float sibling, on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgex.runtime.engines.loading import load
from edgex.runtime.execute.sampling import rest
from edgex.runtime.measure.turns.calls import compare_interleaved
from edgex.runtime.session.session import Session

if TYPE_CHECKING:
    import numpy as np

_MAX_SECONDS = 4.0
_STEP_SECONDS = 0.5


@dataclass(frozen=True)
class SpeedCheck:
    """An artifact against its float sibling.

    Attributes:
        float_seconds: Median of one run of the sibling.
        seconds: Median of one run of the quantized artifact.
        speedup: Ratio of the two, above 1 where quantizing made it quicker.
        verdict: Of the quantized one against the sibling: `faster`, `slower`, `no difference` or `undecided`.
        threads: Of both; None is the engine's default.
    """

    float_seconds: float
    seconds: float
    speedup: float
    verdict: str
    threads: int | None

    @property
    def text(self) -> str:
        """The result in words."""
        figures = f"{self.seconds * 1e3:.3g} ms against {self.float_seconds * 1e3:.3g} ms in float32"
        if self.verdict == "faster":
            return f"{self.speedup:.2f} times as fast: {figures}"
        if self.verdict == "slower":
            return f"SLOWER than float32, {1 / self.speedup:.2f} times the time: {figures}"
        return f"{self.verdict} in speed: {figures}"

    def to_json(self) -> dict[str, Any]:
        """The export's `quantization.speed`."""
        return {
            "float_median_seconds": self.float_seconds,
            "median_seconds": self.seconds,
            "speedup": round(self.speedup, 3),
            "verdict": self.verdict,
            "threads": self.threads,
        }


def time_against_float(quantized: Path, sibling: Path, inputs: Mapping[str, np.ndarray]) -> SpeedCheck:
    """Time two artifacts in turns in this process, with the engine's default threads.

    Args:
        quantized: Folder of the artifact.
        sibling: Folder of the float one.
        inputs: Of one run, by name.
    """
    with ExitStack() as stack:
        sessions = [stack.enter_context(_open(path)) for path in (sibling, quantized)]
        result = compare_interleaved(
            [lambda s=session: s.run(**inputs) for session in sessions],  # type: ignore[misc]
            ["float", "quantized"],
            max_seconds=_MAX_SECONDS,
            rest=rest,
        )
        before, after = (summary.median for summary in result.summaries)
        return SpeedCheck(before, after, before / after, str(result.judgements[0].verdict), sessions[1].threads)


def time_runs(session: Session, inputs: Mapping[str, np.ndarray]) -> float:
    """Median seconds of a run: a figure for a step of the search, not for a comparison."""
    result = compare_interleaved([lambda: session.run(**inputs)], ["step"], max_seconds=_STEP_SECONDS)
    return result.summaries[0].median


def _open(path: Path) -> Session:
    return load(path, check="size", tuned=False)
