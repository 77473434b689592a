"""Energy and hardware counters of untraced runs, where the host has meters; None where it has not.

Energy comes from RAPL (`/sys/class/powercap`): whole processor packages, whoever used them. Counters come from the
kernel's `perf_event_open` for the threads of this process, user mode only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_POWERCAP = Path("/sys/class/powercap")
_SECONDS = 0.5
_MAX_RUNS = 2000

_SYSCALLS = {"x86_64": 298, "aarch64": 241}
# perf_event_attr up to its first published size; type 0 is the processor's own events.
_ATTRIBUTES_BYTES = 64
_COUNTERS = {"instructions_per_run": 1, "cycles_per_run": 0, "cache_misses_per_run": 3}
# disabled, exclude_kernel, exclude_hv
_FLAGS = 1 << 0 | 1 << 5 | 1 << 6
_ENABLE, _DISABLE = 0x2400, 0x2401
_CLOSE_ON_EXEC = 8


@dataclass(frozen=True)
class MeterReadings:
    """Per run.

    Attributes:
        energy: `joules_per_run` and `source`; None without a meter that may be read.
        counters: `instructions_per_run`, `cycles_per_run`, `cache_misses_per_run`, None each where the processor does
            not count it; None where it counts nothing.
    """

    energy: dict[str, float | str] | None
    counters: dict[str, float | None] | None


def read_meters(run: Callable[[], object], runs_per_call: int, seconds_per_call: float) -> MeterReadings:
    """Read the meters around some runs.

    Args:
        run: Runs the model, once or a whole sequence.
        runs_per_call: How many runs that is.
        seconds_per_call: About how long it takes.
    """
    domains = energy_domains()
    with _open_counters() as counters:
        if not domains and not counters:
            return MeterReadings(None, None)
        calls = min(_MAX_RUNS, max(1, int(_SECONDS / max(seconds_per_call, 1e-9))))
        before = [domain.read() for domain in domains]
        _switch(counters, _ENABLE)
        started = time.perf_counter()
        for _ in range(calls):
            run()
        elapsed = time.perf_counter() - started
        _switch(counters, _DISABLE)
        joules = [domain.joules_since(start) for domain, start in zip(domains, before, strict=True)]
        counts = _read_counters(counters)
    runs = calls * runs_per_call
    energy: dict[str, float | str] | None = None
    # A counter that does not move in half a second is not one.
    if joules and elapsed > 0 and sum(joules) > 0:
        energy = {"joules_per_run": sum(joules) / runs, "source": "RAPL: " + ", ".join(d.name for d in domains)}
    per_run = {name: None if (count := counts.get(name)) is None else count / runs for name in _COUNTERS}
    return MeterReadings(energy, per_run if any(per_run.values()) else None)


@dataclass(frozen=True)
class EnergyDomain:
    """One processor package's energy counter; it wraps around."""

    name: str
    file: Path
    limit_microjoules: int

    def read(self) -> int:
        """Microjoules so far."""
        return int(self.file.read_text(encoding="ascii"))

    def joules_since(self, before: int) -> float:
        """Joules used since an earlier reading."""
        used = self.read() - before
        return (used if used >= 0 else used + self.limit_microjoules) / 1e6


def energy_domains(folder: Path = _POWERCAP) -> list[EnergyDomain]:
    """The packages whose counters may be read; parts of a package are in its counter already."""
    found = []
    for zone in sorted(folder.glob("*-rapl:*")):
        if zone.name.count(":") != 1:
            continue
        try:
            name = (zone / "name").read_text(encoding="ascii").strip()
            limit = int((zone / "max_energy_range_uj").read_text(encoding="ascii"))
            domain = EnergyDomain(name, zone / "energy_uj", limit)
            domain.read()
        except (OSError, ValueError):
            continue  # only the administrator may read it, or it is no counter
        if name.startswith("package"):
            found.append(domain)
    return found


@contextmanager
def _open_counters() -> Iterator[dict[str, list[int]]]:
    """File descriptors of the counters that the kernel gives us, one for each thread of this process."""
    opened: dict[str, list[int]] = {}
    try:
        for name, event in _COUNTERS.items():
            descriptors = [_open_counter(event, thread) for thread in _threads()]
            opened[name] = [descriptor for descriptor in descriptors if descriptor >= 0]
        yield {name: descriptors for name, descriptors in opened.items() if descriptors}
    finally:
        for descriptors in opened.values():
            for descriptor in descriptors:
                os.close(descriptor)


def _threads() -> list[int]:
    try:
        return sorted(int(task.name) for task in Path("/proc/self/task").iterdir())
    except OSError:
        return []


def _open_counter(event: int, thread: int) -> int:
    """A descriptor, or a negative number where the kernel or the processor refuses."""
    number = _SYSCALLS.get(platform.machine())
    if number is None:
        return -1
    attributes = struct.pack("<IIQQQQQ", 0, _ATTRIBUTES_BYTES, event, 0, 0, 0, _FLAGS).ljust(_ATTRIBUTES_BYTES, b"\0")
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    buffer = ctypes.create_string_buffer(attributes, _ATTRIBUTES_BYTES)
    arguments = (ctypes.c_int(thread), ctypes.c_int(-1), ctypes.c_int(-1), ctypes.c_ulong(_CLOSE_ON_EXEC))
    return int(syscall(ctypes.c_long(number), buffer, *arguments))


def _switch(counters: dict[str, list[int]], request: int) -> None:
    import fcntl

    for descriptors in counters.values():
        for descriptor in descriptors:
            with contextlib.suppress(OSError):  # the thread has ended meanwhile
                fcntl.ioctl(descriptor, request, 0)


def _read_counters(counters: dict[str, list[int]]) -> dict[str, int]:
    return {name: sum(_values(descriptors)) for name, descriptors in counters.items()}


def _values(descriptors: Sequence[int]) -> Iterator[int]:
    for descriptor in descriptors:
        yield struct.unpack("<Q", os.read(descriptor, 8))[0]
