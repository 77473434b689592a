"""The checks of `edgex doctor`: each a function of the environment alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from edgex.doctor import matrix
from edgex.doctor.environment import Environment

Status = Literal["ok", "warning", "broken"]
_FREE_BYTES = 2 << 30


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes:
        check: Its name.
        status: `ok`; `warning` where something works but may surprise; `broken` where something cannot work.
        text: What was found, one sentence.
        fix: The command that helps; None when ok.
    """

    check: str
    status: Status
    text: str
    fix: str | None = None

    def to_json(self) -> dict[str, Any]:
        """One entry of `findings` of `edgex.doctor/1`."""
        return asdict(self)


def examine(environment: Environment) -> list[Finding]:
    """Run every check; each gives one or more findings."""
    return [finding for check in CHECKS for finding in check(environment)]


def check_python(environment: Environment) -> Iterator[Finding]:
    """The interpreter's version and kind."""
    version = ".".join(map(str, environment.python))
    oldest, newest = (".".join(map(str, edge)) for edge in (matrix.PYTHON_OLDEST, matrix.PYTHON_NEWEST))
    shown = f"{environment.implementation} {version}"
    if environment.implementation != "CPython":
        yield Finding("python", "broken", f"{shown}: the engines exist for CPython only", f"use CPython {newest}")
    elif not matrix.PYTHON_OLDEST <= environment.python[:2] <= matrix.PYTHON_NEWEST:
        text = f"{shown}: edgex is tested with {oldest} to {newest}"
        yield Finding("python", "broken", text, f"python{newest} -m venv .venv, then install edgex there")
    else:
        yield Finding("python", "ok", shown)


def check_isolation(environment: Environment) -> Iterator[Finding]:
    """A virtual environment keeps other projects' packages out."""
    if environment.isolated:
        yield Finding("isolation", "ok", "a virtual environment")
    else:
        text = "no virtual environment: other projects' packages are mixed in"
        yield Finding("isolation", "warning", text, "python3 -m venv .venv && . .venv/bin/activate")


def check_doubles(environment: Environment) -> Iterator[Finding]:
    """A package that is there twice: which one is imported is chance."""
    for name, versions in environment.doubled.items():
        text = f"{name} is installed more than once: {', '.join(versions)}"
        yield Finding("doubled packages", "broken", text, f"pip uninstall -y {name}; pip install {name}")
    if not environment.doubled:
        yield Finding("doubled packages", "ok", "none")


def check_onnxruntime(environment: Environment) -> Iterator[Finding]:
    """Two builds of ONNX Runtime overwrite each other's files."""
    builds = [
        name
        for name in matrix.ONNXRUNTIME_BUILDS
        if name in environment.packages
        and not (name in matrix.PLUGINS_FROM and _key(environment.packages[name]) >= _key(matrix.PLUGINS_FROM[name]))
    ]
    if len(builds) > 1:
        keep = "onnxruntime-migraphx" if "onnxruntime-migraphx" in builds else builds[0]
        yield Finding(
            "onnxruntime builds",
            "broken",
            f"{' and '.join(builds)} are both installed into one folder, and each overwrites the other",
            f"pip uninstall -y {' '.join(builds)}; pip install {keep}",
        )
    elif builds:
        yield Finding("onnxruntime builds", "ok", f"{builds[0]} {environment.packages[builds[0]]}")
    else:
        yield Finding("onnxruntime builds", "ok", "none installed")


def check_matrix(environment: Environment) -> Iterator[Finding]:
    """torch, torchao and executorch of one tested set."""
    installed = environment.packages
    if "executorch" not in installed:
        yield Finding("torch set", "ok", "executorch is not installed")
        return
    for tested in matrix.TESTED_SETS:
        if not _starts_with(installed["executorch"], tested.versions["executorch"]):
            continue
        wrong = [
            f"{name} {installed.get(name, 'missing')}"
            for name, prefix in tested.versions.items()
            if name not in installed or not _starts_with(installed[name], prefix)
        ]
        wanted = " ".join(f"'{name}=={prefix}.*'" for name, prefix in tested.versions.items())
        if wrong:
            text = f"{', '.join(wrong)}: {tested.name} was built for {_listed(tested)}"
            yield Finding("torch set", "broken", text, f"pip install {wanted}")
        else:
            shown = ", ".join(f"{name} {installed[name]}" for name in tested.versions)
            yield Finding("torch set", "ok", shown)
        return
    known = " ".join(f"'{name}=={prefix}.*'" for name, prefix in matrix.TESTED_SETS[-1].versions.items())
    text = f"executorch {installed['executorch']} is in no tested set"
    yield Finding("torch set", "broken", text, f"pip install {known}")


def check_ranges(environment: Environment) -> Iterator[Finding]:
    """Packages outside the versions that edgex is meant to work with."""
    wrong = False
    for name, (oldest, too_new) in matrix.RANGES.items():
        version = environment.packages.get(name)
        if version is not None and not _key(oldest) <= _key(version) < _key(too_new):
            wrong = True
            text = f"{name} {version} is outside {oldest} to {too_new}"
            yield Finding("package versions", "broken", text, f"pip install '{name}>={oldest},<{too_new}'")
    if not wrong:
        yield Finding("package versions", "ok", "inside the tested ranges")


def check_onednn(environment: Environment) -> Iterator[Finding]:
    """The target onednn compiles its backend at first use, the target aoti every model."""
    has_library = matrix.ONEDNN_LIBRARY in environment.packages
    if not has_library:
        text = environment.compiler or "none, which the target aoti alone would need: sudo apt install g++"
        yield Finding("compiler", "ok", text)
        return
    if matrix.ONEDNN_HEADERS not in environment.packages:
        text = f"{matrix.ONEDNN_LIBRARY} is installed without its headers"
        version = environment.packages[matrix.ONEDNN_LIBRARY]
        yield Finding("compiler", "broken", text, f"pip install {matrix.ONEDNN_HEADERS}=={version}")
    elif environment.packages[matrix.ONEDNN_HEADERS] != environment.packages[matrix.ONEDNN_LIBRARY]:
        version = environment.packages[matrix.ONEDNN_LIBRARY]
        text = f"oneDNN's headers are {environment.packages[matrix.ONEDNN_HEADERS]}, its library is {version}"
        yield Finding("compiler", "broken", text, f"pip install {matrix.ONEDNN_HEADERS}=={version}")
    if environment.compiler is None:
        text = "no C++ compiler: the backend of the target onednn cannot be built, nor anything for aoti"
        yield Finding("compiler", "broken", text, "sudo apt install g++   (macOS: xcode-select --install)")
    else:
        yield Finding("compiler", "ok", environment.compiler)


def check_openmp(environment: Environment) -> Iterator[Finding]:
    """Two OpenMP runtimes in a process make two thread pools, or a deadlock."""
    wrong = [name for name in matrix.ONEDNN_OTHER_OPENMP if name in environment.packages]
    for name in wrong:
        text = f"{name} brings another OpenMP or thread runtime than torch's libgomp into the process"
        fix = f"pip uninstall -y {name}; pip install {matrix.ONEDNN_LIBRARY}"
        yield Finding("openmp", "broken", text, fix)
    preloaded = [name for name in environment.preloaded if name.startswith(matrix.OTHER_OPENMP_LIBRARIES)]
    for name in preloaded:
        text = f"LD_PRELOAD loads {name} beside torch's libgomp"
        yield Finding("openmp", "broken", text, "unset LD_PRELOAD")
    if "KMP_DUPLICATE_LIB_OK" in environment.variables:
        text = "KMP_DUPLICATE_LIB_OK hides that two OpenMP runtimes are loaded; results may be wrong"
        yield Finding("openmp", "warning", text, "unset KMP_DUPLICATE_LIB_OK")
    threads = environment.variables.get("OMP_NUM_THREADS")
    if threads is not None and not re.fullmatch(r"[1-9]\d*(,[1-9]\d*)*", threads):
        yield Finding("openmp", "broken", f"OMP_NUM_THREADS={threads} is no number", "unset OMP_NUM_THREADS")
    elif not wrong and not preloaded:
        yield Finding("openmp", "ok", "one runtime" + (f", OMP_NUM_THREADS={threads}" if threads else ""))


def check_platform(environment: Environment) -> Iterator[Finding]:
    """Where wheels of the engines exist."""
    shown = f"{environment.system} {environment.machine}"
    if environment.system not in ("Linux", "Darwin"):
        yield Finding("platform", "broken", f"{shown}: edgex runs on Linux and macOS", "use WSL 2 on Windows")
    else:
        yield Finding("platform", "ok", shown)


def check_space(environment: Environment) -> Iterator[Finding]:
    """An export needs several times the model's size."""
    if environment.free_bytes is not None and environment.free_bytes < _FREE_BYTES:
        free = environment.free_bytes / 1e9
        text = f"{free:.1f} GB are free for temporary files; large exports need more"
        yield Finding("disk", "warning", text, "free some space, or set TMPDIR")
    else:
        yield Finding("disk", "ok", "enough space for temporary files")


CHECKS: tuple[Callable[[Environment], Iterator[Finding]], ...] = (
    check_python,
    check_platform,
    check_isolation,
    check_doubles,
    check_matrix,
    check_onnxruntime,
    check_ranges,
    check_onednn,
    check_openmp,
    check_space,
)


def _listed(tested: matrix.TestedSet) -> str:
    return ", ".join(f"{name} {prefix}" for name, prefix in tested.versions.items() if name != "executorch")


def _key(version: str) -> tuple[int, ...]:
    numbers = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, numbers[0].split("."))) if numbers else (0,)


def _starts_with(version: str, prefix: str) -> bool:
    wanted = _key(prefix)
    return _key(version)[: len(wanted)] == wanted
