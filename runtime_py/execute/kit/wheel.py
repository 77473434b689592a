"""executorch's headers and libraries for an architecture: installed, or out of a wheel that the user gave."""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

from edgex.errors import DeviceError, TargetUnavailable, UsageError
from edgex.runtime.engines.onednn.library import find_executorch
from edgex.runtime.support.cache import user_cache
from edgex.runtime.support.entry_points import installed_version
from edgex.runtime.support.machine.host import this_machine
from edgex.runtime.support.publish import publish_folder, staged_folder

_NAME = re.compile(r"executorch-(?P<version>[^-]+)-.*_(?P<machine>x86_64|aarch64)\.whl")
_KEPT = re.compile(r"executorch/(include/.+|lib/[^/]+\.so)")


@dataclass(frozen=True)
class Executorch:
    """A folder with `include` and `lib`, and its version without a local part."""

    folder: Path
    version: str


def find_executorch_for(machine: str, wheel: Path | None) -> Executorch:
    """Headers and libraries for an architecture.

    Args:
        machine: `x86_64` or `aarch64`.
        wheel: A wheel to take them from; what is needed of it is kept in the user's cache.

    Raises:
        UsageError: The wheel is none of executorch's.
        DeviceError: There are no libraries, or the wheel does not fit the device.
    """
    if wheel is not None:
        return _unpack(wheel, machine)
    if machine == this_machine():
        try:
            folder = find_executorch()
        except TargetUnavailable as error:
            raise DeviceError(error.what, error.where, error.fix, why="the native runner is linked with it") from error
        return Executorch(folder, _public(installed_version("executorch") or "0"))
    wanted = _public(installed_version("executorch") or "")
    kept = _kept_wheels() / f"{wanted}-{machine}"
    if wanted and kept.is_dir():
        return Executorch(kept, wanted)
    version = wanted or "1.5.1"
    raise DeviceError(
        f"the native runner for {machine} needs executorch's libraries for {machine}, which are not here",
        why="they are in its wheel; none of it is installed or run on this machine",
        fix=f"pip download executorch=={version} --no-deps --only-binary=:all: --platform manylinux_2_28_{machine}\n"
        f"then once: --executorch-wheel executorch-{version}-….whl",
    )


def check_wheel(wheel: Path, machine: str | None = None) -> tuple[str, str]:
    """The version and the architecture in the name of a wheel.

    Args:
        wheel: executorch's, under its own name.
        machine: What it must be for; None takes each.

    Raises:
        UsageError: There is no such file, it is another one, or it is for another architecture.
    """
    fix = "give executorch-VERSION-…-manylinux_…_aarch64.whl, under its own name"
    if not wheel.is_file():
        raise UsageError(f"no such file: {wheel}", where="--executorch-wheel", fix=fix)
    name = _NAME.fullmatch(wheel.name)
    if name is None:
        raise UsageError(f"{wheel.name} is no wheel of executorch for Linux", where="--executorch-wheel", fix=fix)
    if machine is not None and name["machine"] != machine:
        raise UsageError(f"{wheel.name} is for {name['machine']}, not for {machine}", where="--executorch-wheel")
    return _public(name["version"]), name["machine"]


def _kept_wheels() -> Path:
    return user_cache("device", "executorch")


def _public(version: str) -> str:
    return version.partition("+")[0]


def _unpack(wheel: Path, machine: str) -> Executorch:
    version, made_for = check_wheel(wheel)
    if made_for != machine:
        raise DeviceError(
            f"{wheel.name} is for {made_for}, the device is {machine}",
            fix="give the wheel for the device's architecture",
        )
    folder = _kept_wheels() / f"{version}-{machine}"
    if folder.is_dir():
        return Executorch(folder, version)
    try:
        with staged_folder(folder) as temporary:
            with zipfile.ZipFile(wheel) as archive:
                for entry in archive.namelist():
                    if _KEPT.fullmatch(entry) and ".." not in entry:
                        archive.extract(entry, temporary)
            if not (temporary / "executorch" / "lib").is_dir():
                raise DeviceError(f"{wheel.name} holds no libraries", fix="give a wheel of executorch 1.5 or newer")
            publish_folder(temporary / "executorch", folder)
    except (zipfile.BadZipFile, OSError) as error:
        # A folder that another process made meanwhile stays.
        if not folder.is_dir():
            raise DeviceError(f"{wheel.name} cannot be unpacked", why=str(error)) from error
    return Executorch(folder, version)
