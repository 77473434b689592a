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


def test_what_is_left_is_estimated_where_the_number_of_steps_is_known(monkeypatch):
    monkeypatch.setattr(progress.time, "monotonic", lambda: 100.0)
    for detail, left in (
        ("net, turn 3 of 6", ", about 20 s left"),  # two turns in 10 s: four are left
        ("data.npz: sample 11 of at most 12", ", about 2 s left"),
        ("batch 8: session 2 of 2, process 1 of each", ", about 10 s left"),
        ("net, turn 1 of 6", ""),
        ("60 samples in 30 rounds", ""),
    ):
        line = progress._Clocked("measure", detail, stage_started=90.0, started=60.0)
        assert line.__rich__().plain == f"measure {detail}  10 s, 40 s in all{left}"


def test_a_sweep_estimates_by_the_jobs_of_this_run(monkeypatch):
    from edgex.cli.export.sweep_text import SweepProgress
    from edgex.export.sweep.driver import Standing

    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr(progress.time, "monotonic", lambda: 100.0)
    told = []
    sweep = SweepProgress(quiet=False)
    monkeypatch.setattr(sweep, "_live", lambda stage, detail: told.append((stage, detail)))
    # 90 rows are of an earlier run; two jobs in 10 s, and eight are left.
    sweep(Standing(100, 90, 5))
    sweep(Standing(100, 92, 5, 1, "net: onnx-cpu: killed by SIGSEGV; attempt 2 of 2"))
    assert told[0] == ("sweep", "90/100 done, 5 failed, 0 running  job 1 of 10")
    line = progress._Clocked(*told[1], stage_started=90.0, started=60.0).__rich__().plain
    assert line.startswith("sweep 92/100 done, 5 failed, 1 running  net: onnx-cpu: killed by SIGSEGV; attempt 2 of 2")
    assert line.endswith("job 3 of 10  10 s, 40 s in all, about 40 s left")
