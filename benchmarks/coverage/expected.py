"""What is expected of each hard case on each target: exit code (0 is verified) and how the error's sentence begins."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.coverage.judge import Key
from benchmarks.coverage.suite import TARGETS

_VERIFIED = (0, "")

# Where it is not verified. Each of these errors names the line and a way out.
_REFUSED: Mapping[Key, tuple[int, str]] = {}


def _expect(names: tuple[str, ...]) -> dict[Key, tuple[int, str]]:
    keys = [(f"hard/{name}", target) for name in names for target in TARGETS]
    return {key: _REFUSED.get(key, _VERIFIED) for key in keys}


EXPECTED = _expect(
    (
        *("lstm", "gru_bidirectional", "cond", "complex_rotary", "fft", "embedding_bag", "sort_topk", "nonzero"),
        *("in_place", "views_as_outputs", "tied_weights", "buffer_twice", "weight_norm", "custom_operator"),
        *("int64_maths", "bool_masks", "empty_tensors", "zero_and_five_dimensions", "convolutions", "kv_cache"),
    )
)
