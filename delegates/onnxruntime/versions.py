"""Which operator sets can be written, and which ONNX Runtime reads them."""

from __future__ import annotations

from collections.abc import Mapping

from edgex.runtime.support.versions import is_older

# torch.onnx.export writes exactly the opset asked for between these; below 17 it silently writes 18 instead
# (the down-conversion gives up), above 25 it refuses. ONNX Runtime 1.31 reads up to opset 26 and IR version 13.
OLDEST_OPSET = 17
NEWEST_OPSET = 25
DEFAULT_OPSET = 20

# Oldest ONNX Runtime release that loads a model of each opset in IR version 10, which is what torch writes. Tried
# with the last patch of each release: 1.17 refuses IR 10; 1.18 to 1.20 load up to opset 21, 1.21 and 1.22 up to 22,
# 1.23 up to 23, 1.24 up to 25.
OLDEST_RUNTIME: Mapping[int, str] = {
    17: "1.18",
    18: "1.18",
    19: "1.18",
    20: "1.18",
    21: "1.18",
    22: "1.21",
    23: "1.23",
    24: "1.24",
    25: "1.24",
}


def newest(version: str, other: str | None) -> str:
    """The newer of two release numbers of the form `1.20`."""
    return version if other is None or is_older(other, version) else other
