"""What the tests of profiles share."""

import pytest

from edgex.runtime.execute.request import FreshRun


@pytest.fixture
def without_fresh_process(monkeypatch):
    """Simulated sessions cannot be opened by another process."""
    fresh = FreshRun(check=1e-3, engine_import=0.5, program=2e-3, method=3e-3, first=0.01, peak_rss_bytes=None)
    monkeypatch.setattr("edgex.runtime.execute.here.kept_process.start_cold", lambda *_: (fresh,))
