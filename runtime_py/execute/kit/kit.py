"""The native runner with the libraries that it needs: compiled once, kept in the user's cache, sent as it is.

All that it takes is an executorch wheel, which holds headers and libraries: the installed one for this machine's
architecture, and for another one a wheel that the user gives (`--executorch-wheel`), which is then kept.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgex.errors import DeviceError, TargetUnavailable
from edgex.runtime.artifact.artifact import hash_file
from edgex.runtime.execute.kit.wheel import Executorch, find_executorch_for
from edgex.runtime.support.cache import CACHE_FIX, user_cache
from edgex.runtime.support.machine.host import this_machine
from edgex.runtime.support.native_build import (
    Build,
    compile_into,
    compiler_stamp,
    executorch_flags,
    locked,
    source_bytes,
)
from edgex.runtime.support.publish import disk_errors, write_text

SOURCES = Path(__file__).parent / "runner"
RUNNER = "edgex-runner"
# Linked even where nothing of them is called: loading them registers kernels and backends.
LIBRARIES = (
    *("executorch", "executorch_threadpool", "executorch_kernels_optimized", "executorch_kernels_quantized"),
    *("executorch_backend_xnnpack", "executorch_etdump"),
)
_KEY_DIGITS = 20
MACHINES = ("x86_64", "aarch64")


@dataclass(frozen=True)
class Kit:
    """Files that belong into one folder of a device.

    Attributes:
        name: What they are, for messages.
        digest: Changes with any of them.
        files: Their paths here, by their names there.
        version: Of executorch.
        machine: For what they are compiled.
    """

    name: str
    digest: str
    files: dict[str, Path]
    version: str
    machine: str

    @property
    def bytes(self) -> int:
        """Size of all files."""
        return sum(path.stat().st_size for path in self.files.values())


def runner_kit(machine: str, wheel: Path | None = None) -> Kit:
    """The runner and executorch's libraries; compiled at the first use, which takes half a minute.

    Args:
        machine: The device's architecture.
        wheel: An executorch wheel for it; None is the installed one, or the one that was given before.

    Raises:
        DeviceError: No wheel, no compiler, or compiling failed.
    """
    if machine not in MACHINES:
        raise DeviceError(
            f"there is no native runner for {machine}",
            why=f"executorch has wheels with libraries for {' and '.join(MACHINES)} only",
        )
    executorch = find_executorch_for(machine, wheel)
    compiler = _find_compiler(machine)
    key = _key(executorch, compiler)
    folder = user_cache("device", "runners", f"{machine}-{executorch.version}-{key}")
    runner = folder / RUNNER
    try:
        with disk_errors(DeviceError, "the native runner could not be compiled", str(folder), CACHE_FIX):
            folder.mkdir(parents=True, exist_ok=True)
            with locked(folder / "lock"):
                if not runner.is_file():
                    compile_into(runner, _describe(compiler, executorch))
    except TargetUnavailable as error:
        raise DeviceError(error.what, error.where, error.fix, why=error.why) from error
    files = {RUNNER: runner, **{file.name: file for file in _libraries(executorch)}}
    return Kit("runner", _digest(files), files, executorch.version, machine)


def plugin_kit(names: Sequence[str], machine: str, version: str) -> Kit | None:
    """The libraries of an artifact's engine plug-ins, in the order in which they are loaded; None without plug-ins.

    Raises:
        DeviceError: One has no library for the device, or it cannot be made here.
    """
    if not names:
        return None
    unknown = [name for name in names if name != "onednn"]
    if unknown:
        raise DeviceError(f"the plug-in {unknown[0]} has no library that the native runner could load")
    if machine != "x86_64":
        raise DeviceError(f"oneDNN's library is for x86_64 only, not for {machine}", fix="export the model for xnnpack")
    from edgex.runtime.engines.onednn.build import built_backend
    from edgex.runtime.engines.onednn.library import find_library, require_machine

    try:
        require_machine()
        backend, library = built_backend(), find_library()
    except TargetUnavailable as error:
        raise DeviceError(error.what, error.where, error.fix, why=error.why) from error
    # libgomp first: the others find it by its name once it is loaded, whether the device has one or not.
    files = {path.name: path for path in _find_gomp()} | {"libdnnl.so.3": library, "libedgex_onednn.so": backend}
    return Kit("onednn", _digest(files), files, version, machine)


def needed_libc(kit: Kit) -> tuple[int, ...]:
    """The oldest glibc that has every function that the kit's files name, for example (2, 34)."""
    newest: tuple[int, ...] = (2, 0)
    for path in kit.files.values():
        for found in re.findall(rb"GLIBC_(\d+(?:\.\d+)+)\0", path.read_bytes()):
            newest = max(newest, tuple(int(part) for part in found.split(b".")))
    return newest


def _find_compiler(machine: str) -> Path:
    native = machine == this_machine()
    names = ("g++", "c++") if native else (f"{machine}-linux-gnu-g++",)
    compiler = next((found for name in names if (found := shutil.which(name))), None)
    if compiler is None:
        package = "g++" if native else f"g++-{machine.replace('_', '-')}-linux-gnu"
        raise DeviceError(
            f"no C++ compiler for {machine}: the native runner is compiled once at first use",
            fix=f"apt-get install {package}",
        )
    return Path(compiler)


def _libraries(executorch: Executorch) -> list[Path]:
    files = [executorch.folder / "lib" / f"lib{name}.so" for name in LIBRARIES]
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise DeviceError(
            f"executorch {executorch.version} lacks {', '.join(missing)}",
            fix="install the tested executorch (constraints.txt), or give its wheel: --executorch-wheel PATH",
        )
    return files


def _describe(compiler: Path, executorch: Executorch) -> Build:
    _libraries(executorch)
    flags = ("-std=c++17", "-O2", "-Wno-deprecated-declarations", f'-DEDGEX_EXECUTORCH="{executorch.version}"')
    return Build(
        what="the native runner",
        compiler=compiler,
        sources=SOURCES,
        flags=(*flags, *executorch_flags(executorch.folder)),
        linking=(
            *("-Wl,--no-as-needed", *(f"-l{name}" for name in LIBRARIES), "-ldl"),
            # The libraries lie beside the runner, wherever that is.
            *("-Wl,-rpath,$ORIGIN", "-Wl,--allow-shlib-undefined", "-Wl,--build-id=none", "-s"),
        ),
    )


def _key(executorch: Executorch, compiler: Path) -> str:
    digest = hashlib.sha256(repr((executorch.version, str(executorch.folder), compiler_stamp(compiler))).encode())
    digest.update(source_bytes(SOURCES))
    return digest.hexdigest()[:_KEY_DIGITS]


def _digest(files: dict[str, Path]) -> str:
    lines = [f"{name} {_known_hash(path)}" for name, path in files.items()]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:_KEY_DIGITS]


def _known_hash(path: Path) -> str:
    """SHA-256 of a large file that does not change: kept beside the runners by the file's identity."""
    status = path.resolve().stat()
    identity = repr((str(path.resolve()), status.st_size, status.st_mtime_ns))
    folder = user_cache("device", "hashes")
    note = folder / hashlib.sha256(identity.encode()).hexdigest()[:_KEY_DIGITS]
    if note.is_file():
        return note.read_text()
    found = hash_file(path)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(note, found)
    return found


def _find_gomp() -> list[Path]:
    places = [Path("/usr/lib/x86_64-linux-gnu"), Path("/usr/lib64"), Path("/usr/lib")]
    return [path for place in places if (path := place / "libgomp.so.1").is_file()][:1]
