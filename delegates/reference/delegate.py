"""Saves the captured program as `model.pt2` and leaves every operator to PyTorch's eager kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgex.delegates.base import Availability, CapturedProgram, LoweredModule
from edgex.delegates.graph.provenance import is_operator
from edgex.delegates.graph.source_map import build_source_map
from edgex.delegates.plan import PartitionPlan, merge_plans
from edgex.delegates.recipes.quantizers import Quantizer, shared_quantizer
from edgex.delegates.recipes.recipes import RECIPE_NAMES
from edgex.delegates.whole_programs import Refusal, plan_whole, refuse_program
from edgex.runtime.artifact.manifest import Requirements
from edgex.runtime.engines.torch.pt2.operators import LIBRARIES
from edgex.runtime.support.entry_points import installed_version

if TYPE_CHECKING:
    from torch.fx import Node

MODEL_FILE = "model.pt2"
_FOREIGN = "it is defined by the user's Python alone, which an artifact does not hold"


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
        """Everything is taken, in one call, but operators that only the user's Python defines."""
        nodes = [node for node in program.exported.graph.nodes if is_operator(node)]
        refused = {node: Refusal("no_kernel", _FOREIGN) for node in nodes if _is_foreign(node)}
        if refused:
            return plan_whole(nodes, refused, program.source_root)
        return PartitionPlan(len(nodes), len(nodes), 1)

    def lower(self, program: CapturedProgram, options: ReferenceOptions) -> LoweredModule:
        """Write the ExportedProgram as it is.

        A `.pt2` holds a new archive identity each time it is saved: this target alone is not byte-identical.

        Raises:
            LoweringError: It holds operators that only the user's Python defines.
        """
        plan = self._plan_all([program], options)

        def write(folder: Path) -> None:
            import torch

            torch.export.save(program.exported, folder / MODEL_FILE)

        return LoweredModule(
            files=(MODEL_FILE,),
            write=write,
            methods=(program.method,),
            plan=plan,
            requirements=Requirements(self.engine, "2.13"),
            debug=build_source_map(program),
        )

    def lower_methods(self, programs: Mapping[str, CapturedProgram], options: ReferenceOptions) -> LoweredModule:
        """Write each method's program to a file of its own, `encode.pt2`, with its own weights; see `LowersMethods`."""
        files = {name: f"{name}.pt2" for name in programs}
        plan = self._plan_all(programs.values(), options)

        def write(folder: Path) -> None:
            import torch

            for name, program in programs.items():
                torch.export.save(program.exported, folder / files[name])

        return LoweredModule(
            files=tuple(files.values()),
            write=write,
            methods=tuple(replace(program.method, name=name, file=files[name]) for name, program in programs.items()),
            plan=plan,
            requirements=Requirements(self.engine, "2.13"),
            method_debug={name: build_source_map(program) for name, program in programs.items()},
        )

    def _plan_all(self, programs: Iterable[CapturedProgram], options: ReferenceOptions) -> PartitionPlan:
        plan = merge_plans([self.plan(program, options) for program in programs])
        if plan.fatal:
            raise refuse_program(self.name, plan)
        return plan

    def recipe_refusal(self, recipe: str) -> str:
        """PyTorch runs every recipe that edgex writes into a graph."""
        return f"recipe {recipe!r} is not written into graphs; reference takes {', '.join(self.recipes)}"

    def quantizer(self, recipe: str) -> Quantizer | None:
        """The quantizers that other targets use: what they make is run by PyTorch, operator by operator."""
        return shared_quantizer(recipe) if recipe in self.recipes else None


def _is_foreign(node: Node) -> bool:
    """Whether an operator is of a library that a process without the user's Python does not have."""
    space = getattr(node.target, "namespace", None)
    return isinstance(space, str) and space not in (*LIBRARIES, "prims", "higher_order")
