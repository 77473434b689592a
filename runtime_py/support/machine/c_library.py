"""This machine's C library, and what the system's loader says of a library that wants a newer one."""

from __future__ import annotations

import platform
import re

_NEWER = re.compile(r"version [`'](GLIBC\w*_[\d.]+|GCC_[\d.]+|CXXABI_[\d.]+)' not found")


def find_newer(message: str) -> str | None:
    """The version that a library wants and this machine has not, `GLIBC_2.38`; None where that is not what fails."""
    found = _NEWER.search(message)
    return None if found is None else found[1]


def name_c_library() -> str:
    """`glibc 2.36`, as this machine has it."""
    name, version = platform.libc_ver()
    return f"{name} {version}" if name and version else "a C library of another kind"


def suggest_fix(message: str, install_command: str) -> str:
    """What to do about a package that does not load: on an older system, installing it again would change nothing.

    Args:
        message: What the loader says.
        install_command: What installs the package.
    """
    newer = find_newer(message)
    if newer is None:
        return install_command
    return (
        f"it needs {newer} and here is {name_c_library()} (ldd --version): use a newer system or container, and there "
        f"{install_command}; or export for a target that runs here, which edgex targets lists"
    )
