"""What an export prints, in a real process: edgex's own lines, and none that a dependency wrote."""

from __future__ import annotations

import re

# Progress of a log, and notes.
OURS = re.compile(r"\[ *\d+\.\d s\] |note: ")


def test_only_our_own_lines_reach_the_terminal(run_here, model_file):
    model_file("convnet")
    flags = ("--quantize", "int8", "--calibration", "random:4", "--no-speed-check")
    for chosen in (("-t", "xnnpack,onnx-cpu,reference"), ("-t", "xnnpack", *flags)):
        done = run_here("export", "convnet.py", *chosen, "--force")
        assert done.returncode == 0, done.stderr
        foreign = [line for line in done.stderr.splitlines() if not OURS.match(line)]
        assert not foreign, "\n".join(foreign)
    quiet = run_here("export", "convnet.py", "-t", "xnnpack", "-q", "--force")
    assert quiet.returncode == 0 and quiet.stderr == ""
    assert quiet.stdout.startswith("xnnpack  verified")


def test_verbose_shows_what_dependencies_say(run_here, model_file):
    model_file("convnet")
    done = run_here("export", "convnet.py", "-t", "xnnpack", "--dry-run", "-v")
    assert done.returncode == 0
    assert [line for line in done.stderr.splitlines() if not OURS.match(line)], "nothing of a dependency is shown"
