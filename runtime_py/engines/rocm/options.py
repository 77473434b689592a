"""The options of the MIGraphX provider, by one set of names for its two forms.

The classic provider's names carry a prefix (`migraphx_fp16_enable`), the plug-in's do not; the plug-in has no
`mem_limit` and calls the cache folder `cache_dir`. An artifact's manifest holds our names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from edgex.errors import RunError, nearest_name

Route = Literal["classic", "plugin"]

# Our name -> type, name of the classic provider, name of the plug-in (None: it has none).
PROVIDER_OPTIONS: Mapping[str, tuple[type, str, str | None]] = {
    "device_id": (int, "device_id", "device_id"),
    "fp16_enable": (bool, "migraphx_fp16_enable", "fp16_enable"),
    "bf16_enable": (bool, "migraphx_bf16_enable", "bf16_enable"),
    "fp8_enable": (bool, "migraphx_fp8_enable", "fp8_enable"),
    "int8_enable": (bool, "migraphx_int8_enable", "int8_enable"),
    "int8_calibration_table_name": (str, "migraphx_int8_calibration_table_name", "int8_calibration_table_name"),
    "int8_use_native_calibration_table": (
        bool,
        "migraphx_int8_use_native_calibration_table",
        "int8_use_native_calibration_table",
    ),
    "exhaustive_tune": (bool, "migraphx_exhaustive_tune", "exhaustive_tune"),
    "mem_limit": (int, "migraphx_mem_limit", None),
    "model_cache_dir": (str, "migraphx_model_cache_dir", "cache_dir"),
}


def check_provider_options(options: Mapping[str, Any]) -> None:
    """Check names and types.

    Raises:
        RunError: A name is unknown, or a value has another type.
    """
    for name, value in options.items():
        if name not in PROVIDER_OPTIONS:
            raise RunError(f"the MIGraphX provider has no option {name!r}", why=nearest_name(name, PROVIDER_OPTIONS))
        kind = PROVIDER_OPTIONS[name][0]
        if type(value) is not kind:
            raise RunError(f"provider option {name}={value!r}: expected {kind.__name__}")


def provider_texts(options: Mapping[str, Any], route: Route) -> dict[str, str]:
    """The options as a provider takes them: its names, values as text.

    Raises:
        RunError: An option is unknown, or this form of the provider does not have it.
    """
    check_provider_options(options)
    texts = {}
    for name, value in options.items():
        _, classic, plugin = PROVIDER_OPTIONS[name]
        native = classic if route == "classic" else plugin
        if native is None:
            raise RunError(
                f"the plug-in form of the MIGraphX provider has no option {name!r}",
                fix="export again without it, or use AMD's classic build of ONNX Runtime",
            )
        texts[native] = str(int(value)) if isinstance(value, bool) else str(value)
    return texts
