"""What the targets have in common that run on an execution provider of ONNX Runtime other than the CPU's."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from edgex.delegates.base import CapturedProgram, LoweredModule
from edgex.delegates.onnxruntime.cpu import OnnxCpuDelegate
from edgex.delegates.onnxruntime.rewrites import ONNX_REWRITES
from edgex.delegates.onnxruntime.versions import newest
from edgex.delegates.plan import PartitionPlan
from edgex.delegates.recipes.quantizers import Quantizer, shared_quantizer
from edgex.runtime.engines.onnxruntime.provider.known import Provider


class ProviderDelegate:
    """Lowers to `model.onnx`, checked against what a provider takes; each provider has a subclass.

    The artifact names the provider and its options; `edgex.runtime.engines.onnxruntime.provider` opens it there,
    strictly, or on the CPU where the user allows that. Options have `opset` and `allow_fallback`.

    Attributes:
        provider: Which one.
        recipes: See `Quantizes`.
    """

    provider: Provider
    engine = "onnxruntime"
    recipes: tuple[str, ...] = ()
    rewrites: tuple[str, ...] = (*ONNX_REWRITES, "scatter_extremes")

    def graph_checks(self, options: Any) -> Any:
        """The `edgex.delegates.onnxruntime.lowering.Checks` that a graph must pass."""
        raise NotImplementedError

    def provider_options(self, options: Any) -> dict[str, Any]:
        """The provider's options for the manifest, by our names."""
        raise NotImplementedError

    def manifest_options(self, options: Any) -> dict[str, Any]:
        """What else the manifest's options hold."""
        return {}

    def assembled_reason(self) -> str | None:
        """Why nothing here runs the result; None where something does. See `LoweredModule`."""
        return None

    def simulator(self, options: Any) -> str | None:
        """What runs the result here in place of the device; None where the device does. See `LoweredModule`."""
        return None

    def warnings(self, plan: PartitionPlan, options: Any) -> list[str]:
        """What the user should know, a sentence each."""
        left = sum(fallback.count for fallback in plan.fallbacks)
        if not left:
            return []
        return [f"{left} operator(s) run on the CPU: a session refuses the artifact without --allow-fallback"]

    def peak_memory_factor(self, recipe: str | None) -> float:
        """That of `onnx-cpu`, which makes the same graph; see `KnowsMemory`."""
        return OnnxCpuDelegate().peak_memory_factor(recipe)

    def plan(self, program: CapturedProgram, options: Any) -> PartitionPlan:
        """Which operators the provider takes; weights may be fake.

        Raises:
            LoweringError: The program cannot be decomposed, or the opset cannot be had.
        """
        from edgex.delegates.onnxruntime.lowering import plan_program

        return plan_program(program, options.opset, self.graph_checks(options))

    def lower(self, program: CapturedProgram, options: Any) -> LoweredModule:
        """Translate the program to ONNX.

        Raises:
            LoweringError: Operators have no translation, or the provider does not take them and `allow_fallback` is
                off; all are named.
        """
        from edgex.delegates.onnxruntime.lowering import lower_program

        return self._name_provider(
            lower_program(program, options.opset, self.engine, self.graph_checks(options)), options
        )

    def lower_methods(self, programs: Mapping[str, CapturedProgram], options: Any) -> LoweredModule:
        """Translate each method to a file of its own over one file of weights; see `LowersMethods`.

        Raises:
            LoweringError: As `lower`.
        """
        from edgex.delegates.onnxruntime.lowering import lower_methods

        return self._name_provider(
            lower_methods(programs, options.opset, self.engine, self.graph_checks(options)), options
        )

    def _name_provider(self, lowered: LoweredModule, options: Any) -> LoweredModule:
        """The same with who is to run it and what that needs, which the manifest says."""
        needs = lowered.requirements
        runtime = self.provider.packages.get(self.engine)
        if runtime is not None:
            oldest = newest(runtime, needs.minimum_version)
            needs = dataclasses.replace(needs, minimum_version=oldest)
        return dataclasses.replace(
            lowered,
            requirements=needs,
            options={
                **lowered.options,
                "execution_provider": self.provider.name,
                "provider_options": self.provider_options(options),
                **self.manifest_options(options),
            },
            warnings=(*lowered.warnings, *self.warnings(lowered.plan, options)),
            assembled_reason=self.assembled_reason(),
            simulator=self.simulator(options),
        )

    def quantizer(self, recipe: str) -> Quantizer | None:
        """The shared one, where the recipe is among those taken."""
        return shared_quantizer(recipe) if recipe in self.recipes else None
