"""The line that renews itself in a terminal says how long the stage and the whole have taken."""

from __future__ import annotations

from edgex.cli import progress


def test_the_clock_goes_on_while_a_stage_runs(monkeypatch):
    now = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    line = progress._Clocked("lower", "[xnnpack]", stage_started=90.0, started=60.0)
    assert line.__rich__().plain == "lower [xnnpack]  10 s, 40 s in all"
    now = 105.0
    assert line.__rich__().plain == "lower [xnnpack]  15 s, 45 s in all"
