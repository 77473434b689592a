"""What oneDNN's kernels make of NaN, where that is not what PyTorch does."""

from __future__ import annotations

from collections.abc import Mapping

_DROPS = "oneDNN drops NaN from a maximum"
_LEAST = "oneDNN drops NaN from a minimum"

# By operator of the captured program; see `edgex.delegates.base.KnowsSpecialValues`.
SPECIAL_VALUES: Mapping[str, str] = {
    "aten.relu.default": "NaN becomes 0",
    "aten.relu6.default": "NaN becomes 0",
    "aten.hardtanh.default": "NaN becomes the least value",
    "aten.hardsigmoid.default": "NaN becomes 1",
    "aten.clamp.default": "NaN becomes the least value",
    "aten.clamp_min.default": "NaN becomes the least value",
    "aten.gelu.default": "infinity becomes NaN on processors without AVX-512",
    "aten.exp.default": "NaN becomes infinity",
    "aten.softmax.int": "a row with NaN or infinity has numbers",
    "aten.log_softmax.int": "a row with NaN or infinity has numbers",
    "aten.logsumexp.default": "NaN becomes infinity",
    "aten.amax.default": _DROPS,
    "aten.amin.default": _LEAST,
    "aten.maximum.default": _DROPS,
    "aten.minimum.default": _LEAST,
    "aten.max_pool2d.default": _DROPS,
}
