"""Saves the captured program as `model.pt2` and leaves every operator to PyTorch's eager kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from edgex.delegates.base import Availability, CapturedProgram, LoweredModule
from edgex.delegates.graph.provenance import is_operator
from edgex.delegates.graph.source_map import build_source_map
from edgex.delegates.plan import PartitionPlan, merge_plans
from edgex.delegates.recipes.quantizers import Quantizer, shared_quantizer
from edgex.delegates.recipes.recipes import RECIPE_NAMES
from edgex.runtime.artifact.manifest import Requirements
from edgex.runtime.support.entry_points import installed_version

MODEL_FILE = "model.pt2"


@dataclass(frozen=True)
class ReferenceOptions:
    """The reference target has no options."""


class ReferenceDelegate:
    """Lowers nothing: what torch.export captured is what runs."""

    name = "reference"
    engine = "torch"
    options_type = ReferenceOptions
    precisions = ("fp32", "fp16", "bf16")
    recipes = RECIPE_NAMES
    packages = ("torch",)
    language_models = True

    def availability(self) -> Availability:
        """Available wherever torch is installed."""
        if installed_version("torch"):
            return Availability(True)
        return Availability(False, "torch is not installed", "pip install torch")

    def precision_refusal(self, precision: str) -> str:
        """PyTorch takes every precision that edgex knows."""
        return f"precision {precision!r} is unknown; reference takes {', '.join(self.precisions)}"

    def plan(self, program: CapturedProgram, options: ReferenceOptions) -> PartitionPlan:
        """Everything is taken, in one call."""
        operators = sum(map(is_operator, program.exported.graph.nodes))
        return PartitionPlan(operators, operators, 1)

    def lower(self, program: CapturedProgram, options: ReferenceOptions) -> LoweredModule:
        """Write the ExportedProgram as it is.

        A `.pt2` holds a new archive identity each time it is saved: this target alone is not byte-identical.
        """

        def write(folder: Path) -> None:
            import torch

            torch.export.save(program.exported, folder / MODEL_FILE)

        return LoweredModule(
            files=(MODEL_FILE,),
            write=write,
            methods=(program.method,),
            plan=self.plan(program, options),
            requirements=Requirements(self.engine, "2.13"),
            debug=build_source_map(program),
        )

    def lower_methods(self, programs: Mapping[str, CapturedProgram], options: ReferenceOptions) -> LoweredModule:
        """Write each method's program to a file of its own, `encode.pt2`, with its own weights; see `LowersMethods`."""
        files = {name: f"{name}.pt2" for name in programs}

        def write(folder: Path) -> None:
            import torch

            for name, program in programs.items():
                torch.export.save(program.exported, folder / files[name])

        return LoweredModule(
            files=tuple(files.values()),
            write=write,
            methods=tuple(replace(program.method, name=name, file=files[name]) for name, program in programs.items()),
            plan=merge_plans([self.plan(program, options) for program in programs.values()]),
            requirements=Requirements(self.engine, "2.13"),
            method_debug={name: build_source_map(program) for name, program in programs.items()},
        )

    def recipe_refusal(self, recipe: str) -> str:
        """PyTorch runs every recipe that edgex writes into a graph."""
        return f"recipe {recipe!r} is not written into graphs; reference takes {', '.join(self.recipes)}"

    def quantizer(self, recipe: str) -> Quantizer | None:
        """The quantizers that other targets use: what they make is run by PyTorch, operator by operator."""
        return shared_quantizer(recipe) if recipe in self.recipes else None
