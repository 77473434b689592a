"""What is exported to: a target with its precision or recipe, and the share of models that it is asked to prove."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.coverage.suite import Entry, in_turns

# Seconds that the cases of one proof are simulated: the example and whatever else fits.
SIMULATION_SECONDS = 20


@dataclass(frozen=True)
class Kind:
    """One column of the page.

    Attributes:
        name: As the page and `--kind` have it.
        target: The delegate.
        goal: Least share of the published architectures to be proved.
        precision: Of float artifacts.
        recipe: The quantization recipe, or None.
        options: Of the delegate.
    """

    name: str
    target: str
    goal: float | None
    precision: str = "fp32"
    recipe: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


_SIMULATED = {"soc": "sm8650", "simulation_seconds": SIMULATION_SECONDS}
KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("litert", "litert", 0.85),
        Kind("coreai", "coreai", 0.80),
        Kind("onnx-qnn fp16", "onnx-qnn", 0.75, precision="fp16", options=_SIMULATED),
        Kind("onnx-qnn int8", "onnx-qnn", 0.60, recipe="int8", options=_SIMULATED),
        Kind("onnx-qnn a16w8", "onnx-qnn", None, recipe="a16w8", options=_SIMULATED),
    )
}


def sample(entries: Sequence[Entry], every: int, first: int = 0) -> list[Entry]:
    """Every so many of the suite's models, the groups in turns; none at full size, which simulators take hours for.

    Args:
        entries: All of them.
        every: 1 takes all.
        first: Where the counting begins.
    """
    return in_turns([entry for entry in entries if entry.group != "large"])[first::every]
