"""What ONNX Runtime's CPU provider makes of NaN and infinity, where that is not what PyTorch does."""

from __future__ import annotations

from collections.abc import Mapping

_DROPS = "ONNX Runtime drops NaN from a maximum"
_LEAST = "ONNX Runtime drops NaN from a minimum"
_ORDERS = "ONNX Runtime orders NaN otherwise"
_CLIPS = "ONNX Runtime clips infinity to the largest number"

# By operator of the captured program; see `edgex.delegates.base.KnowsSpecialValues`.
SPECIAL_VALUES: Mapping[str, str] = {
    "aten.max_pool2d.default": _DROPS,
    "aten.max_pool1d.default": _DROPS,
    "aten.adaptive_max_pool2d.default": _DROPS,
    "aten.amax.default": _DROPS,
    "aten.max.default": _DROPS,
    "aten.max.dim": _DROPS,
    "aten.amin.default": _LEAST,
    "aten.min.default": _LEAST,
    "aten.min.dim": _LEAST,
    "aten.argmax.default": _ORDERS,
    "aten.argmin.default": _ORDERS,
    "aten.topk.default": _ORDERS,
    "aten.sort.default": _ORDERS,
    "aten.clamp.default": _CLIPS,
    "aten.clamp_min.default": _CLIPS,
    "aten.scatter_reduce.two": "ONNX Runtime drops NaN from a scattered maximum or minimum",
    "aten.scaled_dot_product_attention.default": "rows without a key are 0, whatever they hold",
}
