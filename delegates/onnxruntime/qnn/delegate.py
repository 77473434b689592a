"""The target `onnx-qnn`: an ONNX model for the HTP of a named Snapdragon, run by the QNN provider of ONNX Runtime.

On x86-64 the provider's library holds a simulator of the HTP, with the arithmetic of the SoC that is named: there the
artifact is compiled, executed and proved, and gets the status `simulated`.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from edgex.delegates.base import Availability, CapturedProgram, LoweredModule
from edgex.delegates.onnxruntime.provider import ProviderDelegate
from edgex.delegates.onnxruntime.rewrites import ONNX_REWRITES
from edgex.delegates.onnxruntime.versions import NEWEST_OPSET, OLDEST_OPSET
from edgex.errors import LoweringError, nearest_name
from edgex.runtime.engines.checks import Check
from edgex.runtime.engines.qnn.detection import check_package
from edgex.runtime.engines.qnn.opening import SIMULATION_SECONDS
from edgex.runtime.engines.qnn.provider import DISTRIBUTION, LICENCE, QNN, describe_simulator, simulates
from edgex.runtime.engines.qnn.socs import SOCS, Soc
from edgex.runtime.session.numerics import Tolerance

INSTALL_COMMAND = "pip install 'edgex-toolchain[qnn]'"
# QuantizeLinear knows 16-bit integers from here on.
_OPSET = 21
# Measured: mobilenet_v3_small, with its many hard sigmoids, is at 36 dB.
_FLOAT16_SQNR_DB = 30.0


@dataclass(frozen=True)
class OnnxQnnOptions:
    """What can be chosen for `onnx-qnn`.

    Attributes:
        soc: Which SoC it is compiled and proved for.
        opset: Version of the ONNX operator set that the model is written in.
        context: Write what QNN compiled the model to as well, for this SoC alone; it is what is proved and run then.
        allow_fallback: Export even if QNN leaves operators to the CPU; running it then needs --allow-fallback.
        optimization: How long QNN's compiler looks for a better graph: 0 (its default) to 3.
        vtcm_mb: Megabytes of the HTP's fast memory that the graph may use; 0 is all.
        simulation_seconds: How long the cases of a proof are simulated; what is left out is listed.
    """

    soc: str = "sm8650"
    opset: int = _OPSET
    context: bool = False
    allow_fallback: bool = False
    optimization: int = 0
    vtcm_mb: int = 0
    simulation_seconds: float = SIMULATION_SECONDS

    def __post_init__(self) -> None:
        if self.soc not in SOCS:
            raise ValueError(f"soc {self.soc!r} is unknown: {nearest_name(self.soc, SOCS)}")
        if not OLDEST_OPSET <= self.opset <= NEWEST_OPSET:
            raise ValueError(f"opset {self.opset} cannot be had: the exporter honours {OLDEST_OPSET} to {NEWEST_OPSET}")
        if self.context and self.allow_fallback:
            raise ValueError("context and allow_fallback exclude each other: a context binary holds the whole model")
        if self.optimization not in range(4):
            raise ValueError(f"optimization is 0 to 3, not {self.optimization}")
        if self.vtcm_mb < 0 or not 0.0 <= self.simulation_seconds < float("inf"):
            raise ValueError("vtcm_mb and simulation_seconds count from 0")

    @property
    def chip(self) -> Soc:
        """The SoC."""
        return SOCS[self.soc]


class OnnxQnnDelegate(ProviderDelegate):
    """Lowers to `model.onnx` in float16 or integers, in operators that QNN takes for one SoC."""

    name = "onnx-qnn"
    provider = QNN
    options_type = OnnxQnnOptions
    # The HTP computes no float32; recipes start from it, and what they leave is computed in float16.
    precisions: tuple[str, ...] = ("fp16",)
    packages: tuple[str, ...] = ("torch", "onnx", "onnxscript", DISTRIBUTION)
    recipes: tuple[str, ...] = ("int8", "a16w8")
    rewrites: tuple[str, ...] = (
        *ONNX_REWRITES,
        "scatter_extremes",
        "fill_dilation",
        "write_uneven_averages",
        "write_windows",
    )

    def availability(self) -> Availability:
        """Whether torch, onnx, onnxscript, onnxruntime and the provider are installed; none of them is imported."""
        modules = ("torch", "onnx", "onnxscript", "onnxruntime")
        missing = [name for name in modules if importlib.util.find_spec(name) is None]
        package = check_package()
        if package.passed is False and not missing:
            return Availability(False, package.detail, INSTALL_COMMAND)
        if missing:
            missing += [] if package.passed else [DISTRIBUTION]
            return Availability(False, f"not installed: {', '.join(missing)}; {LICENCE}", INSTALL_COMMAND)
        return Availability(True)

    def checks(self) -> Sequence[Check]:
        """What running needs: the provider's package, its library, a session that runs."""
        from edgex.runtime.engines.qnn.detection import detect

        return detect()

    def precision_refusal(self, precision: str) -> str:
        """Why a precision outside `precisions` is refused."""
        if precision == "bf16":
            return "QNN takes bfloat16 on the newest SoCs only, which was not tried; use --precision fp16"
        return (
            "the HTP computes floating point in float16; use --precision fp16, or --quantize int8 with calibration "
            "data, which is what it is made for"
        )

    def recipe_refusal(self, recipe: str) -> str:
        """Why a recipe outside `recipes` is refused."""
        return f"QNN takes activations with ranges from calibration; {recipe} has none; use --quantize int8 or a16w8"

    def tolerance(self, kind: str) -> Tolerance | None:
        """See `SetsTolerances`: from v73 on the HTP approximates tanh, sigmoid and their like in float16.

        One tanh alone is 44 dB from float64 (onnxruntime-qnn 2.7.0, v73 to v81); a network of them is further away.
        """
        return Tolerance(min_sqnr_db=_FLOAT16_SQNR_DB) if kind == "fp16" else None

    def options_refusal(self, options: OnnxQnnOptions, precision: str, recipe: str | None) -> str | None:
        """See `JudgesOptions`: not every HTP computes in float16."""
        if recipe is None and not options.chip.has_float16:
            return (
                f"float16 cannot be proved for {options.chip}: the simulator computes in float32 for it; use "
                "--quantize int8, or a newer SoC"
            )
        return None

    def graph_checks(self, options: OnnxQnnOptions) -> Any:
        """See `ProviderDelegate`: the provider is asked; the CPU needs no kernels."""
        from edgex.delegates.onnxruntime.lowering import Checks
        from edgex.delegates.onnxruntime.qnn.edits import write_for_htp
        from edgex.delegates.onnxruntime.qnn.rules import find_unquantized, qnn_refusals

        find_left = partial(
            qnn_refusals,
            options=self.provider_options(options),
            fatal=not options.allow_fallback,
            without_floats=None if options.chip.has_float16 else str(options.chip),
        )
        return Checks(
            f"QNN for {options.chip}",
            find_left,
            fixed_sizes=True,
            other_sizes_on_cpu=False,
            runtime_kernels=False,
            form="units",
            edit=write_for_htp,
            find_floats=find_unquantized,
        )

    def provider_options(self, options: OnnxQnnOptions) -> dict[str, Any]:
        """See `ProviderDelegate`."""
        chosen: dict[str, Any] = {
            "soc_model": options.chip.model,
            "htp_arch": options.chip.htp,
            "enable_htp_fp16_precision": True,
            # Else the provider leaves the first and the last operator of a quantized graph to the CPU.
            "offload_graph_io_quantization": False,
        }
        if options.optimization:
            chosen["htp_graph_finalization_optimization_mode"] = options.optimization
        if options.vtcm_mb:
            chosen["vtcm_mb"] = options.vtcm_mb
        return chosen

    def manifest_options(self, options: OnnxQnnOptions) -> dict[str, Any]:
        """See `ProviderDelegate`."""
        return {"soc": options.soc, "context": options.context, "simulation_seconds": options.simulation_seconds}

    def lower(self, program: CapturedProgram, options: OnnxQnnOptions) -> LoweredModule:
        """See `ProviderDelegate`; with `context`, the model is compiled when it is written.

        Raises:
            LoweringError: Operators have no translation, or QNN does not take them; all are named. What is written
                raises it too where QNN's compiler ends or takes too long.
        """
        lowered = super().lower(program, options)
        if not options.context:
            return lowered
        from edgex.delegates.onnxruntime.graph.writer import MODEL_FILE
        from edgex.delegates.onnxruntime.qnn.rules import compiler_ended
        from edgex.runtime.engines.qnn.context import CONTEXT_FILES, compile_context
        from edgex.runtime.support.process.child import ChildEnded

        def write(folder: Path) -> None:
            lowered.write(folder)
            try:
                compile_context(folder, MODEL_FILE, self.provider_options(options))
            except ChildEnded as error:
                raise compiler_ended(error) from error

        return dataclasses.replace(lowered, files=(*lowered.files, *CONTEXT_FILES), write=write)

    def lower_methods(self, programs: Mapping[str, CapturedProgram], options: Any) -> LoweredModule:
        """See `ProviderDelegate`.

        Raises:
            LoweringError: As `lower`; or a context binary is asked for, which holds one method.
        """
        refusal = self.methods_refusal(options)
        if refusal is not None:
            raise refusal
        return super().lower_methods(programs, options)

    def methods_refusal(self, options: OnnxQnnOptions) -> LoweringError | None:
        """See `JudgesMethods`: a context binary holds one method."""
        if not options.context:
            return None
        return LoweringError(
            "a context binary holds one method, and this artifact would have several",
            fix="leave --option context=true out: QNN compiles each method when it is first run; or export one "
            "size an artifact",
            why="the provider writes binaries that share their weights (ep.share_ep_contexts), and onnxruntime-qnn "
            "2.7.0 dies when its simulator loads them: what has not run is not written",
        )

    def simulator(self, options: OnnxQnnOptions) -> str | None:
        """See `ProviderDelegate`."""
        return describe_simulator(str(options.chip)) if simulates() else None
