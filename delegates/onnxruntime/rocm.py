"""The target `onnx-rocm`: an ONNX model for AMD GPUs, run by MIGraphX inside ONNX Runtime.

Where no such GPU can be used, the artifact is assembled: the graph is checked against what MIGraphX takes, and its
numbers are proved on the CPU provider, which says nothing about the GPU's own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from edgex.delegates.base import Availability
from edgex.delegates.onnxruntime.cpu import OnnxCpuDelegate
from edgex.delegates.onnxruntime.migraphx.operators import NEWEST_OPSET, OLDEST_OPSET, TABLE_VERSION
from edgex.delegates.onnxruntime.provider import ProviderDelegate
from edgex.delegates.onnxruntime.quantize.recipes import MIGRAPHX_RECIPES, migraphx_refusal
from edgex.delegates.onnxruntime.special_values import SPECIAL_VALUES
from edgex.delegates.plan import PartitionPlan
from edgex.delegates.recipes.quantizers import Quantizer, saturating_quantizer
from edgex.runtime.engines.checks import Check
from edgex.runtime.engines.rocm.provider import MIGRAPHX

# Options that change what the GPU computes, beyond what a proof on the CPU can see.
_CHANGE_NUMBERS = ("fp16_enable", "bf16_enable", "fp8_enable", "int8_enable")


@dataclass(frozen=True)
class OnnxRocmOptions:
    """What can be chosen for `onnx-rocm`. All but the first two are options of the MIGraphX provider.

    Attributes:
        opset: Version of the ONNX operator set: 18 or 19.
        allow_fallback: Export even if MIGraphX leaves operators to the CPU; running it then needs --allow-fallback.
        device_id: Which GPU.
        fp16_enable: MIGraphX computes a float32 graph in float16.
        bf16_enable: The same in bfloat16.
        fp8_enable: The same in 8-bit floats, with a calibration table.
        int8_enable: The same in 8-bit integers, with a calibration table.
        int8_calibration_table_name: File name of the table, in the device's cache folder.
        int8_use_native_calibration_table: The table is in MIGraphX's own format.
        exhaustive_tune: Try all kernels when compiling; minutes instead of seconds.
        mem_limit: Bytes of GPU memory; 0 is no limit.
        model_cache_dir: Name of the folder for compiled models that a device may use; a hint, never a path.
    """

    opset: int = OLDEST_OPSET
    allow_fallback: bool = False
    device_id: int = 0
    fp16_enable: bool = False
    bf16_enable: bool = False
    fp8_enable: bool = False
    int8_enable: bool = False
    int8_calibration_table_name: str = ""
    int8_use_native_calibration_table: bool = False
    exhaustive_tune: bool = False
    mem_limit: int = 0
    model_cache_dir: str = ""

    def __post_init__(self) -> None:
        if not OLDEST_OPSET <= self.opset <= NEWEST_OPSET:
            raise ValueError(
                f"opset {self.opset}: MIGraphX reads up to {NEWEST_OPSET}, the exporter writes from {OLDEST_OPSET}; "
                f"give --option opset={OLDEST_OPSET} or {NEWEST_OPSET}"
            )
        if self.device_id < 0 or self.mem_limit < 0:
            raise ValueError("device_id and mem_limit count from 0")
        if self.fp16_enable and self.bf16_enable:
            raise ValueError("fp16_enable and bf16_enable exclude each other: MIGraphX would ignore both")
        if self.fp8_enable and self.int8_enable:
            raise ValueError("fp8_enable and int8_enable exclude each other: MIGraphX would ignore both")
        if (self.int8_enable or self.fp8_enable) and not self.int8_calibration_table_name:
            raise ValueError("int8_enable and fp8_enable need int8_calibration_table_name: without it they do nothing")
        for name in ("int8_calibration_table_name", "model_cache_dir"):
            text = getattr(self, name)
            if "/" in text or "\\" in text or text in (".", ".."):
                raise ValueError(f"{name}={text}: give a name without folders; the path is the device's")

    @property
    def provider_options(self) -> dict[str, Any]:
        """The provider's options that differ from their defaults, by our names, without the cache's."""
        ours = ("opset", "allow_fallback", "model_cache_dir")
        fields = [field for field in dataclasses.fields(self) if field.name not in ours]
        return {f.name: getattr(self, f.name) for f in fields if getattr(self, f.name) != f.default}


class OnnxRocmDelegate(ProviderDelegate):
    """Lowers to `model.onnx` in opset 18 or 19, checked against what MIGraphX takes."""

    name = "onnx-rocm"
    provider = MIGRAPHX
    options_type = OnnxRocmOptions
    precisions: tuple[str, ...] = ("fp32", "fp16")
    packages: tuple[str, ...] = ("torch", "onnx", "onnxscript")
    recipes: tuple[str, ...] = MIGRAPHX_RECIPES
    special_values: Mapping[str, str] = SPECIAL_VALUES

    def availability(self) -> Availability:
        """Whether it can lower here; a GPU is not needed for that."""
        return OnnxCpuDelegate().availability()

    def checks(self) -> Sequence[Check]:
        """What running needs: the device, the driver's list, rocminfo, the provider's library, a session that runs."""
        from edgex.runtime.engines.rocm.detection import detect

        return detect()

    def precision_refusal(self, precision: str) -> str:
        """Why a precision outside `precisions` is refused."""
        if precision == "bf16":
            return (
                "MIGraphX parses no bfloat16 graphs; export in fp32 with --option bf16_enable=true, and MIGraphX "
                "computes in bfloat16"
            )
        return f"onnx-rocm does not take {precision}; use --precision fp32 or fp16"

    def recipe_refusal(self, recipe: str) -> str:
        """Why a recipe outside `recipes` is refused."""
        return migraphx_refusal(recipe)

    def graph_checks(self, options: OnnxRocmOptions) -> Any:
        """See `ProviderDelegate`: the table of what MIGraphX takes, and kernels for the proof on the CPU."""
        from edgex.delegates.onnxruntime.lowering import Checks
        from edgex.delegates.onnxruntime.migraphx.rules import migraphx_refusals

        find_left = partial(migraphx_refusals, fatal=not options.allow_fallback)
        return Checks("MIGraphX", find_left, fixed_sizes=True, form="signed")

    def quantizer(self, recipe: str) -> Quantizer | None:
        """See `ProviderDelegate`; the proof runs on this machine's CPU where there is no AMD GPU."""
        return saturating_quantizer(recipe) if recipe in self.recipes else None

    def manifest_options(self, options: OnnxRocmOptions) -> dict[str, Any]:
        """See `ProviderDelegate`."""
        return {"model_cache_dir": options.model_cache_dir or None, "operator_table": TABLE_VERSION}

    def provider_options(self, options: OnnxRocmOptions) -> dict[str, Any]:
        """See `ProviderDelegate`."""
        return options.provider_options

    def assembled_reason(self) -> str | None:
        """See `ProviderDelegate`."""
        from edgex.runtime.engines.checks import first_failure
        from edgex.runtime.engines.rocm.detection import detect

        failed = first_failure(detect(run_session=False))
        return None if failed is None else f"not executed on an AMD GPU: {failed.detail}"

    def warnings(self, plan: PartitionPlan, options: OnnxRocmOptions) -> list[str]:
        """See `ProviderDelegate`."""
        changed = [name for name in _CHANGE_NUMBERS if getattr(options, name)]
        texts = super().warnings(plan, options)
        if changed:
            texts.append(
                f"{', '.join(changed)} change what the GPU computes; the proof is of the graph as it is written"
            )
        return texts
