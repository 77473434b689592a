"""Which operator sets can be written, and which ONNX Runtime reads them."""

from __future__ import annotations

from collections.abc import Mapping

# torch.onnx.export writes exactly the opset asked for between these; below 17 it silently writes 18 instead
# (the down-conversion gives up), above 25 it refuses. ONNX Runtime 1.31 reads up to opset 26 and IR version 13.
OLDEST_OPSET = 17
NEWEST_OPSET = 25
DEFAULT_OPSET = 20

# Oldest ONNX Runtime release that reads a model of each opset, in the IR version that torch writes (10, which
# alone needs 1.18).
OLDEST_RUNTIME: Mapping[int, str] = {
    17: "1.18",
    18: "1.18",
    19: "1.18",
    20: "1.18",
    21: "1.18",
    22: "1.20",
    23: "1.23",
    24: "1.24",
    25: "1.25",
}
