"""Whether an AMD GPU can be used here, check by check. Never by a vendor's name: an EPYC processor says AMD too.

Nor do the providers that ONNX Runtime lists prove anything: AMD's wheels list MIGraphX on a machine without ROCm.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from edgex.runtime.engines.checks import Check, first_failure
from edgex.runtime.engines.onnxruntime.provider.detection import (
    NOT_TRIED,
    Ask,
    ask_in_a_process,
    check_library,
    check_session,
)
from edgex.runtime.engines.rocm.provider import MIGRAPHX
from edgex.runtime.support.process.programs import run_program

# The library of a plug-in provider; without it the classic provider of the installed build is meant.
LIBRARY_VARIABLE = "EDGEX_MIGRAPHX_LIBRARY"

_DRIVER_FIX = "install AMD's driver amdgpu-dkms and reboot: docs/reference/targets/onnx-rocm.md"
_GROUP_FIX = "sudo usermod -aG render,video $USER, then log in again"
_CLASSIC_LIBRARIES = ("libonnxruntime_providers_migraphx.so", "libonnxruntime_providers_rocm.so")
_TIMEOUT_SECONDS = 20.0

Command = Callable[[Sequence[str]], "tuple[int, str]"]


def run_command(command: Sequence[str]) -> tuple[int, str]:
    """Exit code and output of a program; 124 where it does not end in time."""
    try:
        done = run_program(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        return 124, f"no answer within {_TIMEOUT_SECONDS:g} s"
    except OSError as error:
        return 127, error.strerror or str(error)
    return done.returncode, done.stdout + done.stderr


@dataclass(frozen=True)
class Machine:
    """Where the checks are looked for; tests give another one.

    Attributes:
        root: Where `/dev`, `/sys` and `/opt` are.
        path: Folders in which programs are looked for, as in PATH.
        run: Runs a program.
        ask: Asks `edgex.runtime.engines.onnxruntime.provider.probe` in a process of its own.
        capi: Folder of ONNX Runtime's own libraries, or None where it is not installed.
        library: The plug-in library that is chosen, or None for the classic provider.
    """

    root: Path = Path("/")
    path: str | None = None
    run: Command = run_command
    ask: Ask = ask_in_a_process
    capi: Path | None = None
    library: Path | None = None

    @classmethod
    def here(cls) -> Machine:
        """This machine."""
        spec = find_spec("onnxruntime")
        capi = Path(spec.origin).parent / "capi" if spec is not None and spec.origin else None
        return cls(path=os.environ.get("PATH"), capi=capi, library=chosen_library())


def chosen_library() -> Path | None:
    """The plug-in library that the environment names."""
    named = os.environ.get(LIBRARY_VARIABLE)
    return Path(named) if named else None


def detect(machine: Machine | None = None, *, run_session: bool = True) -> list[Check]:
    """Look at every check. The cheap ones are all looked at; a session is tried only where they hold.

    Args:
        machine: Where to look; None is here.
        run_session: Whether to try the last check, which starts a process that runs a tiny model on the GPU.
    """
    machine = machine or Machine.here()
    checks = [_device_node(machine), _topology(machine), _rocminfo(machine), _library(machine)]
    if not run_session or first_failure(checks) is not None:
        return [*checks, NOT_TRIED]
    return [*checks, check_session(MIGRAPHX, machine.library, machine.ask)]


def _device_node(machine: Machine) -> Check:
    node = machine.root / "dev/kfd"
    try:
        mode = node.stat().st_mode
    except FileNotFoundError:
        return Check("device node", False, "there is no /dev/kfd: no AMD GPU, or its driver is not loaded", _DRIVER_FIX)
    except PermissionError:
        return Check("device node", False, "/dev/kfd may not be looked at", _GROUP_FIX)
    if machine.root == Path("/") and not stat.S_ISCHR(mode):
        return Check("device node", False, "/dev/kfd is no device", _DRIVER_FIX)
    if not os.access(node, os.R_OK | os.W_OK):
        return Check("device node", False, "permission denied: this user may not open /dev/kfd", _GROUP_FIX)
    return Check("device node", True, "/dev/kfd can be opened")


def _topology(machine: Machine) -> Check:
    """GPUs that the kernel's driver knows; processors are nodes too, without a graphics version."""
    found = []
    for properties in sorted((machine.root / "sys/class/kfd/kfd/topology/nodes").glob("*/properties")):
        try:
            text = properties.read_text()
        except OSError:
            continue  # nodes of a GPU that is not ours to use cannot be read
        version, units = (_number(text, name) for name in ("gfx_target_version", "simd_count"))
        if version > 0 and units > 0:
            found.append(gfx_name(version))
    if not found:
        return Check("topology", False, "the driver lists no GPU that computes", "sudo dmesg | grep -i kfd")
    return Check("topology", True, f"the driver lists {', '.join(found)}")


def _number(text: str, name: str) -> int:
    match = re.search(rf"^{name} (\d+)$", text, re.MULTILINE)
    return int(match[1]) if match else 0


def gfx_name(version: int) -> str:
    """`gfx_target_version` as the compilers name it: 90010 is gfx90a, 110001 is gfx1101."""
    major, minor, step = version // 10000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{step:x}"


def _rocminfo(machine: Machine) -> Check:
    for name in ("rocminfo", "rocm_agent_enumerator"):
        program = shutil.which(name, path=machine.path) or _in_opt(machine, name)
        if program is None:
            continue
        code, text = machine.run([program])
        names = [gfx for gfx in dict.fromkeys(re.findall(r"\bgfx[0-9a-f]{3,4}\b", text)) if gfx != "gfx000"]
        if code == 0 and names:
            return Check("rocminfo", True, f"{name} names {', '.join(names)}")
        last = text.strip().splitlines()[-1] if text.strip() else "nothing"
        return Check("rocminfo", False, f"{name} (exit {code}) names no GPU: {last}", "edgex explain - < its output")
    return Check("rocminfo", False, "rocminfo is not installed", "sudo apt install rocminfo")


def _in_opt(machine: Machine, name: str) -> str | None:
    program = machine.root / "opt/rocm/bin" / name
    return str(program) if program.is_file() else None


def provider_library(machine: Machine) -> Path | None:
    """The library that holds the provider: the chosen plug-in, else the classic one of the installed build."""
    if machine.library is not None:
        return machine.library
    if machine.capi is None:
        return None
    return next((machine.capi / name for name in _CLASSIC_LIBRARIES if (machine.capi / name).is_file()), None)


def _library(machine: Machine) -> Check:
    library = provider_library(machine)
    if library is None:
        detail = "the installed onnxruntime holds no MIGraphX provider, and no plug-in library is chosen"
        return Check("library", False, detail, MIGRAPHX.install_fix)
    if not library.is_file():
        return Check(
            "library", False, f"{library.name} does not exist", f"set {LIBRARY_VARIABLE} to the plug-in library"
        )
    return check_library(library, machine.ask)
