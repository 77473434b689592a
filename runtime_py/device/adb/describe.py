"""What an Android device is: its properties, memory, processor and the space on its storage, in one round trip."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from edgex.errors import DeviceError
from edgex.runtime.device.adb.client import AdbClient
from edgex.runtime.device.adb.failure import explain
from edgex.runtime.device.base import DeviceInfo

STORAGE = "/sdcard"

# What the app needs: its minSdk, and what ExecuTorch's library is built for.
MIN_API = 26
ABIS = ("arm64-v8a", "x86_64")

_CUT = "--edgex--"
_SCRIPT = f"; echo {_CUT}; ".join(
    ("getprop", "cat /proc/meminfo", "grep -m 1 -E '^(Features|flags)' /proc/cpuinfo", f"df -k {STORAGE}")
)


@dataclass(frozen=True)
class Description:
    """An Android device.

    Attributes:
        info: What all devices say of themselves.
        api: Android's API level.
        abis: What its processor runs, the preferred first.
        free_storage_bytes: Room where apps keep their files; None where it does not tell.
    """

    info: DeviceInfo
    api: int
    abis: tuple[str, ...]
    free_storage_bytes: int | None


def describe(client: AdbClient) -> Description:
    """Ask the device.

    Raises:
        DeviceError: It does not answer.
    """
    # The last command decides the exit code; what a device does not tell is left out below.
    done = client.shell(f"{_SCRIPT}; true")
    if done.returncode != 0:
        raise explain(client, "ask the device what it is", done)
    return parse_description(str(client.serial), done.text)


def parse_description(serial: str, text: str) -> Description:
    """Read the answer to the question that `describe` asks.

    Raises:
        DeviceError: It is not what an Android device says.
    """
    parts = text.replace("\r\n", "\n").split(f"{_CUT}\n")
    properties = dict(re.findall(r"^\[(.+?)\]: \[(.*)\]$", parts[0], re.MULTILINE))
    level = properties.get("ro.build.version.sdk", "")
    if len(parts) != 4 or not level.isdigit():
        raise DeviceError("the device does not answer as Android does", f"adb:{serial}", why=text.strip()[:300])
    memory = re.search(r"^MemAvailable:\s+(\d+) kB", parts[1], re.MULTILINE)
    features = parts[2].partition(":")[2].split()
    abis = tuple(a for a in properties.get("ro.product.cpu.abilist", "").split(",") if a)
    api = int(level)
    info = DeviceInfo(
        kind="adb",
        address=f"adb:{serial}",
        model=" ".join(filter(None, (_named(properties, "manufacturer"), _named(properties, "model")))) or None,
        soc=_soc(properties),
        abi=abis[0] if abis else None,
        os=f"Android {properties.get('ro.build.version.release', '?')} (API {api})",
        free_memory_bytes=int(memory[1]) * 1024 if memory else None,
        features=tuple(features),
        problems=tuple(_find_problems(api, abis)),
    )
    return Description(info, api, abis, _free_bytes(parts[3]))


def _find_problems(api: int, abis: tuple[str, ...]) -> list[str]:
    problems = []
    if api < MIN_API:
        problems.append(f"it runs Android API {api}; ExecuTorch's app needs API {MIN_API} (Android 8) or later")
    if not set(abis) & set(ABIS):
        has = ", ".join(abis) or "an unknown processor"
        problems.append(f"its ABI is wrong: it has {has}; ExecuTorch for Android exists for {' and '.join(ABIS)}")
    return problems


def _named(properties: Mapping[str, str], name: str) -> str | None:
    return properties.get(f"ro.product.{name}") or None


def _soc(properties: Mapping[str, str]) -> str | None:
    known = [properties.get(f"ro.soc.{name}", "") for name in ("manufacturer", "model")]
    return " ".join(filter(None, known)) or properties.get("ro.board.platform") or properties.get("ro.hardware")


def _free_bytes(table: str) -> int | None:
    """The column before the percentage, in KiB; a long device name may push the figures to a line of their own."""
    found = re.search(r"\s(\d+)\s+(\d+)\s+(\d+)\s+\d+%", table)
    return int(found[3]) * 1024 if found else None
