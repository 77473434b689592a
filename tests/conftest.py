"""What all tests share: tiny real models, and artifacts exported from them once a run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

TARGETS = ("reference", "xnnpack", "onnx-cpu")

CONV_NET = '''\
"""A small convolutional classifier with two inputs of interest: it needs every kind of operator once."""

import torch
from torch import nn


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        return self.head(x.mean((2, 3)))


def get_model():
    torch.manual_seed(0)
    model = ConvNet()
    with torch.no_grad():
        model.norm.running_mean.normal_()
        model.norm.running_var.uniform_(0.5, 2.0)
    return model.eval()


def get_args():
    return (torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(1)),)
'''

COUNTER = '''\
"""State: a counter that starts at 5 and a running sum."""

import torch
from torch import nn


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.tensor([5.0]))
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        self.count.add_(1.0)
        self.total.add_(x)
        return self.total * self.count, self.count + 0.0


model = Counter().eval()
example_inputs = (torch.tensor([1.0, -2.0, 0.5, 3.0]),)
'''

DYNAMIC = '''\
"""A dynamic batch of 1 to 8 and two outputs in a dict."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(6, 16)
        self.two = nn.Linear(16, 3)

    def forward(self, x, scale):
        hidden = torch.relu(self.one(x))
        return {"logits": self.two(hidden) * scale, "norm": hidden.norm(dim=1)}


def get_model():
    torch.manual_seed(0)
    return Net().eval()


def get_args():
    g = torch.Generator().manual_seed(1)
    return {"x": torch.randn(3, 6, generator=g), "scale": torch.rand(3, 1, generator=g) + 0.5}


batch = torch.export.Dim("batch", min=1, max=8)
dynamic_shapes = {"x": {0: batch}, "scale": {0: batch}}
'''

MODELS = {"convnet": CONV_NET, "counter": COUNTER, "dynamic": DYNAMIC}


def run_edgex(*args: str, cwd: Path, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user does: a process of its own."""
    command = [sys.executable, "-m", "edgex", *args]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False)


@pytest.fixture
def edgex(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command line in the test's folder, in this process: torch is imported once, not once a call.

    `EDGEX_SUPERVISED` keeps commands from forking; tests of that use `run_edgex`.
    """
    from edgex.cli.main import main

    monkeypatch.setenv("EDGEX_SUPERVISED", "1")
    monkeypatch.chdir(tmp_path)

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        capfd.readouterr()
        path_before = list(sys.path)
        try:
            main(args)
        except SystemExit as ending:
            code = ending.code if isinstance(ending.code, int) else 1
        finally:
            sys.path[:] = path_before
        out, err = capfd.readouterr()
        return subprocess.CompletedProcess(args, code, out, err)

    return run


@pytest.fixture
def run_here(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command line in the test's folder, as a process of its own."""
    return lambda *args: run_edgex(*args, cwd=tmp_path, timeout=1800)


@pytest.fixture
def model_file(tmp_path: Path) -> Callable[[str], Path]:
    """Write one of `MODELS`, or a text, as a model file into the test's folder."""

    def write(model: str, name: str = "model") -> Path:
        path = tmp_path / f"{model if model in MODELS else name}.py"
        path.write_text(MODELS.get(model, model))
        return path

    return write


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take minutes start first: begun last, one would keep a worker busy while the other has nothing."""
    items.sort(key=lambda item: item.get_closest_marker("long_file") is None)


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """Artifacts by model and target, exported once a run by the command line; treat them as read-only."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # the run's own, which its workers share
    folder /= "exported"
    folder.mkdir(exist_ok=True)

    def get(model: str, target: str) -> Path:
        done = folder / f"{model}.done"
        with FileLock(folder / f"{model}.lock"):
            if not done.exists():
                (folder / f"{model}.py").write_text(MODELS[model])
                result = run_edgex("export", f"{model}.py", "-t", ",".join(TARGETS), "-q", cwd=folder)
                assert result.returncode == 0, result.stderr
                done.touch()
        return folder / f"{model}.{target}.edgex"

    return get


@pytest.fixture
def own_copy(exported: Callable[[str, str], Path], tmp_path: Path) -> Callable[[str, str], Path]:
    """A copy of an exported artifact that the test may damage."""

    def get(model: str, target: str) -> Path:
        source = exported(model, target)
        return Path(shutil.copytree(source, tmp_path / source.name))

    return get
