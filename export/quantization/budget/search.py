"""An accuracy budget as a search: each step keeps more of the sensitive layers in floating point.

```
step   kept in float   accuracy   drop
   0               0     0.9361   0.0417   over the budget of 0.01
   1               1     0.9583   0.0195   over
   2               2     0.9722   0.0056   within: this is what is exported
```

SearchSteps are doubled until one holds, and then halved back to the fewest layers that do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SearchStep:
    """One artifact that was tried.

    Attributes:
        kept: How many of the most sensitive layers stay in floating point.
        metric: What it reached.
        drop: How much less than eager float32; negative where it is better.
        bytes: Size of its native files.
        seconds: Median of one run on the example inputs.
        holds: Whether the drop is within the budget.
    """

    kept: int
    metric: float
    drop: float
    bytes: int
    seconds: float
    holds: bool

    def to_json(self, layers: Sequence[str]) -> dict[str, Any]:
        """An entry of `steps`; `layers` are the layers by sensitivity."""
        return {
            "kept_float": list(layers[: self.kept]),
            "metric": self.metric,
            "drop": self.drop,
            "bytes": self.bytes,
            "median_seconds": self.seconds,
            "holds": self.holds,
        }


@dataclass(frozen=True)
class Layer:
    """A quantized layer and what quantizing it alone does.

    Attributes:
        module: Path of its module.
        sqnr_db: SQNR of the model's outputs where only this layer is quantized, in dB.
    """

    module: str
    sqnr_db: float


@dataclass(frozen=True)
class BudgetSearch:
    """What was tried, in that order.

    Attributes:
        metric: `evaluate` or `sqnr`; see `edgex.export.quantization.budget.metric`.
        baseline: Eager float32's figure.
        max_drop: The budget.
        layers: Most sensitive first; empty where the first step held.
        steps: In the order in which they were tried.
    """

    metric: str
    baseline: float
    max_drop: float
    layers: tuple[Layer, ...]
    steps: tuple[SearchStep, ...]

    @property
    def chosen(self) -> SearchStep:
        """The step that holds with the fewest layers in float, else the one with the least drop."""
        holding = [step for step in self.steps if step.holds]
        return min(holding, key=lambda r: r.kept) if holding else min(self.steps, key=lambda r: (r.drop, r.kept))

    @property
    def kept(self) -> tuple[str, ...]:
        """Paths of the layers that the chosen step keeps in floating point."""
        return tuple(layer.module for layer in self.layers[: self.chosen.kept])

    def to_manifest(self) -> dict[str, Any]:
        """The manifest's `quantization.accuracy`: what does not depend on the machine's speed."""
        best = self.chosen
        return {
            "metric": self.metric,
            "baseline": self.baseline,
            "reached": best.metric,
            "max_drop": self.max_drop,
            "holds": best.holds,
            "kept_float": list(self.kept),
        }

    def to_json(self) -> dict[str, Any]:
        """The export's `quantization.budget`."""
        names = [layer.module for layer in self.layers]
        return {
            "metric": self.metric,
            "baseline": self.baseline,
            "max_drop": self.max_drop,
            "holds": self.chosen.holds,
            "sensitivity": [{"module": layer.module, "sqnr_db": round(layer.sqnr_db, 2)} for layer in self.layers],
            "steps": [step.to_json(names) for step in self.steps],
        }


def find_fewest(
    attempt: Callable[[Sequence[str]], tuple[float, int, float]],
    rank: Callable[[], Sequence[Layer]],
    metric: str,
    baseline: float,
    max_drop: float,
) -> BudgetSearch:
    """Find the fewest layers that must stay in floating point.

    Args:
        attempt: Makes the artifact with these layers in floating point; gives metric, bytes and seconds of a run.
        rank: The layers, most sensitive first; called only where quantizing everything is not good enough.
        metric: Its name.
        baseline: Eager float32's figure.
        max_drop: The budget.
    """
    layers: Sequence[Layer] = ()
    steps: dict[int, SearchStep] = {}

    def holds(kept: int) -> bool:
        if kept not in steps:
            reached, size, seconds = attempt([layer.module for layer in layers[:kept]])
            drop = baseline - reached
            # A budget of 0.01 is not broken by the last bit of 0.98 - 0.97.
            steps[kept] = SearchStep(kept, reached, drop, size, seconds, drop <= max_drop + 1e-9)
        return steps[kept].holds

    if not holds(0):
        layers = rank()
        # With all of them in floating point nothing would be quantized.
        most = len(layers) - 1
        below, kept = 0, 1
        while kept <= most and not holds(kept):
            below, kept = kept, min(2 * kept, most) if kept < most else most + 1
        while kept <= most and kept - below > 1:
            middle = (kept + below) // 2
            below, kept = (below, middle) if holds(middle) else (middle, kept)
    return BudgetSearch(metric, baseline, max_drop, tuple(layers), tuple(steps.values()))
