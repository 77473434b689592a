"""Finding the parts of the oneDNN backend, compiling it once, and what is said where a part is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgex.errors import TargetUnavailable
from edgex.runtime.engines.onednn import build, library
from edgex.runtime.engines.onednn.plugin import OneDnnPlugin

AVAILABLE = OneDnnPlugin().availability()
needs_parts = pytest.mark.skipif(not AVAILABLE.available, reason=f"onednn: {AVAILABLE.reason}")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@needs_parts
def test_processes_that_start_together_compile_once(tmp_path: Path) -> None:
    """Two at the same time; the compiler writes down that it linked, and gives what was built before."""
    calls = tmp_path / "calls"
    compiler = tmp_path / "bin" / "g++"
    compiler.parent.mkdir()
    compiler.write_text(
        f'#!/bin/sh\ncase "$*" in *" -c "*) exit 0;; esac\necho call >> {calls}\nsleep 1\n'
        f'while [ "$1" != -o ]; do shift; done\nexec cp {build.built_backend()} "$2"\n'
    )
    compiler.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{compiler.parent}:{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    code = "from edgex.runtime.engines.onednn.plugin import OneDnnPlugin; OneDnnPlugin().load(); print('loaded')"
    started = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert [process.communicate()[0] for process in started] == ["loaded\n", "loaded\n"]
    assert calls.read_text() == "call\n"
    (folder,) = (tmp_path / "cache" / "edgex" / "onednn").iterdir()
    assert sorted(path.name for path in folder.iterdir()) == ["libedgex_onednn.so", "lock"]


@needs_parts
def test_no_compiler(monkeypatch: pytest.MonkeyPatch, cache: Path, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = OneDnnPlugin().availability()
    assert not found.available and "no C++ compiler" in str(found.reason) and found.fix == "apt-get install g++"


@needs_parts
def test_a_compiler_that_fails(monkeypatch: pytest.MonkeyPatch, cache: Path, tmp_path: Path) -> None:
    compiler = tmp_path / "g++"
    compiler.write_text("#!/bin/sh\necho 'fatal error: omp.h: No such file' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(TargetUnavailable, match="could not compile the oneDNN backend") as caught:
        build.built_backend()
    assert "omp.h" in str(caught.value.why)
    (folder,) = (cache / "edgex" / "onednn").iterdir()
    assert [path.name for path in folder.iterdir()] == ["lock"]


@needs_parts
def test_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(TargetUnavailable, match="could not be compiled") as caught:
        build.built_backend()
    assert "XDG_CACHE_HOME" in str(caught.value.fix)


def test_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(library.LIBRARY_VARIABLE, raising=False)
    monkeypatch.setattr(library, "_LIBRARY_PACKAGE", "not-a-package")
    monkeypatch.setattr(library, "require_machine", lambda: None)
    with pytest.raises(TargetUnavailable, match="not-a-package is not installed") as caught:
        library.find_library()
    assert caught.value.fix == "pip install 'edgex-toolchain[onednn]'"


def test_another_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(library.LIBRARY_VARIABLE, str(tmp_path / "libdnnl.so.3"))
    with pytest.raises(TargetUnavailable, match="EDGEX_ONEDNN_LIB names no file"):
        library.find_library()
    (tmp_path / "libdnnl.so.3").write_bytes(b"")
    assert library.find_library() == (tmp_path / "libdnnl.so.3").resolve()


@pytest.mark.parametrize(("system", "machine"), [("linux", "aarch64"), ("darwin", "x86_64")])
def test_another_machine(monkeypatch: pytest.MonkeyPatch, system: str, machine: str) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr("platform.machine", lambda: machine)
    found = OneDnnPlugin().availability()
    assert not found.available and "Linux on x86-64 only" in str(found.reason) and machine in str(found.reason)
    assert "xnnpack" in str(found.fix)


@needs_parts
def test_the_wheels_backend_is_taken_for_its_executorch_only(
    monkeypatch: pytest.MonkeyPatch, cache: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(build, "PREBUILT", tmp_path)
    (tmp_path / build.prebuilt_name()).write_bytes(b"")
    assert build.built_backend() == tmp_path / build.prebuilt_name()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert OneDnnPlugin().availability().available
    installed = build.installed_version("executorch")
    monkeypatch.setattr(build, "installed_version", lambda name: "9.9.9")
    assert build.find_prebuilt() is None
    with pytest.raises(TargetUnavailable, match="no C\\+\\+ compiler") as caught:
        build.built_backend()
    assert f"for executorch {installed}" in str(caught.value.why)
