"""The target `onnx-cpu`: an ONNX model for ONNX Runtime's CPU provider."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgex.delegates.base import Availability, CapturedProgram, LoweredModule
from edgex.delegates.onnxruntime.quantize.recipes import CPU_RECIPES, cpu_refusal
from edgex.delegates.onnxruntime.rewrites import ONNX_REWRITES
from edgex.delegates.onnxruntime.special_values import SPECIAL_VALUES
from edgex.delegates.onnxruntime.versions import DEFAULT_OPSET, NEWEST_OPSET, OLDEST_OPSET
from edgex.delegates.plan import PartitionPlan
from edgex.delegates.recipes.quantizers import Quantizer, SymmetricInt8, saturating_quantizer

# What the provider computes in bytes; a hard sigmoid as a sum, see `edgex.delegates.onnxruntime.quantize.qdq`.
_TABLES = ("sigmoid", "hardsigmoid", "leaky_relu")

INSTALL_COMMAND = "pip install 'edgex-toolchain[onnx]'"


@dataclass(frozen=True)
class OnnxCpuOptions:
    """What can be chosen for `onnx-cpu`.

    Attributes:
        opset: Version of the ONNX operator set that the model is written in.
    """

    opset: int = DEFAULT_OPSET

    def __post_init__(self) -> None:
        if not OLDEST_OPSET <= self.opset <= NEWEST_OPSET:
            raise ValueError(
                f"opset {self.opset} cannot be had: the exporter honours {OLDEST_OPSET} to {NEWEST_OPSET} "
                f"and silently writes another one outside"
            )


class OnnxCpuDelegate:
    """Lowers to `model.onnx`, with the weights of very large models beside it in `model.onnx.data`."""

    name = "onnx-cpu"
    engine = "onnxruntime"
    options_type = OnnxCpuOptions
    precisions: tuple[str, ...] = ("fp32", "fp16")
    language_models = True
    packages: tuple[str, ...] = ("torch", "onnx", "onnxscript", "onnxruntime")
    recipes: tuple[str, ...] = CPU_RECIPES
    clipped_recipes: tuple[str, ...] = ("int8-dynamic", "8da8w")
    rewrites: tuple[str, ...] = (
        *(
            "write_cached_attention",
            "flatten_softmax",
            "write_large_norms",
            "write_large_sums",
            "weigh_extremes",
            "reduce_planes",
            "multiply_sums",
            "halve_extremes",
            "split_permutes",
            "flatten_conv3d",
            "add_known_rows",
            "write_cubics",
            "block_signals",
            "lay_flat",
        ),
        *("share_factors", "rank_by_comparisons", "write_uneven_averages"),
        *ONNX_REWRITES,
    )
    special_values: Mapping[str, str] = SPECIAL_VALUES

    def availability(self) -> Availability:
        """Whether torch, onnx, onnxscript and onnxruntime are installed; none of them is imported."""
        missing = [name for name in self.packages if importlib.util.find_spec(name) is None]
        if missing:
            return Availability(False, f"not installed: {', '.join(missing)}", INSTALL_COMMAND)
        return Availability(True)

    def precision_refusal(self, precision: str) -> str:
        """Why a precision outside `precisions` is refused."""
        if precision == "bf16":
            return (
                "ONNX Runtime's CPU provider has no bfloat16 kernels: such a model exports and then does not load; "
                "use --precision fp16 or fp32"
            )
        return f"onnx-cpu does not take {precision}; use --precision fp32 or fp16"

    def recipe_refusal(self, recipe: str) -> str:
        """Why a recipe outside `recipes` is refused."""
        return cpu_refusal(recipe)

    def peak_memory_factor(self, recipe: str | None) -> float:
        """Measured: `int8` is calibrated in PyTorch first, other recipes are made of the graph; see `KnowsMemory`."""
        return 2.0 if recipe is None else 4.0 if recipe == "int8" else 3.5

    def import_planner(self) -> None:
        """See `ImportsSlowly`."""
        from edgex.delegates.onnxruntime.graph.torch_registry import load_registry

        load_registry(self.options_type().opset)

    def plan(self, program: CapturedProgram, options: Any) -> PartitionPlan:
        """Which operators translate to ONNX and have a kernel; weights may be fake.

        Raises:
            LoweringError: The program cannot be decomposed, or the opset cannot be had.
        """
        from edgex.delegates.onnxruntime.lowering import plan_program

        return plan_program(program, options.opset)

    def lower(self, program: CapturedProgram, options: Any) -> LoweredModule:
        """Translate the program to ONNX.

        Raises:
            LoweringError: Operators have no translation or no kernel (all are named), or the opset cannot be had.
        """
        from edgex.delegates.onnxruntime.lowering import lower_program

        return lower_program(program, options.opset, self.engine)

    def lower_methods(self, programs: Mapping[str, CapturedProgram], options: Any) -> LoweredModule:
        """Translate each method to a file of its own, `encode.onnx`, over one file of weights; see `LowersMethods`."""
        from edgex.delegates.onnxruntime.lowering import lower_methods

        return lower_methods(programs, options.opset, self.engine)

    def quantizer(self, recipe: str) -> Quantizer | None:
        """For `int8`, with tables; other recipes are made of the float graph, in operators of ONNX Runtime's own."""
        quantizer = saturating_quantizer(recipe) if recipe == "int8" else None
        if isinstance(quantizer, SymmetricInt8):
            return dataclasses.replace(quantizer, tables=_TABLES)
        return quantizer
