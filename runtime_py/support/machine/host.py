"""What machine this is, as far as it matters for speed. Unknown is None, never 0 and never a guess."""

from __future__ import annotations

import hashlib
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgex.runtime.support.process.programs import run_program

# Instruction sets that decide which kernels an engine picks, oldest first; the kernel's names of them.
SPEED_FEATURES = (
    *("sse4_1", "sse4_2", "avx", "f16c", "fma", "avx2", "avx_vnni", "avx512f", "avx512bw", "avx512_vnni"),
    *("avx512_bf16", "avx512_fp16", "avx10_1", "amx_tile", "amx_int8", "amx_bf16", "amx_fp16"),
    *("neon", "asimd", "asimdhp", "asimddp", "i8mm", "bf16", "sve", "sve2", "sme", "sme2"),
)

# One name for an architecture.
_ALIASES = {"amd64": "x86_64", "arm64": "aarch64"}


@dataclass(frozen=True)
class HostInfo:
    """One machine.

    Attributes:
        cpu: Model name.
        machine: Architecture, for example `x86_64`.
        isa: Instruction sets that matter for kernels, by Linux's names.
        physical_cores: Cores without hyper-threads.
        logical_cores: What the operating system schedules on.
        usable_cores: Logical cores that this process may use (its affinity).
        cpu_quota: Cores' worth of time that a control group grants; None without a limit or where unknown.
        memory_bytes: Installed memory.
        system: Operating system, for example `Linux`.
        kernel: Its release.
        virtualised: Whether a hypervisor runs it.
        governor: Frequency policy; several are joined by `,`. Virtual machines have none.
        frequency_hz: Current frequency of the first core, where the system controls it.
        python: Version of the interpreter.
    """

    cpu: str | None
    machine: str
    isa: tuple[str, ...] | None
    physical_cores: int | None
    logical_cores: int | None
    usable_cores: int | None
    cpu_quota: float | None
    memory_bytes: int | None
    system: str
    kernel: str
    virtualised: bool | None
    governor: str | None
    frequency_hz: float | None
    python: str

    def to_json(self) -> dict[str, Any]:
        """A JSON object with the fields as they are named here."""
        return {**asdict(self), "isa": None if self.isa is None else list(self.isa)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> HostInfo:
        """The inverse of `to_json`.

        Raises:
            KeyError, TypeError: The data is not a host.
        """
        known = {name: data[name] for name in cls.__dataclass_fields__}
        return cls(**{**known, "isa": None if data["isa"] is None else tuple(data["isa"])})

    @property
    def fingerprint(self) -> str:
        """Short hash of what decides which settings are quickest: the processor, and how much of it may be used."""
        cores = (self.physical_cores, self.logical_cores, self.usable_cores, self.cpu_quota)
        parts = (self.cpu, self.machine, self.isa, *cores, self.system, self.virtualised)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    @property
    def cores_for_threads(self) -> float | None:
        """How many threads can run at once: the usable cores, or less where a control group grants less."""
        if self.usable_cores is None or self.cpu_quota is None:
            return self.usable_cores
        return min(float(self.usable_cores), self.cpu_quota)


@dataclass(frozen=True)
class Cores:
    """What decides how many threads can run at once; None where unknown.

    Attributes:
        physical: Cores without hyper-threads.
        usable: Logical cores that this process may use (its affinity).
        quota: Cores' worth of time that a control group grants; None without a limit too.
    """

    physical: int | None
    usable: int | None
    quota: float | None


def read_cores(root: Path = Path("/")) -> Cores:
    """Count the cores; quicker than `read_host`.

    Args:
        root: Where `/proc` and `/sys` are.
    """
    cpuinfo = _read(root / "proc/cpuinfo") or ""
    return Cores(_count_physical_cores(cpuinfo), _count_usable_cores(), _read_quota(root))


def read_host(root: Path = Path("/")) -> HostInfo:
    """Describe the machine this runs on.

    Args:
        root: Where `/proc` and `/sys` are.
    """
    cpuinfo = _read(root / "proc/cpuinfo") or ""
    flags = _field(cpuinfo, "flags") or _field(cpuinfo, "Features")
    present = set((flags or "").split())
    return HostInfo(
        cpu=_field(cpuinfo, "model name") or _device_tree_model(root) or _sysctl("machdep.cpu.brand_string"),
        machine=platform.machine(),
        isa=tuple(name for name in SPEED_FEATURES if name in present) if flags is not None else None,
        physical_cores=_count_physical_cores(cpuinfo),
        logical_cores=os.cpu_count(),
        usable_cores=_count_usable_cores(),
        cpu_quota=_read_quota(root),
        memory_bytes=_read_memory(root),
        system=platform.system(),
        kernel=platform.release(),
        # Only x86 has a flag that a hypervisor must set; its absence elsewhere says nothing.
        virtualised="hypervisor" in present if _field(cpuinfo, "flags") else None,
        governor=_read_governor(root),
        frequency_hz=_read_frequency(root),
        python=platform.python_version(),
    )


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _field(text: str, name: str) -> str | None:
    found = re.search(rf"^{re.escape(name)}\s*:\s*(.+)$", text, re.MULTILINE)
    return found.group(1).strip() if found else None


def _device_tree_model(root: Path) -> str | None:
    model = _read(root / "proc/device-tree/model")
    return model.rstrip("\0") if model else None


def _sysctl(name: str) -> str | None:
    if platform.system() != "Darwin":
        return None
    answer = run_program(["sysctl", "-n", name], capture_output=True, text=True)
    return answer.stdout.strip() or None


def _count_physical_cores(cpuinfo: str) -> int | None:
    packages = re.findall(r"^physical id\s*:\s*(\d+)$", cpuinfo, re.MULTILINE)
    cores = re.findall(r"^core id\s*:\s*(\d+)$", cpuinfo, re.MULTILINE)
    if cores and len(packages) == len(cores):
        return len(set(zip(packages, cores, strict=True)))
    import psutil

    count: int | None = psutil.cpu_count(logical=False)
    return count


def _count_usable_cores() -> int | None:
    # macOS has no affinity: every core may be used.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _read_quota(root: Path) -> float | None:
    """The control group's share of CPU time, in cores: `cpu.max` in version 2, `cpu.cfs_*` in version 1."""
    groups = _read(root / "proc/self/cgroup") or ""
    own = re.search(r"^0::/?(.*)$", groups, re.MULTILINE)
    folder = root / "sys/fs/cgroup"
    for place in (folder / (own.group(1) if own else ""), folder):
        text = _read(place / "cpu.max")
        if text:
            quota, period = text.split()
            return None if quota == "max" else int(quota) / int(period)
    old, old_period = _read(folder / "cpu/cpu.cfs_quota_us"), _read(folder / "cpu/cpu.cfs_period_us")
    if old and old_period and int(old) > 0:
        return int(old) / int(old_period)
    return None


def _read_memory(root: Path) -> int | None:
    found = re.search(r"^MemTotal:\s*(\d+) kB$", _read(root / "proc/meminfo") or "", re.MULTILINE)
    if found:
        return int(found.group(1)) * 1024
    import psutil

    total: int = psutil.virtual_memory().total
    return total


def _read_governor(root: Path) -> str | None:
    folder = root / "sys/devices/system/cpu"
    found = {_read(path) for path in folder.glob("cpu[0-9]*/cpufreq/scaling_governor")} - {None}
    return ",".join(sorted(str(name) for name in found)) or None


def _read_frequency(root: Path) -> float | None:
    kilohertz = _read(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq")
    return float(kilohertz) * 1000.0 if kilohertz and kilohertz.isdigit() else None


def normal_machine(name: str) -> str:
    """One name for an architecture: `x86_64` for amd64, `aarch64` for arm64."""
    return _ALIASES.get(name.lower(), name.lower())


def this_machine() -> str:
    """This machine's architecture."""
    return normal_machine(platform.machine())
