"""`edgex why`: what it prints, its exit codes, and flags that are refused before any slow step."""

from __future__ import annotations

import json

import pytest
from model_support import run_edgex

from edgex.export.why.question import targets_to_ask

HEAD = "import torch\nfrom torch import nn\n\n"
LINEAR = (
    HEAD + "def get_model():\n    return nn.Linear(4, 2).eval()\ndef get_args():\n    return (torch.randn(1, 4),)\n"
)
# Its rate is read out of a tensor, which has none under torch.device("meta").
NEEDS_VALUES = LINEAR.replace("nn.Linear(4, 2)", "nn.Sequential(nn.Linear(4, 2), nn.Dropout(torch.ones(1).item() / 2))")
BLOCKED = (
    HEAD
    + "class Net(nn.Module):\n    def forward(self, x):\n        if x.sum() > 0:\n            x = x + 1\n"
    + "        return x * 2 if x.max() > 1 else x\n\nmodel = Net()\nexample_inputs = (torch.ones(3),)\n"
)


def why(folder, text, *flags):
    (folder / "model.py").write_text(text)
    done = run_edgex("why", "model.py", "-t", "reference", "-q", *flags, cwd=folder)
    return done, json.loads(done.stdout) if "--json" in flags else None


def test_a_model_is_built_without_values(tmp_path):
    done, document = why(tmp_path, LINEAR, "--json")
    assert done.returncode == 0, done.stderr
    assert document["model"] == {"source": "model.py:get_model", "parameters": 10, "weights": "none"}
    (target,) = document["targets"]
    assert (target["target"], target["exportable"], target["delegation"]["fraction"]) == ("reference", True, 1.0)


def test_weights_that_a_file_loads_are_passed_over_in_silence(tmp_path):
    loaded = "def get_model():\n    net = nn.Linear(4, 2)\n    net.load_state_dict(WEIGHTS)\n    return net.eval()\n"
    text = (
        HEAD
        + "WEIGHTS = nn.Linear(4, 2, device='cpu').state_dict()\n"
        + loaded
        + LINEAR[LINEAR.index("def get_args") :]
    )
    done, document = why(tmp_path, text, "--json")
    assert document["model"]["weights"] == "none"
    assert "non-meta" not in done.stderr


def test_a_model_that_needs_values_is_built_and_that_is_said(tmp_path):
    done, document = why(tmp_path, NEEDS_VALUES, "--json")
    assert done.returncode == 0, done.stderr
    assert document["model"]["weights"] == "built"
    assert any("torch.device('meta')" in notice and "model.py:5" in notice for notice in document["notices"])


def test_blockers_end_with_exit_code_3_and_are_all_named(tmp_path):
    done, _ = why(tmp_path, BLOCKED)
    assert done.returncode == 3
    assert "2 blockers" in done.stdout
    assert "model.py:6: if x.sum() > 0:" in done.stdout
    assert "model.py:8: return x * 2 if x.max() > 1 else x" in done.stdout


BAD = {
    "unknown precision, all targets": (["model.py", "--precision", "fp8"], "unknown precision 'fp8'"),
    "unknown target": (["model.py", "-t", "xnpack"], "did you mean 'xnnpack'"),
    "a target twice": (["model.py", "-t", "onednn,onednn"], "given twice"),
    "unknown precision": (["model.py", "-t", "reference", "--precision", "fp8"], "unknown precision 'fp8'"),
    "unknown option": (["model.py", "-t", "onnx-cpu", "--option", "opsett=18"], "did you mean 'onnx-cpu.opset'"),
    "a profile of a model": (["model.py", "-t", "reference", "--profile", "r.json"], "--profile goes with an artifact"),
    "a target of an artifact": (["net.x.edgex", "-t", "reference"], "--target does not go with an artifact"),
    "no such file": (["modle.py", "-t", "reference"], "did you mean model.py"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_flags(name, edgex, tmp_path):
    args, words = BAD[name]
    (tmp_path / "model.py").write_text("raise RuntimeError('the file was run')\n")
    done = edgex("why", *args)
    assert done.returncode == 2
    assert words in done.stderr
    assert "the file was run" not in done.stderr


def test_without_a_target_all_that_take_the_precision_are_asked():
    assert {"onnx-cpu", "reference", "xnnpack"} <= set(targets_to_ask("fp32"))
    assert "reference" in targets_to_ask("bf16") and "xnnpack" not in targets_to_ask("bf16")


def test_no_such_artifact(edgex):
    assert edgex("why", "gone.xnnpack.edgex").returncode == 6
