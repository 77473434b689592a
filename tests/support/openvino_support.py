"""What tests of the target openvino share."""

from __future__ import annotations

import pytest

from edgex.delegates.openvino.delegate import OpenVinoDelegate

AVAILABILITY = OpenVinoDelegate().availability()
needs_openvino = pytest.mark.skipif(not AVAILABILITY.available, reason=f"openvino: {AVAILABILITY.reason}")
