"""An ONNX artifact on a Linux machine: a few files of edgex.runtime, and the device's own Python and ONNX Runtime."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edgex.errors import DeviceError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.artifact.manifest import MANIFEST_FILE
from edgex.runtime.engines.onnxruntime.engine import BUILDS
from edgex.runtime.engines.onnxruntime.provider.opening import MARK
from edgex.runtime.engines.qnn.provider import DISTRIBUTION, OLDEST, QNN
from edgex.runtime.execute.base import Progress
from edgex.runtime.execute.linux.link import Link
from edgex.runtime.execute.linux.probe import Probed, read_packages
from edgex.runtime.execute.linux.program import Program
from edgex.runtime.support.versions import is_older

WORKER = "edgex.runtime.execute.linux.worker"
# Imported inside functions on the way to a session, which the others do not show at their top.
_LATE = (
    "edgex.runtime.engines.onnxruntime.openings",
    "edgex.runtime.engines.onnxruntime.origin",
    "edgex.runtime.engines.onnxruntime.session",
    "edgex.runtime.engines.qnn.opening",
    "edgex.runtime.engines.rocm.opening",
    "edgex.runtime.execute.sampling",
    "edgex.runtime.session.session",
)
_LEAST_PYTHON = "3.11"


@dataclass(frozen=True)
class _Plugin:
    """A distribution that brings a provider, on a device.

    Attributes:
        distribution: Its name.
        least: The oldest version that is a plug-in.
        libc: The oldest glibc that its wheels for a processor run on, by the processor.
    """

    distribution: str
    least: str
    libc: Mapping[str, tuple[int, int]]


# By the name of the provider in the manifest. The tags of the wheels of onnxruntime-qnn 2.7.0.
_PLUGINS: Mapping[str, _Plugin] = {
    QNN.name: _Plugin(DISTRIBUTION, OLDEST, {"aarch64": (2, 34), "x86_64": (2, 35)}),
}
_NO_TRACE = "operators of ONNX artifacts are not recorded on a device"


class PythonMaker:
    """See `edgex.runtime.execute.linux.program.ProgramMaker`.

    Args:
        python: The interpreter there.
    """

    def __init__(self, python: str = "python3") -> None:
        self._python = python

    def __call__(self, artifact: Artifact, link: Link, there: Probed, progress: Progress) -> Program:
        """Send the files of edgex and of the artifact unless they are there."""
        packages = read_packages(link, self._python)
        _refuse_environment(artifact, packages, link.address, self._python)
        plugin = _PLUGINS.get(str(artifact.manifest.options.get(MARK)))
        if plugin is not None:
            _refuse_plugin(plugin, packages, there, link.address, self._python)
        progress("runner", f"Python {packages['python']} of the device")
        code = list_modules()
        digest = hashlib.sha256()
        for name, path in code.items():
            digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
        folder = link.provide("python", digest.hexdigest()[:20], code, progress)
        native = artifact.manifest.native_files
        files = {file.path: artifact.path / file.path for file in native}
        files[MANIFEST_FILE] = artifact.path / MANIFEST_FILE
        # The manifest is part of what is sent, and changes without the model: when only the proof was made again.
        mark = hashlib.sha256(f"{artifact.digest} {(artifact.path / MANIFEST_FILE).read_text()}".encode())
        model = link.provide("artifact", mark.hexdigest()[:20], files, progress)
        main = artifact.manifest.file(".onnx")
        python = ("env", f"PYTHONPATH={folder}", "PYTHONDONTWRITEBYTECODE=1", packages["executable"], "-m", WORKER)
        brought = () if plugin is None else (plugin.distribution,)
        versions = {name: packages[name] for name in (*BUILDS, *brought) if name in packages}
        command = (*python, "--artifact", model, "--method", artifact.manifest.method.name)
        return Program(command, main.sha256, None, versions, False, _NO_TRACE)


def list_modules() -> dict[str, Path]:
    """The files of edgex that the worker imports, by their paths below a folder of PYTHONPATH."""
    found: dict[str, Path] = {}
    left = [WORKER, *_LATE]
    while left:
        name = left.pop()
        if name in found:
            continue
        path = _file_of(name)
        if path is None:
            continue
        found[name] = path
        left += _imports(path)
        left += [name.rpartition(".")[0]] if "." in name else []
    return {_place(name, path): path for name, path in sorted(found.items())}


def _file_of(name: str) -> Path | None:
    """A module's file without importing it or anything above it but packages; None for what is no module."""
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None
    return Path(spec.origin) if spec is not None and spec.origin else None


def _place(name: str, path: Path) -> str:
    parts = name.replace(".", "/")
    return f"{parts}/__init__.py" if path.name == "__init__.py" else f"{parts}.py"


def _imports(path: Path) -> list[str]:
    """What a module of edgex imports of edgex at its top, outside `if TYPE_CHECKING`."""
    found = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "edgex":
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] == "edgex"]
    return found


def _refuse_environment(artifact: Artifact, packages: Mapping[str, str], address: str, name: str) -> None:
    """What the device must have of its own."""
    python = packages.get("python")
    if python is None:
        raise DeviceError(
            f"the device has no {name}, which an ONNX artifact needs",
            address,
            "install it there, with onnxruntime, and name it with --device-python; or export for xnnpack, which needs "
            "no Python",
        )
    if is_older(python, _LEAST_PYTHON):
        raise DeviceError(f"the device's Python is {python}; {_LEAST_PYTHON} or newer is needed", address)
    needed = ["numpy", "packaging", *(["safetensors"] if _has_state_file(artifact) else [])]
    missing = [name for name in needed if name not in packages]
    build = next((name for name in BUILDS if name in packages), None)
    if build is None:
        missing.append("onnxruntime")
    if missing:
        raise DeviceError(
            f"the device's {name} lacks {' and '.join(missing)}",
            address,
            f"on the device: {name} -m pip install {' '.join(missing)}; or name another with --device-python",
        )
    installed, least = packages[str(build)], artifact.manifest.requirements.minimum_version
    if least is not None and is_older(installed, least):
        raise DeviceError(
            f"the device's onnxruntime is {installed}; the artifact needs {least} or newer",
            address,
            f"on the device: {name} -m pip install 'onnxruntime>={least}'",
        )


def _refuse_plugin(plugin: _Plugin, packages: Mapping[str, str], there: Probed, address: str, name: str) -> None:
    """What a provider needs of the device beside ONNX Runtime; the worker's own checks come after it."""
    installed = packages.get(plugin.distribution)
    if installed is not None and not is_older(installed, plugin.least):
        return
    least = plugin.libc.get(there.machine)
    if least is None or there.libc is None or there.libc < least:
        found = "no glibc" if there.libc is None else f"glibc {'.'.join(map(str, there.libc))}"
        wants = "no such processor" if least is None else f"glibc {least[0]}.{least[1]} or newer"
        raise DeviceError(
            f"there is no {plugin.distribution} for the device ({there.machine}, {found})",
            address,
            "run it on a device with a newer system, or export for onnx-cpu",
            why=f"its wheels are for {wants}",
        )
    what = f"has {plugin.distribution} {installed}, which is too old" if installed else f"lacks {plugin.distribution}"
    raise DeviceError(
        f"the device's {name} {what}",
        address,
        f"on the device: {name} -m pip install '{plugin.distribution}>={plugin.least}'; its libraries are under the "
        "vendor's licence, which that accepts",
    )


def _has_state_file(artifact: Artifact) -> bool:
    files = artifact.manifest.files
    return any(file.path.endswith(".safetensors") and not file.path.startswith("golden/") for file in files)
