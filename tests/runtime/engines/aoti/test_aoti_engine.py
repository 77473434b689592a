"""The engine aoti: code of strangers is refused until somebody trusts it, and so is another machine's."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from aoti_support import OFFSET, exported_counter, needs_aoti, random_rows

import edgex
from edgex.errors import RunError, TargetUnavailable, UsageError
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.engines import package as packages
from edgex.runtime.engines.aoti import engine as module
from edgex.runtime.engines.aoti.consent import trust_artifact
from edgex.runtime.engines.aoti.engine import AotiEngine
from edgex.runtime.engines.aoti.session import _refused

pytestmark = needs_aoti


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported_counter(tmp_path_factory)


@pytest.fixture
def strange(exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The artifact on another user's machine, who has never seen its code."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Path(shutil.copytree(exported, tmp_path / exported.name))


def test_code_of_a_stranger_runs_only_once_it_is_trusted(
    strange: Path, edgex: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    refused = edgex("run", str(strange))
    assert refused.returncode == 6, refused.stderr
    assert "compiled code that was not made here" in refused.stderr and "--trust-code" in refused.stderr
    trusted = edgex("verify", str(strange), "--trust-code", "--json")
    assert trusted.returncode == 0 and json.loads(trusted.stdout)["passed"], trusted.stderr
    assert edgex("run", str(strange)).returncode == 0


@pytest.mark.slow
def test_a_profile_has_times_of_runs_and_says_why_it_has_no_operators(
    exported: Path, edgex: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    profiled = edgex("profile", str(exported), "--runs", "20", "--warmup", "5", "--threads", "1", "--json")
    assert profiled.returncode == 0, profiled.stderr
    document = json.loads(profiled.stdout)
    assert document["steady"]["n"] == 20 and document["threads"] == 1
    assert "the engine aoti reports no operators" in profiled.stdout


def test_trust_is_in_the_bytes_and_not_in_the_name(strange: Path) -> None:
    trust_artifact(open_artifact(strange))
    package = strange / "model.pt2"
    content = bytearray(package.read_bytes())
    content[-1] ^= 1
    package.write_bytes(content)
    with pytest.raises(RunError, match="not made here"):
        edgex.load(strange, check="size")


def test_a_session_can_be_told_alone(strange: Path) -> None:
    with edgex.load(strange, options={"trust_code": True}) as session:
        assert session.run(random_rows(2), OFFSET)[0].shape == (2, 4)
    for given in ("yes", False):
        with pytest.raises(RunError, match="not made here"):
            edgex.load(strange, options={"trust_code": given})
    with pytest.raises(RunError, match="no option 'trust'"):
        edgex.load(strange, options={"trust": True})


def test_nothing_to_trust_in_another_artifact(exported: Path, tmp_path: Path) -> None:
    manifest = json.loads((exported / "manifest.json").read_text())
    needed = {**manifest["requirements"], "engine": "torch"}
    folder = Path(shutil.copytree(exported, tmp_path / "net.reference.edgex"))
    changed = {**manifest, "target": "reference", "engine": "torch", "requirements": needed}
    (folder / "manifest.json").write_text(json.dumps(changed))
    with pytest.raises(UsageError, match="holds no compiled code"):
        trust_artifact(open_artifact(folder))


def test_a_package_that_is_damaged_is_refused(strange: Path) -> None:
    package = strange / "model.pt2"
    package.write_bytes(b"\0" * package.stat().st_size)
    with pytest.raises(RunError, match=r"torch cannot load model\.pt2"):
        edgex.load(strange, check="size", options={"trust_code": True})


def test_fake_processor_that_lacks_what_it_was_compiled_for(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "missing_isa", lambda needed: [name for name in needed if name == "fma"])
    with pytest.raises(TargetUnavailable, match="compiled for a processor with fma") as caught:
        edgex.load(exported)
    assert caught.value.exit_code == 7 and "isa=avx2" in str(caught.value.fix)


def test_fake_older_torch_and_older_system(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newer = RuntimeError("Error: libc.so.6: version `GLIBC_2.38' not found (required by model.wrapper.so)\n  frame #0")
    error = _refused("model.pt2", "net.aoti.edgex", newer)
    assert isinstance(error, TargetUnavailable) and "GLIBC_2.38" in error.what
    monkeypatch.setattr(packages, "installed_version", lambda _name: "2.1.0")
    with pytest.raises(TargetUnavailable, match=r"torch 2\.1\.0 is too old"):
        edgex.load(exported)
    monkeypatch.setattr(packages, "installed_version", lambda _name: None)
    assert AotiEngine().availability().fix == "pip install torch"


def test_outputs_are_the_callers(exported: Path) -> None:
    with edgex.load(exported) as session:
        first = session.run(random_rows(2), OFFSET)
        copy = [array.copy() for array in first]
        session.run(random_rows(3), OFFSET)
        for array, before in zip(first, copy, strict=True):
            np.testing.assert_array_equal(array, before)
