"""What each command imports. Start-up time is a feature, and a device has no exporter."""

import json
import subprocess
import sys

import pytest

HEAVY = {"torch", "executorch", "torchao", "onnx", "onnxscript", "onnxruntime", "sklearn", "scipy", "pandas", "numpy"}

MODEL = """
import torch
from torch import nn


def get_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


def get_args():
    return (torch.randn(4, 6, generator=torch.Generator().manual_seed(1)),)
"""

# Runs the command line in this process, then says which modules it loaded. Commands that are supervised would do
# their work in a forked child; EDGEX_SUPERVISED keeps it here.
PROBE = """
import json, os, sys
os.environ["EDGEX_SUPERVISED"] = "1"
sys.argv = ["edgex", *json.loads(sys.argv[1])]
try:
    if sys.argv[1:]:
        from edgex.cli.main import main
        main()
    else:
        import edgex
except SystemExit as end:
    assert not end.code, end.code
print("MODULES", json.dumps(sorted(sys.modules)))
"""


def modules_after(*arguments, cwd=None):
    """Names of the modules that are loaded when `edgex ARGUMENTS` ends; without arguments, after `import edgex`."""
    command = [sys.executable, "-c", PROBE, json.dumps(arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return set(json.loads(done.stdout.rpartition("MODULES ")[2]))


def packages(modules):
    return {name.split(".")[0] for name in modules}


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("imports")
    (folder / "tiny.py").write_text(MODEL)
    command = [sys.executable, "-m", "edgex", "export", "tiny.py", "-t", "xnnpack,onnx-cpu", "--quiet"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder


def test_import_edgex_costs_nothing():
    loaded = modules_after()
    assert not packages(loaded) & (HEAVY | {"click", "rich", "psutil", "safetensors"})
    assert {name for name in loaded if name.split(".")[0] == "edgex"} == {"edgex", "edgex._version"}


@pytest.mark.parametrize("arguments", [("--help",), ("--version",)])
def test_help_needs_click_only(arguments):
    loaded = modules_after(*arguments)
    assert not packages(loaded) & (HEAVY | {"rich", "psutil", "safetensors"})
    ours = {name for name in loaded if name.split(".")[0] == "edgex"}
    light = {"edgex", "edgex._version", "edgex.errors", "edgex.cli", "edgex.cli.main", "edgex.cli.failure"}
    light |= {
        "edgex.cli.board",
        "edgex.cli.layout",
        "edgex.runtime",
        "edgex.runtime.support",
        "edgex.runtime.support.printable",
    }
    assert ours <= light


@pytest.mark.parametrize(
    "command",
    ["export", "run", "profile", "report", "compare", "inspect", "verify", "targets", "doctor", "explain", "android"],
)
def test_help_of_a_command_imports_nothing_heavy(command):
    assert not packages(modules_after(command, "--help")) & HEAVY


def test_targets_imports_no_engine():
    # NumPy is there because the protocols speak of arrays; no engine and no exporter is.
    assert packages(modules_after("targets", "--json")) & HEAVY <= {"numpy"}


@pytest.mark.parametrize("arguments", [("doctor", "--json"), ("explain", "0x14")])
def test_looking_around_imports_no_engine(arguments):
    assert packages(modules_after(*arguments)) & HEAVY <= {"numpy"}


def test_running_onnx_imports_no_torch(artifacts):
    loaded = modules_after("run", "tiny.onnx-cpu.edgex", "--json", cwd=artifacts)
    assert "onnxruntime" in loaded
    assert not packages(loaded) & {"torch", "executorch", "torchao", "onnx", "onnxscript"}
    assert not any(name.startswith(("edgex.export", "edgex.delegates")) for name in loaded)


def test_running_pte_imports_no_exporter(artifacts):
    loaded = modules_after("run", "tiny.xnnpack.edgex", "--json", cwd=artifacts)
    assert "executorch.extension.pybindings._C" in loaded
    assert not any(name.startswith(("executorch.exir", "executorch.backends", "torchao", "onnx")) for name in loaded)
    assert not any(name.startswith(("edgex.export", "edgex.delegates")) for name in loaded)


@pytest.mark.parametrize("command", ["inspect"])
def test_looking_at_an_artifact_needs_no_engine(artifacts, command):
    loaded = modules_after(command, "tiny.xnnpack.edgex", "--json", cwd=artifacts)
    assert packages(loaded) & HEAVY <= {"numpy"}
