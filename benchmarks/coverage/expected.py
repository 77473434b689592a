"""What is expected of each hard case on each target: exit code (0 is verified) and how the error's sentence begins."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.coverage.judge import Key
from benchmarks.coverage.suite import TARGETS

_VERIFIED = (0, "")

# ExecuTorch has no kernel for it, and neither backend takes it.
_WITHOUT_KERNEL = {"custom_operator": "edgex_coverage.soft_sign.default"}

# Where it is not verified. Each of these errors names the line and a workaround.
_REFUSED: Mapping[Key, tuple[int, str]] = {
    **{
        (f"hard/{name}", target): (5, f"{target} cannot run {operators}")
        for name, operators in _WITHOUT_KERNEL.items()
        for target in ("xnnpack", "onednn")
    },
    ("hard/custom_operator", "onnx-cpu"): (5, "ONNX Runtime's CPU provider cannot run this model: edgex_coverage"),
}

_NAMES = (
    *("lstm", "gru_bidirectional", "cond", "complex_rotary", "fft", "embedding_bag", "sort_topk", "nonzero"),
    *("in_place", "views_as_outputs", "tied_weights", "buffer_twice", "weight_norm", "custom_operator"),
    *("int64_maths", "bool_masks", "empty_tensors", "zero_and_five_dimensions", "convolutions", "kv_cache"),
)

EXPECTED = {
    (f"hard/{name}", target): _REFUSED.get((f"hard/{name}", target), _VERIFIED) for name in _NAMES for target in TARGETS
}
