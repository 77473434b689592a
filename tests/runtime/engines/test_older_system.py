"""Engines on a system whose C library is too old for their wheels: a state with exit code 7 and what helps."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from device_support import needs_compiler

from edgex.errors import TargetUnavailable
from edgex.runtime.engines.onnxruntime.provider.detection import check_library
from edgex.runtime.engines.onnxruntime.provider.libraries import Libraries
from edgex.runtime.engines.onnxruntime.session import import_onnxruntime
from edgex.runtime.engines.qnn.provider import INSTALL_COMMAND, QNN
from edgex.runtime.support.machine.c_library import find_newer, suggest_fix

pytestmark = [
    needs_compiler,
    pytest.mark.skipif(sys.platform != "linux", reason="the loader's message is that of Linux"),
]

IMPORT = """
import sys
from importlib import import_module
from edgex.errors import TargetUnavailable

module, function = sys.argv[1:]
try:
    getattr(import_module(f"edgex.runtime.engines.{module}.binding"), function)()
except TargetUnavailable as error:
    print(error)
    sys.exit(error.exit_code)
"""


@pytest.fixture(scope="module")
def too_new(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that wants GLIBC_9.9.9, as a wheel for a newer system does."""
    folder = tmp_path_factory.mktemp("newer")
    (folder / "a.c").write_text('#include <stdio.h>\nint say(void) { return puts("x"); }\n')
    compiler = next(found for name in ("cc", "gcc", "c++", "clang++") if (found := shutil.which(name)))
    subprocess.run([compiler, "-shared", "-fPIC", "-o", "a.so", "a.c"], cwd=folder, check=True)
    content = (folder / "a.so").read_bytes()
    oldest = b"GLIBC_2.2.5\0" if b"GLIBC_2.2.5\0" in content else b"GLIBC_2.17\0"
    newer = b"GLIBC_9.9.9\0" if len(oldest) == 12 else b"GLIBC_9.99\0"
    assert oldest in content
    (folder / "a.so").write_bytes(content.replace(oldest, newer))
    return folder / "a.so"


@pytest.mark.parametrize(
    ("module", "function", "place", "extra"),
    [
        ("coreai", "import_runtime", "coreai/runtime.so", "run-coreai"),
        ("litert", "import_interpreter", "ai_edge_litert/interpreter.so", "run-litert"),
        ("openvino", "import_openvino", "openvino.so", "run-openvino"),
    ],
)
def test_a_package_that_wants_a_newer_c_library(
    too_new: Path, tmp_path: Path, module: str, function: str, place: str, extra: str
) -> None:
    target = tmp_path / place
    if target.parent != tmp_path:
        target.parent.mkdir()
        (target.parent / "__init__.py").touch()
    shutil.copy(too_new, target)
    done = subprocess.run(
        [sys.executable, "-c", IMPORT, module, function],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 7, done.stdout + done.stderr
    for words in ("does not import", "it needs GLIBC_9.9", "ldd --version", "newer system", f"[{extra}]"):
        assert words in done.stdout


def test_a_provider_that_wants_a_newer_c_library(too_new: Path) -> None:
    check = check_library(too_new, install_command=INSTALL_COMMAND)
    assert check.passed is False and "does not load" in check.detail and "GLIBC_9.9" in check.detail
    assert "newer system" in str(check.fix) and INSTALL_COMMAND in str(check.fix)
    with pytest.raises(TargetUnavailable, match="cannot be loaded") as caught:
        Libraries().register(import_onnxruntime(), QNN, too_new)
    assert "newer system" in str(caught.value.fix) and INSTALL_COMMAND in str(caught.value.fix)


def test_another_message_leaves_the_command() -> None:
    assert find_newer("libfoo.so: cannot open shared object file") is None
    assert suggest_fix("libfoo.so: cannot open shared object file", "pip install x") == "pip install x"
