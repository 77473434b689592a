"""The backend's library: the one that came with the wheel, else compiled once into the user's cache.

Both are kept under a name that says what they were made from, so that none is loaded with another ExecuTorch, whose
classes have no stable layout.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from edgex.errors import TargetUnavailable
from edgex.runtime.engines.onednn.library import Toolchain, find_library, find_toolchain
from edgex.runtime.support.cache import CACHE_FIX, user_cache
from edgex.runtime.support.entry_points import installed_version
from edgex.runtime.support.native_build import (
    Build,
    compile_into,
    compiler_stamp,
    executorch_flags,
    locked,
    source_bytes,
)
from edgex.runtime.support.publish import disk_errors

SOURCES = Path(__file__).parent / "native"
LIBRARY_NAME = "libedgex_onednn.so"
# `make wheel` puts the compiled backend there.
PREBUILT = Path(__file__).parent / "prebuilt"
_KEY_DIGITS = 20


def cache_folder() -> Path:
    """Where compiled backends are kept: `edgex/onednn` in the user's cache folder."""
    return user_cache("onednn")


def find_prebuilt() -> Path | None:
    """The backend that came with the wheel, if it is of these sources and the installed executorch."""
    path = PREBUILT / prebuilt_name()
    return path if path.is_file() else None


def prebuilt_name() -> str:
    """The file that `find_prebuilt` looks for, with the installed executorch in its name."""
    version = installed_version("executorch") or "none"
    digest = hashlib.sha256(source_bytes(SOURCES) + version.encode())
    return f"libedgex_onednn-executorch-{version}-{digest.hexdigest()[:_KEY_DIGITS]}.so"


def prebuild_backend(folder: Path) -> Path:
    """Compile the backend for a wheel.

    Args:
        folder: Receives the library under `prebuilt_name()`.

    Raises:
        TargetUnavailable: A part is missing, or compiling failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / prebuilt_name()
    _compile(find_toolchain(), library)
    return library


def require_backend() -> None:
    """Check that the backend is there, or can be compiled; nothing is compiled.

    Raises:
        TargetUnavailable: There is none, and what compiling takes is not there either.
    """
    if find_prebuilt() is None:
        _toolchain()


def _toolchain() -> Toolchain:
    try:
        return find_toolchain()
    except TargetUnavailable as error:
        others = sorted(path.name.split("-")[2] for path in PREBUILT.glob("libedgex_onednn-*.so"))
        if not others:
            raise
        why = f"the compiled one of this wheel is for executorch {', '.join(others)}"
        raise TargetUnavailable(error.what, error.where, error.fix, why=why) from error


def built_backend() -> Path:
    """The backend's library: the wheel's, or one that is compiled at the first use with these parts.

    Two processes may start together: one compiles, the other waits for it.

    Raises:
        TargetUnavailable: A part is missing, the cache folder is not writable, or compiling failed.
    """
    prebuilt = find_prebuilt()
    if prebuilt is not None:
        return prebuilt
    toolchain = _toolchain()
    folder = cache_folder() / _key(toolchain)
    library = folder / LIBRARY_NAME
    if library.is_file():
        return library
    with disk_errors(TargetUnavailable, "the oneDNN backend could not be compiled", str(folder), CACHE_FIX):
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / "lock"):
            if not library.is_file():
                _compile(toolchain, library)
    return library


def _compile(toolchain: Toolchain, library: Path) -> None:
    """Compile it.

    Both libraries are found by soname among those that the process has loaded, so no path of this machine is needed
    when it is loaded.
    """
    flags = ("-std=c++17", "-O2", "-fno-trapping-math", "-fPIC", "-fopenmp", *executorch_flags(toolchain.executorch))
    build = Build(
        what="the oneDNN backend",
        compiler=toolchain.compiler,
        sources=SOURCES,
        flags=(*flags, "-isystem", str(toolchain.onednn_include)),
        linking=("-shared", "-lexecutorch", str(find_library())),
    )
    compile_into(library, build)


def _key(toolchain: Toolchain) -> str:
    """Changes with everything that the library is made from."""
    digest = hashlib.sha256(source_bytes(SOURCES))
    versions = (installed_version("executorch"), installed_version("onednn-devel-cpu-gomp"))
    digest.update(repr([*map(str, versions), *compiler_stamp(toolchain.compiler)]).encode())
    return digest.hexdigest()[:_KEY_DIGITS]
