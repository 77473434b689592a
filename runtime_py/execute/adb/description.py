"""What an Android device is: its properties, memory, processor and the space on its storage, in one round trip."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from edgex.errors import DeviceError
from edgex.runtime.execute.adb.failure import explain
from edgex.runtime.execute.adb.transport.client import AdbClient
from edgex.runtime.execute.request import DeviceInfo
from edgex.runtime.support.machine.host import SPEED_FEATURES, HostInfo

STORAGE = "/sdcard"

# What the app needs: its minSdk, and what ExecuTorch's library is built for.
MIN_API = 26
ABIS = ("arm64-v8a", "x86_64")

_CUT = "--edgex--"
_PARTS = 7
_CPU = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_"
_SCRIPT = f"; echo {_CUT}; ".join(
    ("getprop", "cat /proc/meminfo", "cat /proc/cpuinfo", f"df -k {STORAGE}", "uname -r; uname -m",
     f"cat {_CPU}governor", f"cat {_CPU}cur_freq")
)  # fmt: skip


@dataclass(frozen=True)
class Description:
    """An Android device.

    Attributes:
        info: What all devices say of themselves.
        api: Android's API level.
        abis: What its processor runs, the preferred first.
        free_storage_bytes: Room where apps keep their files; None where it does not tell.
        host: The same as a profile describes a machine.
    """

    info: DeviceInfo
    host: HostInfo
    api: int
    abis: tuple[str, ...]
    free_storage_bytes: int | None


def describe_device(client: AdbClient) -> Description:
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
    """Read the answer to the question that `describe_device` asks.

    Raises:
        DeviceError: It is not what an Android device says.
    """
    parts = text.replace("\r\n", "\n").split(f"{_CUT}\n")
    properties = dict(re.findall(r"^\[(.+?)\]: \[(.*)\]$", parts[0], re.MULTILINE))
    level = properties.get("ro.build.version.sdk", "")
    if len(parts) != _PARTS or not level.isdigit():
        raise DeviceError("the device does not answer as Android does", f"adb:{serial}", why=text.strip()[:300])
    features = re.search(r"^(?:Features|flags)\s*:(.*)$", parts[2], re.MULTILINE)
    abis = tuple(a for a in properties.get("ro.product.cpu.abilist", "").split(",") if a)
    api = int(level)
    info = DeviceInfo(
        kind="adb",
        address=f"adb:{serial}",
        model=" ".join(filter(None, (_named(properties, "manufacturer"), _named(properties, "model")))) or None,
        soc=_soc(properties),
        abi=abis[0] if abis else None,
        os=f"Android {properties.get('ro.build.version.release', '?')} (API {api})",
        free_memory_bytes=_memory(parts[1], "MemAvailable"),
        features=tuple(features[1].split()) if features else (),
        problems=tuple(_find_problems(api, abis)),
    )
    return Description(info, _describe_host(info, properties, parts), api, abis, _free_bytes(parts[3]))


def _describe_host(info: DeviceInfo, properties: Mapping[str, str], parts: list[str]) -> HostInfo:
    cores = len(re.findall(r"^processor\s*:", parts[2], re.MULTILINE)) or None
    kernel, _, machine = parts[4].strip().partition("\n")
    frequency = parts[6].strip()
    emulated = "1" in (properties.get("ro.kernel.qemu"), properties.get("ro.boot.qemu"))
    return HostInfo(
        cpu=info.soc or info.model,
        machine=machine,
        isa=tuple(name for name in SPEED_FEATURES if name in info.features) if info.features else None,
        physical_cores=cores,
        logical_cores=cores,
        usable_cores=cores,
        cpu_quota=None,
        memory_bytes=_memory(parts[1], "MemTotal"),
        system=str(info.os),
        kernel=kernel,
        virtualised=True if emulated else None,
        governor=parts[5].strip() or None,
        frequency_hz=int(frequency) * 1000.0 if frequency.isdigit() else None,
        python="none",
    )


def _memory(table: str, name: str) -> int | None:
    found = re.search(rf"^{name}:\s+(\d+) kB", table, re.MULTILINE)
    return int(found[1]) * 1024 if found else None


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
