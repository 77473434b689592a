"""Processes that begin with everything imported: forks of one process that has imported it and done nothing else.

An export of a tiny model takes eight to twelve seconds as a process of its own, of which importing takes most, and the
process that proves it two more; tests of six minutes were seen to start 185 of them. Forked they start in a tenth of a
second, and are still processes of their own: other memory, engines that nobody has used, files that nobody has opened.

What is about processes themselves runs as it really does: see `is_cold`. With `EDGEX_COLD=1` everything does.
"""

from __future__ import annotations

import atexit
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from edgex.runtime.support.process import child

# Tests of how processes start, what they import, what they hold and how they end.
_COLD = (
    "tests/runtime/engines/",
    "tests/runtime/execute/",
    "tests/runtime/measure/profile/",
    "tests/runtime/session/",
    "tests/runtime/support/process/",
    "tests/cli/test_interrupts",
    "tests/cli/test_missing_packages",
    "tests/cli/test_supervisor",
    "tests/cli/test_usage_errors",
    "tests/cli/export/test_export_output.py::test_only_our_own",
    "tests/cli/export/test_export_output.py::test_verbose",
    "tests/test_imports",
    "tests/test_packaging",
    "tests/test_plugins",
    "tests/test_readme.py::test_command[README.md",
)

# A library that is loaded already does not read these again.
_READ_AT_LOAD = ("OMP_", "GOMP_", "KMP_", "MKL_", "DNNL_", "ONEDNN_", "OPENBLAS_", "LD_", "MALLOC_")
# scikit-learn sets these where it is imported.
_SET_BY_IMPORT = ("KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK")

# The address of the server, and what of the kind it was started with: for the processes below.
_ADDRESS, _LOADED = "EDGEX_WARM_SERVER", "EDGEX_WARM_LOADED"

_FOLDER = Path(__file__).parent
_START_SECONDS = 60.0

# Before any test changes them.
_VARIABLES = dict(os.environ)

_start_cold = child.start_python


def is_cold() -> bool:
    """Whether the test that runs is about processes themselves."""
    if sys.platform != "linux" or os.environ.get("EDGEX_COLD") == "1":
        return True
    return os.environ.get("PYTEST_CURRENT_TEST", "").startswith(_COLD)


def find_command(what: str, variables: Mapping[str, str]) -> list[str] | None:
    """The beginning of a command that starts a process so; None where it is to start as it really does.

    Args:
        what: `edgex`, whose arguments follow; `python`, followed by a script; `child`, followed by the task.
        variables: Its environment.
    """
    if is_cold():
        return None
    address = start_server()
    if _read_at_load(variables) != json.loads(os.environ[_LOADED]):
        return None
    return [sys.executable, "-I", "-S", str(_FOLDER / "warm_client.py"), address, what]


def write_commands() -> Path | None:
    """A folder with the programs `edgex` and `python` that start so, to be the first on a shell's path, or None."""
    edgex, script = find_command("edgex", os.environ), find_command("python", os.environ)
    if edgex is None or script is None:
        return None
    folder = Path(tempfile.gettempdir(), os.environ[_ADDRESS])
    if not folder.exists():
        folder.mkdir()
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        texts = {
            "edgex": f'exec {shlex.join(edgex)} "$@"\n',
            "python": f'case "$1" in *.py) exec {shlex.join(script)} "$@";; esac\nexec {sys.executable} "$@"\n',
        }
        for name, text in texts.items():
            (folder / name).write_text(f"#!/bin/sh\n{text}")
            (folder / name).chmod(0o755)
    return folder


def start_python(
    task: str, environment: Mapping[str, str] | None = None, errors: IO[bytes] | None = None
) -> subprocess.Popen[str]:
    """Stands for the function of this name in `edgex.runtime.support.process.child`, which says what it takes."""
    variables = {**os.environ, **(environment or {})}
    command = find_command("child", variables)
    if command is None:
        return _start_cold(task, environment, errors)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
    return subprocess.Popen([*command, task], text=True, encoding="utf-8", env=variables, **pipes)


def _read_at_load(variables: Mapping[str, str]) -> dict[str, str]:
    return {
        name: text
        for name, text in sorted(variables.items())
        if name.startswith(_READ_AT_LOAD) and name not in _SET_BY_IMPORT
    }


def start_server() -> str:
    """The address of the process that forks; it ends with the one that has started it, and those below share it."""
    if _ADDRESS not in os.environ:
        address = f"edgex-warm-{os.getpid()}"
        command = [sys.executable, "-P", str(_FOLDER / "warm_server.py"), address]
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        server = subprocess.Popen(command, stdin=subprocess.PIPE, cwd="/", env=_VARIABLES, **silent)
        atexit.register(server.communicate)  # its stdin ends, and so does it
        os.environ[_LOADED] = json.dumps(_read_at_load(_VARIABLES))
        os.environ[_ADDRESS] = address
        _wait(address)
    return os.environ[_ADDRESS]


def _wait(address: str) -> None:
    """Wait until the server listens; it answers when it has imported everything."""
    end = time.monotonic() + _START_SECONDS
    while True:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect("\0" + address)
                return
            except ConnectionRefusedError:
                if time.monotonic() > end:
                    raise
        time.sleep(0.05)
