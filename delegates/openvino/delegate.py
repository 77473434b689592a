"""The target `openvino`: an ONNX model that OpenVINO reads as it is, for Intel hardware and any x86-64."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgex.delegates.base import Availability, CapturedProgram, LoweredModule
from edgex.delegates.onnxruntime.cpu import OnnxCpuDelegate, OnnxCpuOptions
from edgex.delegates.onnxruntime.rewrites import ONNX_REWRITES
from edgex.delegates.onnxruntime.versions import DEFAULT_OPSET
from edgex.delegates.openvino.conversion import find_refused
from edgex.delegates.plan import PartitionPlan
from edgex.delegates.recipes.quantizers import Quantizer, saturating_quantizer
from edgex.errors import LoweringError
from edgex.runtime.artifact.manifest import Requirements
from edgex.runtime.support.disk.scratch import scratch_folder

ENGINE = "openvino"
INSTALL_COMMAND = "pip install 'edgex-toolchain[openvino]'"
# The first whose CPU plug-in was tried with these graphs.
OLDEST_RUNTIME = "2025.1"


@dataclass(frozen=True)
class OpenVinoOptions:
    """What can be chosen for `openvino`.

    Attributes:
        opset: Version of the ONNX operator set that the model is written in.
    """

    opset: int = DEFAULT_OPSET

    def __post_init__(self) -> None:
        OnnxCpuOptions(self.opset)


class OpenVinoDelegate:
    """Lowers to the same `model.onnx` as `onnx-cpu`, in operators that OpenVINO converts."""

    name = "openvino"
    engine = ENGINE
    options_type = OpenVinoOptions
    precisions: tuple[str, ...] = ("fp32", "fp16")
    packages: tuple[str, ...] = ("torch", "onnx", "onnxscript")
    recipes: tuple[str, ...] = ("int8",)
    rewrites: tuple[str, ...] = (*ONNX_REWRITES, "scatter_extremes")

    def availability(self) -> Availability:
        """Whether torch, onnx, onnxscript and openvino are installed; none of them is imported."""
        missing = [name for name in (*self.packages, "openvino") if importlib.util.find_spec(name) is None]
        if missing:
            return Availability(False, f"not installed: {', '.join(missing)}", INSTALL_COMMAND)
        return Availability(True)

    def precision_refusal(self, precision: str) -> str:
        """Why a precision outside `precisions` is refused."""
        if precision == "bf16":
            return (
                "ONNX graphs in bfloat16 are not proved here; export in fp32, and `edgex.load(path, "
                'options={"inference_precision": "bf16"})` computes in bfloat16 where the processor has it'
            )
        return f"openvino does not take {precision}; use --precision fp32 or fp16"

    def recipe_refusal(self, recipe: str) -> str:
        """Why a recipe outside `recipes` is refused."""
        return f"openvino does not take {recipe}: its operators are ONNX Runtime's own; use --quantize int8"

    def peak_memory_factor(self, recipe: str | None) -> float:
        """That of `onnx-cpu`, which makes the same graph; see `KnowsMemory`."""
        return OnnxCpuDelegate().peak_memory_factor(recipe)

    def import_planner(self) -> None:
        """See `ImportsSlowly`."""
        OnnxCpuDelegate().import_planner()

    def plan(self, program: CapturedProgram, options: OpenVinoOptions) -> PartitionPlan:
        """Which operators translate to ONNX; what OpenVINO makes of the graph is known when it is lowered.

        Raises:
            LoweringError: The program cannot be decomposed, or the opset cannot be had.
        """
        from edgex.delegates.onnxruntime.lowering import plan_program

        return plan_program(program, options.opset, _checks())

    def lower(self, program: CapturedProgram, options: OpenVinoOptions) -> LoweredModule:
        """Translate the program to ONNX, and let OpenVINO read it.

        Raises:
            LoweringError: Operators have no translation, or OpenVINO does not convert them; all are named.
        """
        from edgex.delegates.onnxruntime.lowering import lower_program

        lowered = lower_program(program, options.opset, self.engine, _checks())
        with scratch_folder("openvino") as folder:
            lowered.write(folder)
            refused = find_refused(folder / "model.onnx")
        if refused:
            raise _refusal(refused, lowered.debug)
        return dataclasses.replace(lowered, requirements=Requirements(ENGINE, OLDEST_RUNTIME))

    def quantizer(self, recipe: str) -> Quantizer | None:
        """The shared one for `int8`."""
        return saturating_quantizer(recipe) if recipe in self.recipes else None


def _checks() -> Any:
    from edgex.delegates.onnxruntime.lowering import Checks

    return Checks("OpenVINO", runtime_kernels=False)


def _refusal(refused: Sequence[tuple[str, str]], debug: Mapping[str, Any]) -> LoweringError:
    """One error that names every node that OpenVINO does not convert, with the user's operator and line."""
    operators = debug.get("ops", ())
    # OpenVINO calls a node whose result leaves the graph by the result's name.
    known = {output: entry for entry in operators for output in entry["outputs"]}
    known |= {entry["id"]: entry for entry in operators}
    lines, first, names = [], None, []
    for node, why in refused:
        entry = known.get(node, {})
        source, operator = entry.get("source"), entry.get("op")
        first = first or source
        names.append(str(operator or node))
        lines.append(f"{source + ': ' if source else ''}{operator or node}: {why}")
    return LoweringError(
        f"OpenVINO cannot run this model: {', '.join(dict.fromkeys(names))}",
        first,
        "export to onnx-cpu, which reads the same graph: -t onnx-cpu",
        why="\n".join(dict.fromkeys(lines)),
    )
