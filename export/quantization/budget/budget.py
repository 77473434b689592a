"""Hold a target to an accuracy budget: the real artifact of every step is loaded and measured."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgex.delegates.recipes.recipes import get_recipe
from edgex.errors import QuantizationError
from edgex.export.quantization.budget.metric import Metric
from edgex.export.quantization.budget.search import BudgetSearch, Layer, find_fewest
from edgex.export.quantization.budget.sensitivity import rank_layers
from edgex.export.quantization.budget.speed import time_runs
from edgex.export.quantization.linear.layers import quantize_linear
from edgex.runtime.engines.loading import load

if TYPE_CHECKING:
    import numpy as np

    from edgex.delegates.base import CapturedProgram
    from edgex.export.quantization.model import QuantizedModel
    from edgex.export.source.eager import EagerModel

# Which recipe of linear layers stands in for one that the delegate applies itself, to rank the layers.
_STAND_INS = {"int8-dynamic": "8da8w"}


@dataclass(frozen=True)
class SearchSteps:
    """What the steps of one target are made of.

    Attributes:
        target: Its name.
        program: The float program with its recipe.
        model: What was quantized already; None where the delegate quantizes while it lowers.
        eager: The float model.
        inputs: The example inputs by name, for the times.
        metric: What is measured.
        baseline: What eager float32 reaches.
        assemble: Lowers a program into a folder that can be loaded; it is not proved.
    """

    target: str
    program: CapturedProgram
    model: QuantizedModel | None
    eager: EagerModel
    inputs: Mapping[str, np.ndarray]
    metric: Metric
    baseline: float
    assemble: Callable[[CapturedProgram, Path], None]

    def find_fewest(self, max_drop: float, scratch: Path, progress: Callable[[str, str], None]) -> BudgetSearch:
        """Try steps until the budget holds.

        Args:
            max_drop: The budget.
            scratch: A folder that does not exist; it is gone afterwards.
            progress: Called with a stage and a detail.

        Raises:
            EdgexError: A step cannot be lowered or loaded, or the user's `evaluate` failed.
        """

        def attempt(kept: Sequence[str]) -> tuple[float, int, float]:
            progress("budget", f"{self.target}, {len(kept)} layers in float")
            try:
                self.assemble(self.keeping(frozenset(kept))[0], scratch)
                size = sum(file.stat().st_size for file in scratch.iterdir() if file.name != "manifest.json")
                with load(scratch, check="size", tuned=False) as session:
                    reached = self.metric.measure(session.run)
                    session.reset()
                    return reached, size, time_runs(session, self.inputs)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)

        def rank() -> tuple[Layer, ...]:
            return self.rank(lambda module: progress("budget", f"{self.target}, sensitivity of {module}"))

        return find_fewest(attempt, rank, self.metric.name, self.baseline, max_drop)

    def keeping(self, kept: frozenset[str]) -> tuple[CapturedProgram, QuantizedModel | None]:
        """What the target lowers with these modules in floating point."""
        if self.model is None:
            return dataclasses.replace(self.program, float_modules=kept), None
        model = self.model.keeping(kept) if kept else self.model
        return model.quantized.program, model

    def rank(self, progress: Callable[[str], None]) -> tuple[Layer, ...]:
        """The target's quantized layers, most sensitive first."""
        if self.model is not None:
            held_out = [sample for _, sample in self.model.reference.held_out]
            original = self.model.calibrated.program
            return rank_layers(self.model.quantized.program, original, self.eager, held_out, progress)
        recipe = self.program.recipe
        assert recipe is not None
        stand_in = get_recipe(_STAND_INS.get(recipe.name, recipe.name), recipe.group_size)
        original = dataclasses.replace(self.program, recipe=None)
        try:
            simulated = quantize_linear(original, stand_in, frozenset())
        except QuantizationError:  # no linear layers: there is nothing to keep
            return ()
        return rank_layers(simulated.program, original, self.eager, (), progress)


def describe_shortfall(search: BudgetSearch) -> str:
    """Why the budget is not met, in one sentence."""
    best = search.chosen
    kept = f"{best.kept} of {len(search.layers)} layers in floating point" if best.kept else "every layer quantized"
    return (
        f"the best of {len(search.steps)} artifacts reaches {best.metric:.4g} with {kept}, "
        f"{best.drop:.3g} below eager float32's {search.baseline:.4g}; the budget is {search.max_drop:g}"
    )
