"""What a Linux machine is: asked with one script of its shell, read here."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from edgex.errors import DeviceError
from edgex.runtime.execute.linux.link import Link
from edgex.runtime.execute.request import DeviceInfo
from edgex.runtime.support.machine.host import SPEED_FEATURES, HostInfo, normal_machine

_PACKAGES = (
    "numpy",
    "packaging",
    "safetensors",
    "onnxruntime",
    "onnxruntime-migraphx",
    "onnxruntime-rocm",
    "onnxruntime-gpu",
    "onnxruntime-qnn",
)
_PYTHON = f"""import importlib.metadata as m, sys
print("python", sys.version.split()[0])
print("executable", sys.executable)
for n in {" ".join(_PACKAGES)!r}.split():
    try:
        print(n, m.version(n))
    except m.PackageNotFoundError:
        pass
""".replace("'", '"')

_QUESTIONS = {
    "uname": "uname -s; uname -r; uname -m",
    "bits": "getconf LONG_BIT",
    "libc": "getconf GNU_LIBC_VERSION 2>/dev/null || ldd --version 2>&1 | head -n 1",
    "os": "cat /etc/os-release",
    "board": "tr -d '\\0' < /proc/device-tree/model",
    "compatible": "tr '\\0' ' ' < /proc/device-tree/compatible",
    "product": "cat /sys/class/dmi/id/product_name",
    "cpuinfo": "cat /proc/cpuinfo",
    "meminfo": "cat /proc/meminfo",
    "usable": "nproc",
    "logical": "getconf _NPROCESSORS_ONLN",
    "governor": "cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "frequency": "cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq",
    "load": "cat /proc/loadavg",
}
_MARK = "@@edgex "


@dataclass(frozen=True)
class Probed:
    """A machine.

    Attributes:
        info: For people, and for checks.
        host: For a profile.
        machine: Its architecture: `x86_64`, `aarch64` or another.
        libc: Its glibc as numbers; None for another library, or where it does not tell.
        load_average: Runnable tasks, averaged over the minute before.
    """

    info: DeviceInfo
    host: HostInfo
    machine: str
    libc: tuple[int, ...] | None
    load_average: float | None


def probe_machine(link: Link, kind: str) -> Probed:
    """Ask a machine what it is.

    Raises:
        DeviceError: It does not answer, or its shell is no POSIX shell.
    """
    script = "; ".join(f"echo '{_MARK}{name}'; {{ {question}; }} 2>/dev/null" for name, question in _QUESTIONS.items())
    done = link.run(script)
    answers: dict[str, str] = {}
    for section in done.output.decode("utf-8", "replace").split(_MARK)[1:]:
        name, _, text = section.partition("\n")
        answers[name] = text.strip()
    if not answers.get("uname"):
        raise DeviceError("the device's shell gives no answers", link.address, why=done.errors or None)
    return _read(answers, kind, link.address)


def read_packages(link: Link, python: str) -> Mapping[str, str]:
    """A device's `python` and `executable`, and what is installed there for ONNX artifacts; empty without Python."""
    done = link.run(f"{shlex.quote(python)} -c '{_PYTHON}'")
    lines = done.output.decode("utf-8", "replace").splitlines()
    return dict(line.split(" ", 1) for line in lines if line.count(" ") == 1 or line.startswith("executable "))


def _read(answers: Mapping[str, str], kind: str, address: str) -> Probed:
    system, kernel, machine = [*answers["uname"].splitlines(), "", "", ""][:3]
    cpuinfo, meminfo = answers.get("cpuinfo", ""), answers.get("meminfo", "")
    flags = (_field(cpuinfo, "flags") or _field(cpuinfo, "Features") or "").split()
    features = tuple(name for name in SPEED_FEATURES if name in flags)
    cpu = _field(cpuinfo, "model name") or answers.get("board") or None
    libc = re.search(r"(?i)(?:glibc|gnu libc|ldd \(.*\)).*?(\d+(?:\.\d+)+)", answers.get("libc", ""))
    musl = "musl" in answers.get("libc", "")
    name = re.search(r'^PRETTY_NAME="?([^"\n]*)', answers.get("os", ""), re.MULTILINE)
    chip = answers.get("compatible", "").split()
    info = DeviceInfo(
        kind=kind,
        address=address,
        model=answers.get("board") or answers.get("product") or cpu,
        soc=chip[-1].replace(",", " ") if chip else _field(cpuinfo, "model name"),
        abi=normal_machine(machine),
        os=name[1] if name else f"{system} {kernel}",
        libc=f"glibc {libc[1]}" if libc and not musl else "musl" if musl else None,
        free_memory_bytes=_kilobytes(meminfo, "MemAvailable"),
        features=features,
        problems=_problems(system, machine, answers.get("bits", "")),
    )
    host = HostInfo(
        cpu=cpu,
        machine=machine,
        isa=features if flags else None,
        physical_cores=_physical_cores(cpuinfo),
        logical_cores=_count(answers.get("logical")),
        usable_cores=_count(answers.get("usable")),
        cpu_quota=None,
        memory_bytes=_kilobytes(meminfo, "MemTotal"),
        system=system,
        kernel=kernel,
        virtualised="hypervisor" in flags if _field(cpuinfo, "flags") else None,
        governor=answers.get("governor") or None,
        frequency_hz=_kilohertz(answers.get("frequency")),
        python="none",
    )
    load = answers.get("load", "").split()
    glibc = tuple(int(part) for part in libc[1].split(".")) if libc and not musl else None
    return Probed(info, host, normal_machine(machine), glibc, float(load[0]) if load else None)


def _problems(system: str, machine: str, bits: str) -> tuple[str, ...]:
    found = []
    if system != "Linux":
        found.append(f"its system is {system}, not Linux")
    elif normal_machine(machine) not in ("x86_64", "aarch64"):
        found.append(f"there is no native runner for {machine}")
    elif bits == "32":
        found.append(f"its system is a 32-bit one on a kernel for {machine}: the runner needs a 64-bit system")
    return tuple(found)


def _field(text: str, name: str) -> str | None:
    found = re.search(rf"^{re.escape(name)}\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else None


def _kilobytes(meminfo: str, name: str) -> int | None:
    found = re.search(rf"^{name}:\s*(\d+) kB$", meminfo, re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def _physical_cores(cpuinfo: str) -> int | None:
    packages = re.findall(r"^physical id\s*:\s*(\d+)$", cpuinfo, re.MULTILINE)
    cores = re.findall(r"^core id\s*:\s*(\d+)$", cpuinfo, re.MULTILINE)
    if cores and len(packages) == len(cores):
        return len(set(zip(packages, cores, strict=True)))
    return None


def _count(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


def _kilohertz(text: str | None) -> float | None:
    return float(text) * 1000.0 if text and text.isdigit() else None
