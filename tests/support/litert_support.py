"""What tests of the target litert share."""

from __future__ import annotations

import pytest

from edgex.delegates.litert.delegate import LiteRtDelegate

AVAILABILITY = LiteRtDelegate().availability()
needs_litert = pytest.mark.skipif(not AVAILABILITY.available, reason=f"litert: {AVAILABILITY.reason}")
