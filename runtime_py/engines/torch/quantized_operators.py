"""Register the operators that a quantized `.pt2` holds: torch finds them only once the module that defines them ran."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgex.errors import TargetUnavailable
from edgex.runtime.support.dependency_messages import quiet_import
from edgex.runtime.support.entry_points import installed_version


def register_quantized_operators(quantization: Mapping[str, Any] | None) -> None:
    """Import what defines the operators of a manifest's `quantization`.

    Raises:
        TargetUnavailable: torchao is not installed, whose operators the recipe uses.
    """
    if quantization is None:
        return
    import torch.ao.quantization.quantize_fx  # noqa: F401  # defines quantized_decomposed

    if quantization["recipe"] in ("int8", "int8-dynamic", "a16w8"):
        return
    if installed_version("torchao") is None:
        raise TargetUnavailable(
            f"torchao is not installed, whose operators {quantization['recipe']} uses", fix="pip install torchao"
        )
    with quiet_import():
        import torchao.quantization.quant_primitives  # noqa: F401
