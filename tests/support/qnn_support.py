"""What tests of the target onnx-qnn share."""

from __future__ import annotations

import pytest

from edgex.delegates.onnxruntime.qnn.delegate import OnnxQnnDelegate

AVAILABILITY = OnnxQnnDelegate().availability()
needs_qnn = pytest.mark.skipif(not AVAILABILITY.available, reason=f"onnx-qnn: {AVAILABILITY.reason}")
