"""Compile the backend once, into the user's cache, under a name that says what it was made from."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgex.errors import TargetUnavailable
from edgex.runtime.cache import user_cache
from edgex.runtime.engines.onednn.library import Toolchain, find_library, find_toolchain
from edgex.runtime.plugins import installed_version

SOURCES = Path(__file__).parent / "native"
LIBRARY_NAME = "libedgex_onednn.so"
_KEY_DIGITS = 20
_OUTPUT_LINES = 12


def cache_folder() -> Path:
    """Where compiled backends are kept: `edgex/onednn` in the user's cache folder."""
    return user_cache() / "onednn"


def built_backend() -> Path:
    """The backend's library, compiled if this is the first use with these sources, executorch and compiler.

    Two processes may start together: one compiles, the other waits for it.

    Raises:
        TargetUnavailable: A part is missing, the cache folder is not writable, or compiling failed.
    """
    toolchain = find_toolchain()
    folder = cache_folder() / _key(toolchain)
    library = folder / LIBRARY_NAME
    if library.is_file():
        return library
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / "lock"):
            if not library.is_file():
                _compile(toolchain, library)
    except OSError as error:
        raise TargetUnavailable(
            "the oneDNN backend could not be compiled",
            str(folder),
            "set XDG_CACHE_HOME to a writable folder",
            why=str(error),
        ) from error
    return library


def compile_command(toolchain: Toolchain, onednn: Path, output: Path) -> list[str]:
    """The compiler's command line.

    Both libraries are found by soname among those that the process has loaded, so no path of this machine is needed
    when it is loaded. The two macros are those that executorch's wheel was made with: its classes depend on them.
    """
    executorch = toolchain.executorch
    return [
        *(str(toolchain.compiler), "-std=c++17", "-O2", "-shared", "-fPIC", "-fopenmp"),
        *sorted(str(source) for source in SOURCES.glob("*.cpp")),
        *("-o", str(output)),
        *("-DC10_USING_CUSTOM_GENERATED_MACROS", "-DET_EVENT_TRACER_ENABLED"),
        *("-isystem", f"{executorch}/include"),
        *("-isystem", f"{executorch}/include/executorch/runtime/core/portable_type/c10"),
        *("-isystem", str(toolchain.onednn_include)),
        *(f"-L{executorch}/lib", "-lexecutorch", str(onednn)),
    ]


def _compile(toolchain: Toolchain, library: Path) -> None:
    """Compile beside `library` and rename, so that nobody ever sees half a file."""
    descriptor, name = tempfile.mkstemp(prefix=".building-", suffix=".so", dir=library.parent)
    os.close(descriptor)
    try:
        command = compile_command(toolchain, find_library(), Path(name))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise TargetUnavailable(
                f"{toolchain.compiler.name} could not compile the oneDNN backend",
                fix="install g++ 9 or newer, and the tested executorch",
                why="\n".join(done.stderr.strip().splitlines()[:_OUTPUT_LINES]),
            )
        Path(name).chmod(0o755)
        Path(name).replace(library)
    finally:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()


def _key(toolchain: Toolchain) -> str:
    """Changes with everything that the library is made from."""
    digest = hashlib.sha256()
    for source in sorted(SOURCES.iterdir()):
        if source.suffix in (".cpp", ".h"):
            digest.update(f"{source.name}\0".encode() + source.read_bytes() + b"\0")
    compiler = toolchain.compiler.resolve()
    stamp = compiler.stat()
    # The file's identity stands for the version: asking the compiler costs a process at every start.
    parts = (installed_version("executorch"), installed_version("onednn-devel-cpu-gomp"), compiler, stamp.st_size)
    digest.update(repr([*map(str, parts), stamp.st_mtime_ns]).encode())
    return digest.hexdigest()[:_KEY_DIGITS]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock that the system takes back when the process ends, however it ends."""
    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
