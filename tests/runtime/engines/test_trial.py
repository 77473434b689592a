"""A file that crashes the engine: the process that loads it lives on, in Python and on the command line."""

from __future__ import annotations

import faulthandler
import os
import random
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pt2_support import rehash

import edgex
from edgex.errors import RunError
from edgex.runtime.support import cache

OwnCopy = Callable[[str, str], Path]


def crashes(path: Path) -> bool:
    """Whether loading and running a .pte ends its process, tried in a fork of this one."""
    import torch

    from edgex.runtime.engines.executorch import binding

    binding.operator_names()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            faulthandler.disable()
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 1)
            os.dup2(silent, 2)
            signal.alarm(20)
            method = binding.load_program(path, False).load_method("forward")
            method([torch.zeros(2, 6), torch.zeros(2, 1)], clone_outputs=False)
            code = 0
        finally:
            os._exit(code)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.fixture
def crasher(own_copy: OwnCopy) -> Path:
    """An artifact whose .pte has one word changed, hashes and all, so that ExecuTorch 1.5 crashes on it."""
    artifact = own_copy("dynamic", "xnnpack")
    path = artifact / "model.pte"
    good = path.read_bytes()
    for seed in range(200):
        rng = random.Random(seed)
        at = rng.randrange(8, len(good) - 4) // 4 * 4
        word = rng.choice((0x7FFFFFFF, 0xFFFFFFFF, 0x00100000, 0)).to_bytes(4, "little")
        path.write_bytes(good[:at] + word + good[at + 4 :])
        if crashes(path):
            rehash(artifact)
            return artifact
    pytest.fail("no change of one word crashes ExecuTorch any more: isolate=True may not be needed")


def test_a_crash_is_contained(
    crasher: Path, run_here: Callable[..., subprocess.CompletedProcess[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(crasher.parent / "cache"))
    with pytest.raises(RunError, match="crashes the engine"):
        edgex.load(crasher, isolate=True)
    assert not cache.user_cache("trials").exists()
    result = run_here("run", crasher.name)
    assert result.returncode == 6 and "killed by SIG" in result.stderr and "Traceback" not in result.stderr


def test_an_artifact_that_passed_is_tried_once(
    own_copy: OwnCopy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    artifact = own_copy("dynamic", "xnnpack")
    with edgex.load(artifact, isolate=True) as session:
        session.run(np.zeros((2, 6), np.float32), np.ones((2, 1), np.float32))
    assert len(list(cache.user_cache("trials").iterdir())) == 1
    monkeypatch.setattr("edgex.runtime.engines.trial.Child", None)
    edgex.load(artifact, isolate=True).close()
    with pytest.raises(TypeError):
        edgex.load(artifact, isolate=True, check="size")
