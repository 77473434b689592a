"""Two environments and the same models: what is not the same is named."""

import json
import os
import sys
from pathlib import Path

import pytest

from edgex.errors import TargetUnavailable, UsageError
from edgex.export.upgrade import check
from edgex.export.upgrade.check import check_upgrade
from edgex.export.upgrade.environment import open_environment
from edgex.export.upgrade.outcome import Outcome

MODEL = """
import os
import torch
from torch import nn

THERE = "EDGEX_STAND_IN" in os.environ

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(8, 4)

    def forward(self, x):
        y = self.layer(x)
        return y + 1 if CHANGED and THERE else y.cumsum(1)

def get_model():
    if REFUSED and THERE:
        raise RuntimeError("not there")
    return Net().eval()

def get_args():
    torch.manual_seed(1)
    return (torch.randn(2, 8),)
"""


@pytest.fixture
def models(tmp_path):
    """The same model, one that the stand-in changes, and one that it refuses."""
    for name, changed, refused in (("same", 0, 0), ("changed", 1, 0), ("refused", 0, 1)):
        (tmp_path / f"{name}.py").write_text(f"CHANGED, REFUSED = {changed}, {refused}\n{MODEL}")


@pytest.fixture
def stand_in(tmp_path):
    """Another environment, faked: this one, with a variable set that a model may read."""
    folder = tmp_path / "venv" / "bin"
    folder.mkdir(parents=True)
    path = os.environ.get("PYTHONPATH", "")
    (folder / "python").write_text(
        f"#!/bin/sh\nexport EDGEX_STAND_IN=1 PYTHONPATH='{path}'\nexec {sys.executable} \"$@\"\n"
    )
    (folder / "python").chmod(0o755)
    return folder.parent


@pytest.mark.slow  # six exports, each a start of torch
def test_differences_of_a_stand_in_environment_are_found(models, stand_in, edgex, tmp_path):
    models = ("same.py", "changed.py", "refused.py")
    done = edgex("upgrade-check", *models, "--against", str(stand_in), "-t", "xnnpack", "--runs", "0", "--json", "-q")
    assert done.returncode == 4, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == "edgex.upgrade-check/1" and document["worse"] == 2
    assert document["here"] == document["there"] and document["here"]["python"] == sys.version.split()[0]
    same, changed, refused = document["rows"]
    assert (same["model"], same["target"], same["changes"], same["details"]) == ("same.py", "xnnpack", [], [])
    assert same["here"] == same["there"] and same["here"]["status"] == "verified"
    assert same["max_abs_difference"] == 0
    assert changed["changes"] == ["newly delegated", "different"]
    assert changed["details"][0] == "1 x aten.cumsum.default" and "SQNR" in changed["details"][1]
    assert refused["changes"] == ["newly refused"] and "not there" in refused["details"][0]
    assert refused["there"]["status"] == "refused" and refused["here"]["status"] == "verified"
    assert not list(tmp_path.glob("**/*.edgex"))


@pytest.mark.parametrize(
    ("here", "there", "change"),
    [
        ((0.010, (0.0099, 0.0101)), (0.012, (0.0119, 0.0121)), "slower"),
        ((0.012, (0.0119, 0.0121)), (0.010, (0.0099, 0.0101)), "faster"),
        ((0.010, (0.0090, 0.0130)), (0.012, (0.0100, 0.0140)), None),  # the intervals meet
        ((0.0100, (0.00999, 0.01001)), (0.0105, (0.01049, 0.01051)), None),  # too little
        ((0.010, None), (0.020, None), "slower"),
        ((None, None), (0.020, None), None),
    ],
)
def test_slower_is_more_than_noise(here, there, change):
    one = Outcome("verified", median_seconds=here[0], interval_seconds=here[1])
    other = Outcome("verified", median_seconds=there[0], interval_seconds=there[1])
    assert [name for name, _ in check._compare_speed(one, other)] == ([change] if change else [])


def test_it_is_timed_in_turns(tmp_path, monkeypatch):
    """Stand-ins export and measure: in which order is the question."""
    asked = []

    def measure(environment, artifact, runs):
        asked.append(environment)
        return {1: 0.010, 2: 0.030, 3: 0.020, 4: 0.011}[len(asked)], None

    made = Outcome("verified", None, tmp_path, 1, 1, {}, 1)
    monkeypatch.setattr(check, "export_model", lambda *_: {"xnnpack": made})
    monkeypatch.setattr(check, "measure", measure)
    monkeypatch.setattr(check, "_compare_outputs", lambda *_: (0.0, None))
    (row,) = check_upgrade(["net.py"], ["xnnpack"], "here", "there", runs=5)
    assert asked == ["here", "there", "there", "here"]
    assert row.changes == ("slower",) and row.details == ("20 ms instead of 10 ms",)


def test_what_is_no_environment(tmp_path):
    with pytest.raises(UsageError, match="is no environment"):
        open_environment(tmp_path)
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    python.chmod(0o755)
    with pytest.raises(TargetUnavailable, match="cannot import edgex") as caught:
        open_environment(tmp_path)
    assert "edgex" in caught.value.why and "pip install" in caught.value.fix
    assert open_environment(Path(sys.executable)).versions["torch"]
