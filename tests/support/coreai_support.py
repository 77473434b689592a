"""What tests of the target coreai share."""

from __future__ import annotations

import pytest

from edgex.delegates.coreai.delegate import CoreAiDelegate

AVAILABILITY = CoreAiDelegate().availability()
needs_coreai = pytest.mark.skipif(not AVAILABILITY.available, reason=f"coreai: {AVAILABILITY.reason}")
