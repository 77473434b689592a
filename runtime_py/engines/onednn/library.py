"""Where oneDNN, ExecuTorch and a compiler are on this machine. Nothing is loaded or imported."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from edgex.errors import TargetUnavailable

LIBRARY_VARIABLE = "EDGEX_ONEDNN_LIB"
INSTALL_COMMAND = "pip install 'edgex-toolchain[onednn]'"
_LIBRARY_PACKAGE = "onednn-cpu-gomp"
_HEADER_PACKAGE = "onednn-devel-cpu-gomp"
_MACHINES = ("x86_64", "AMD64")
_COMPILERS = ("g++", "c++")


@dataclass(frozen=True)
class Toolchain:
    """What compiling the backend takes.

    Attributes:
        compiler: A C++17 compiler; its OpenMP must be libgomp, which oneDNN and torch use.
        onednn_include: Folder of `oneapi/dnnl/dnnl_graph.h`.
        executorch: Folder of the installed package.
    """

    compiler: Path
    onednn_include: Path
    executorch: Path


def require_machine() -> None:
    """Refuse machines that the library is not made for.

    Raises:
        TargetUnavailable: Not Linux on x86-64.
    """
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
        raise TargetUnavailable(
            f"oneDNN's library runs on Linux on x86-64 only, this is {sys.platform} on {platform.machine()}",
            fix="use --target xnnpack or onnx-cpu here",
        )


def find_library() -> Path:
    """Find the library `libdnnl.so.3`: that of `EDGEX_ONEDNN_LIB`, else that of the installed package.

    Raises:
        TargetUnavailable: There is none.
    """
    chosen = os.environ.get(LIBRARY_VARIABLE)
    if chosen:
        if not Path(chosen).is_file():
            raise TargetUnavailable(
                f"{LIBRARY_VARIABLE} names no file: {chosen}", fix=f"unset {LIBRARY_VARIABLE}, or give libdnnl.so.3"
            )
        return Path(chosen).resolve()
    return _installed_file(_LIBRARY_PACKAGE, "libdnnl.so.3")


def find_toolchain() -> Toolchain:
    """Compiler and headers.

    Raises:
        TargetUnavailable: One is missing.
    """
    compiler = next((found for name in _COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise TargetUnavailable(
            "no C++ compiler: the oneDNN backend is compiled once at first use", fix="apt-get install g++"
        )
    header = _installed_file(_HEADER_PACKAGE, "oneapi/dnnl/dnnl_graph.h")
    return Toolchain(Path(compiler), header.parents[2], find_executorch())


def find_executorch() -> Path:
    """Folder of the installed executorch, without importing it.

    Raises:
        TargetUnavailable: It is not installed.
    """
    spec = find_spec("executorch")
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    if not places:
        raise TargetUnavailable("executorch is not installed", fix=INSTALL_COMMAND)
    return Path(places[0])


def _installed_file(package: str, name: str) -> Path:
    """A file of an installed distribution; these wheels put theirs into the environment's prefix."""
    try:
        files = distribution(package).files or ()
    except PackageNotFoundError:
        raise TargetUnavailable(f"{package} is not installed", fix=INSTALL_COMMAND) from None
    for file in files:
        if file.as_posix().endswith("/" + name):
            path = Path(str(file.locate())).resolve()
            if path.is_file():
                return path
    raise TargetUnavailable(f"{package} is installed without {name}", fix=f"pip install --force-reinstall {package}")
