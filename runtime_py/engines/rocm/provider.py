"""The MIGraphX provider and its options, by one set of names for its two forms.

The classic provider's names carry a prefix (`migraphx_fp16_enable`), the plug-in's do not; the plug-in has no
`mem_limit` and calls the cache folder `cache_dir`. An artifact's manifest holds our names.
"""

from __future__ import annotations

from edgex.runtime.engines.onnxruntime.provider.known import Option, Provider

MIGRAPHX = Provider(
    name="MIGraphXExecutionProvider",
    title="MIGraphX",
    install_fix="install AMD's build of ONNX Runtime: docs/reference/targets/onnx-rocm.md",
    # The ROCm provider is gone upstream; old builds of AMD have it and not MIGraphX.
    classic=("MIGraphXExecutionProvider", "ROCMExecutionProvider"),
    device_types=("GPU",),
    options={
        "device_id": Option(int, "device_id", "device_id"),
        "fp16_enable": Option(bool, "fp16_enable", "migraphx_fp16_enable"),
        "bf16_enable": Option(bool, "bf16_enable", "migraphx_bf16_enable"),
        "fp8_enable": Option(bool, "fp8_enable", "migraphx_fp8_enable"),
        "int8_enable": Option(bool, "int8_enable", "migraphx_int8_enable"),
        "int8_calibration_table_name": Option(
            str, "int8_calibration_table_name", "migraphx_int8_calibration_table_name"
        ),
        "int8_use_native_calibration_table": Option(
            bool, "int8_use_native_calibration_table", "migraphx_int8_use_native_calibration_table"
        ),
        "exhaustive_tune": Option(bool, "exhaustive_tune", "migraphx_exhaustive_tune"),
        "mem_limit": Option(int, None, "migraphx_mem_limit"),
        "model_cache_dir": Option(str, "cache_dir", "migraphx_model_cache_dir"),
    },
)
