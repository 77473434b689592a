"""What an export prints, in a real process: edgex's own lines, and none that a dependency wrote."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from edgex.cli.render import describe_verification
from edgex.delegates.plan import Fallback, PartitionPlan
from edgex.errors import VerificationError
from edgex.export.lowering import check_delegation

# Progress of a log, and notes.
OURS = re.compile(r"\[ *\d+\.\d s\] |note: ")


def test_only_our_own_lines_reach_the_terminal(run_here, model_file):
    model_file("convnet")
    flags = ("--quantize", "int8", "--calibration", "random:4", "--no-speed-check")
    done = run_here("export", "convnet.py", "-t", "xnnpack", *flags)
    assert done.returncode == 0, done.stderr
    foreign = [line for line in done.stderr.splitlines() if not OURS.match(line)]
    assert not foreign, "\n".join(foreign)
    quiet = run_here("export", "convnet.py", "-t", "xnnpack,onnx-cpu,reference", "-q", "--force")
    assert quiet.returncode == 0 and quiet.stderr == ""
    assert quiet.stdout.startswith("xnnpack  verified")


NOISY = """
import os, subprocess, sys, torch

def say(word):
    print(word, "print")
    sys.__stdout__.write(f"{word} original\\n")
    os.write(1, f"{word} write\\n".encode())
    os.system(f"echo {word} system")
    subprocess.run(["echo", word, "child"])

say("import")

class Net(torch.nn.Linear):
    def forward(self, x):
        if not torch.compiler.is_compiling():
            say("forward")
        return super().forward(x)

def get_model():
    say("model")
    return Net(4, 2).eval()

def get_args():
    say("inputs")
    return (torch.ones(1, 4),)
"""


@pytest.mark.parametrize("command", ["export", "why"])
def test_what_the_models_file_prints_leaves_the_document_alone(command, run_here, model_file):
    model_file(NOISY)
    done = run_here(command, "model.py", "-t", "reference", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["schema"].startswith(f"edgex.{command}/")
    for word in ("import", "model", "inputs"):
        for way in ("print", "original", "write", "system", "child"):
            assert f"{word} {way}\n" in done.stderr
    assert command == "why" or "forward system\n" in done.stderr


def test_verbose_shows_what_dependencies_say(run_here, model_file):
    model_file("convnet")
    done = run_here("export", "convnet.py", "-t", "xnnpack", "--dry-run", "-v")
    assert done.returncode == 0
    assert [line for line in done.stderr.splitlines() if not OURS.match(line)], "nothing of a dependency is shown"


def test_sizes_begin_with_the_model_and_inspect_agrees(edgex, model_file):
    model_file("convnet")
    document = json.loads(edgex("export", "convnet.py", "-t", "reference", "--json").stdout)
    exported = document["artifacts"][0]
    path = exported["path"]
    seen = json.loads(edgex("inspect", path, "--json").stdout)
    assert [exported[key] for key in ("bytes", "model_bytes", "golden_bytes")] == [
        seen[key] for key in ("total_bytes", "model_bytes", "golden_bytes")
    ]
    on_disk = sum(file.stat().st_size for file in Path(path).rglob("*") if file.is_file())
    assert exported["bytes"] == on_disk > exported["model_bytes"] == Path(path, "model.pt2").stat().st_size
    line = re.search(r"size +(model \S+ k?B; whole folder .*)", edgex("inspect", path).stdout)[1]
    assert line in edgex("export", "convnet.py", "-t", "reference", "--force").stdout


def test_one_of_a_thing_is_called_so(edgex, tmp_path):
    (tmp_path / "net.py").write_text(
        "import torch\nfrom torch import nn\ntorch.manual_seed(0)\n"
        "model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())\nmodel[0].bias.data.fill_(1.0)[0] = -9.0\n"
        "example_inputs = (torch.rand(1, 3, 8, 8),)\n"
    )
    flags = ("--quantize", "int8", "--calibration", "random:1", "--no-speed-check")
    done = edgex("export", "net.py", "-t", "xnnpack", *flags)
    assert done.returncode == 0, done.stderr
    assert "calibrated: on 1 sample\n" in done.stderr
    said = " ".join(f"{done.stdout} {done.stderr}".split())
    assert "calibrated on 1 sample:" in said and "of 1 sample of random:1" in said
    assert "1 of the channels is dead: it is zero, or never changes" in said


def test_outputs_of_which_nothing_was_proved_are_named():
    def case(output, verdict):
        return {"output": output, "verdict": verdict, "sqnr_db": 120.0, "reference": "eager"}

    cases = [case("y", "pass"), case("y", "inconclusive"), case("z", "inconclusive")]
    said = describe_verification({"cases": cases, "max_abs_error": 1e-6, "min_sqnr_db": 120.0, "repeats": {}})
    assert said.startswith("1 pass, 2 inconclusive (never proved: z);")


def test_many_calls_of_a_delegate_are_warned_of():
    left = Fallback("aten.cumsum.default", 1, "not_in_delegate", "no kernel", "net.py:3")
    (said,) = check_delegation(PartitionPlan(573, 574, 53, (left,), 100, 100), None, "xnnpack")
    assert "called 53 times" in said and "may be less of the time" in said and "net.py:3" in said
    assert check_delegation(PartitionPlan(573, 574, 2, (left,), 100, 100), None, "xnnpack") == ()
    with pytest.raises(VerificationError, match="xnnpack takes 90% of the work") as caught:
        check_delegation(PartitionPlan(573, 574, 2, (left,), 90, 100), 0.95, "xnnpack")
    assert "counted in multiply-adds" in str(caught.value.why) and "share of the time" in str(caught.value.why)
