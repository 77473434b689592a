"""What is installed and set here, as a value: the checks look at nothing else, so tests can give any."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import distributions
from pathlib import Path

from edgex.doctor.matrix import COMPILERS

# Variables that change which libraries are loaded or how they behave.
_VARIABLES = (
    "LD_PRELOAD",
    "OMP_NUM_THREADS",
    "KMP_DUPLICATE_LIB_OK",
    "ORT_DISABLE_TELEMETRY",
    "EDGEX_MIGRAPHX_LIBRARY",
)


@dataclass(frozen=True)
class Environment:
    """One Python environment on one machine.

    Attributes:
        python: Version of the interpreter.
        implementation: `CPython` or another.
        system: Operating system, for example `Linux`.
        machine: Architecture.
        packages: Installed distribution (normalised name) -> version.
        doubled: Distributions that are installed more than once, with their versions.
        compiler: The C++ compiler that would be used, or None.
        preloaded: Libraries that LD_PRELOAD names.
        variables: Environment variables that matter, where set.
        isolated: Whether this is a virtual environment.
        free_bytes: Free space where temporary files go.
    """

    python: tuple[int, int, int]
    implementation: str = "CPython"
    system: str = "Linux"
    machine: str = "x86_64"
    packages: Mapping[str, str] = field(default_factory=dict)
    doubled: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    compiler: str | None = "c++"
    preloaded: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    isolated: bool = True
    free_bytes: int | None = None


def read_environment() -> Environment:
    """The environment that this runs in. Reads metadata only; imports none of the packages."""
    found: dict[str, list[tuple[str, str]]] = {}
    for distribution in distributions():
        name = distribution.name
        if name:
            place = str(distribution.locate_file(""))
            found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), []).append((distribution.version, place))
    doubled = {
        name: tuple(version for version, _ in entries)
        for name, entries in sorted(found.items())
        # The same version seen twice is an editable install beside its build folder.
        if len({version for version, _ in entries}) > 1 and len({place for _, place in entries}) < len(entries)
    }
    variables = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    preload = re.split(r"[: ]+", variables.get("LD_PRELOAD", ""))
    return Environment(
        python=sys.version_info[:3],
        implementation=platform.python_implementation(),
        system=platform.system(),
        machine=platform.machine(),
        packages={name: entries[0][0] for name, entries in sorted(found.items())},
        doubled=doubled,
        compiler=next(filter(None, map(shutil.which, (os.environ.get("CXX", ""), *COMPILERS))), None),
        preloaded=tuple(Path(entry).name for entry in preload if entry),
        variables=variables,
        isolated=sys.prefix != sys.base_prefix,
        free_bytes=_free_bytes(),
    )


def _free_bytes() -> int | None:
    import tempfile

    try:
        return shutil.disk_usage(tempfile.gettempdir()).free
    except OSError:
        return None
