"""A child that is forked after a run: it computes the same, or is refused with a message. It never waits for ever."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from model_support import MODELS, run_edgex
from onednn_support import needs_onednn

SCRIPT = """
import os, sys
import numpy, edgex
from edgex.errors import RunError
path, what = sys.argv[1:]
session = edgex.load(path, threads=2)
shape = session.inputs[0].static_shape
image = numpy.linspace(-1, 1, numpy.prod(shape), dtype=numpy.float32).reshape(shape)
expected = session.run(image)[0]
child = os.fork()
if child == 0:
    try:
        used = session if what == "run" else edgex.load(path, threads=2)
        print("equal" if (used.run(image)[0] == expected).all() else "other", flush=True)
    except RunError as error:
        print("refused:", error.what, error.why, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print("parent", (session.run(image)[0] == expected).all())
"""


def try_child(artifact: Path, what: str) -> str:
    """What the child says; the parent must run as before."""
    command = [sys.executable, "-c", SCRIPT, str(artifact), what]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    child, parent = done.stdout.splitlines()
    assert parent == "parent True"
    return child


@pytest.mark.parametrize("what", ["run", "load"])
@pytest.mark.parametrize("target", ["xnnpack", "onnx-cpu"])
def test_a_forked_child_runs(exported: Callable[[str, str], Path], target: str, what: str) -> None:
    """The thread pools of these engines outlive a fork."""
    assert try_child(exported("convnet", target), what) == "equal"


@pytest.mark.parametrize("what", ["run", "load"])
def test_a_forked_child_of_torch_is_refused(exported: Callable[[str, str], Path], what: str) -> None:
    child = try_child(exported("convnet", "reference"), what)
    assert child.startswith("refused:") and "forked after the engine had started its threads" in child


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("forked")
    (folder / "convnet.py").write_text(MODELS["convnet"])
    done = run_edgex("export", "convnet.py", "-t", "onednn", "-q", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "convnet.onednn.edgex"


@needs_onednn
@pytest.mark.parametrize("what", ["run", "load"])
def test_a_forked_child_of_onednn_is_refused(compiled: Path, what: str) -> None:
    child = try_child(compiled, what)
    assert child.startswith("refused:") and "forked after" in child
