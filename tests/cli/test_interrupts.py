"""Ctrl-C, --timeout and crashes in every stage: the exit code, and nothing left behind.

A plug-in target hangs or crashes where it is told to. It hangs in native code that holds the interpreter's lock,
where no Python signal handler and no thread would be heard.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PLUGIN = """
import ctypes, os, signal, sys, time
from dataclasses import dataclass
from edgex.delegates.reference.delegate import ReferenceDelegate
from edgex.runtime.engines.torch.engine import TorchEngine

def halt(stage, how):
    print(f"now in {stage}", file=sys.stderr, flush=True)
    if how == "native":
        ctypes.PyDLL(None).sleep(1000)      # PyDLL keeps the interpreter's lock
    elif how == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    else:
        time.sleep(1000)

@dataclass(frozen=True)
class Options:
    stage: str = "none"
    how: str = "python"

class Delegate(ReferenceDelegate):
    name = "hang"
    engine = "hang"
    options_type = Options
    def plan(self, program, options):
        return super().plan(program, options)
    def lower(self, program, options):
        import dataclasses
        if options.stage == "lower":
            halt("lower", options.how)
        lowered = super().lower(program, options)
        def write(folder):
            (folder / "half-written").write_text("x")
            if options.stage == "package":
                halt("package", options.how)
            (folder / "half-written").unlink()
            lowered.write(folder)
        return dataclasses.replace(lowered, write=write, options=dataclasses.asdict(options))

class Engine(TorchEngine):
    def open(self, artifact, settings):
        session = super().open(artifact, settings)
        options = artifact.manifest.options
        if options["stage"] == "verify":
            real = session.runner.execute
            session.runner.execute = lambda inputs: (halt("verify", options["how"]), real(inputs))[1]
        return session
"""

MODEL = """
import sys, time, torch
from torch import nn

def halt(stage):
    print(f"now in {stage}", file=sys.stderr, flush=True)
    time.sleep(1000)

class Net(nn.Linear):
    def forward(self, x):
        if STAGE == "capture":
            halt("capture")
        return super().forward(x)

STAGE = "@STAGE@"
if STAGE == "import":
    import os, signal
    os.kill(os.getpid(), signal.SIGSEGV)

def get_model():
    if STAGE == "find":
        halt("find")
    torch.manual_seed(0)
    return Net(4, 2).eval()

def get_args():
    return (torch.ones(1, 4),)
"""


@pytest.fixture(scope="module")
def plugin_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plugin")
    (folder / "edgex_hang.py").write_text(PLUGIN)
    info = folder / "edgex_hang-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: edgex-hang\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[edgex.delegates]\nhang = edgex_hang:Delegate\n[edgex.engines]\nhang = edgex_hang:Engine\n"
    )
    return folder


def start(tmp_path: Path, plugin_path: Path, stage: str, how: str = "python", *extra: str) -> subprocess.Popen[str]:
    (tmp_path / "model.py").write_text(MODEL.replace("@STAGE@", stage))
    options = ["--option", f"stage={stage}", "--option", f"how={how}"]
    return subprocess.Popen(
        [sys.executable, "-B", "-m", "edgex", "export", "model.py", "-t", "hang", "-o", "out/deep", *options, *extra],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(plugin_path), os.environ.get("PYTHONPATH", "")])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_stage(process: subprocess.Popen[str], stage: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if f"now in {stage}" in line or (stage == "verify" and "] verify" in line):
            time.sleep(6.0 if stage == "verify" else 0.3)  # the verifying process has to import torch first
            return
    pytest.fail(f"the export ended before {stage}")


def left(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if "__pycache__" not in p.parts}


@pytest.mark.parametrize(
    ("stage", "how"),
    [
        ("find", "python"),
        ("capture", "python"),
        ("lower", "python"),
        ("lower", "native"),
        ("package", "native"),
        ("verify", "native"),
    ],
)
def test_ctrl_c(stage: str, how: str, tmp_path: Path, plugin_path: Path) -> None:
    process = start(tmp_path, plugin_path, stage, how)
    wait_for_stage(process, stage)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130, stderr
    assert "interrupted" in stderr and "Traceback" not in stderr
    assert left(tmp_path) == {"model.py"}
    assert not running(tmp_path)


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_leaves_a_document(name: str, code: int, tmp_path: Path, plugin_path: Path) -> None:
    process = start(tmp_path, plugin_path, "find", "python", "--json")
    wait_for_stage(process, "find")
    process.send_signal(getattr(signal, name))
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == code, stderr
    document = json.loads(stdout)
    assert (document["schema"], document["exit_code"]) == ("edgex.error/1", code)
    assert left(tmp_path) == {"model.py"}


def test_a_models_file_that_crashes_is_named(tmp_path: Path, plugin_path: Path) -> None:
    process = start(tmp_path, plugin_path, "import")
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 6, stderr
    assert "killed by SIGSEGV in the stage find" in stderr and "where: model.py" in stderr
    assert "PYTHONFAULTHANDLER=1" in stderr and "report it" not in stderr


def test_kill_9_publishes_nothing_and_leaves_nothing(tmp_path: Path, plugin_path: Path) -> None:
    process = start(tmp_path, plugin_path, "verify", "native")
    wait_for_stage(process, "verify")
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    deadline = time.monotonic() + 10
    while running(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not running(tmp_path)
    assert left(tmp_path) == {"model.py"}


def test_timeout(tmp_path: Path, plugin_path: Path) -> None:
    process = start(tmp_path, plugin_path, "find", "python", "--timeout", "10")
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 124, stderr
    assert "stopped after 10 s, as --timeout asks" in stderr
    assert left(tmp_path) == {"model.py"}
    assert not running(tmp_path)


def test_a_crash_in_the_verifying_process_names_the_signal(tmp_path: Path, plugin_path: Path) -> None:
    process = start(tmp_path, plugin_path, "verify", "crash", "--no-bisect")
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 5 and "SIGSEGV" in stderr, stderr
    assert left(tmp_path) == {"model.py"}


def test_a_crash_while_lowering_names_the_signal(tmp_path: Path, plugin_path: Path) -> None:
    process = start(tmp_path, plugin_path, "package", "crash")
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 6 and "SIGSEGV" in stderr, stderr
    assert left(tmp_path) == {"model.py"}


def running(folder: Path) -> list[int]:
    """Processes of ours that still work in this folder."""
    import psutil

    found = []
    for process in psutil.process_iter(["cwd", "pid"]):
        if process.info["cwd"] == str(folder):
            found.append(process.info["pid"])
    return found
