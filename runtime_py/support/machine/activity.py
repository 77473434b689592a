"""What else the machine did while something was measured, and the warnings that follow from it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

# Above these, numbers move by more than the noise of a quiet machine.
_OTHER_CORES = 0.1
_STEAL_SHARE = 0.01
_SWITCHES_PER_SECOND = 10.0

# The kernel counts CPU time in ticks of 10 ms on each core; a few of them may belong to the time before.
_TICKS_SECONDS = 0.03


@dataclass(frozen=True)
class MeasurementWarning:
    """A reason to trust figures less.

    Attributes:
        code: Fixed name, for tools, for example `steal`.
        text: A sentence with the figures.
    """

    code: str
    text: str


@dataclass(frozen=True)
class Snapshot:
    """Counters of the machine and of this process at one moment; None where the system does not count.

    Attributes:
        at_seconds: Monotonic clock.
        own_seconds: CPU time of this process, all its threads, and of its children that have ended.
        busy_seconds: CPU time of all processes on all cores.
        steal_seconds: Time that a hypervisor gave to others.
        involuntary_switches: How often the scheduler took a core away from this process.
        load_average: Runnable tasks, averaged over a minute.
    """

    at_seconds: float
    own_seconds: float
    busy_seconds: float | None
    steal_seconds: float | None
    involuntary_switches: int | None
    load_average: float | None


@dataclass(frozen=True)
class Activity:
    """What happened between two snapshots.

    Attributes:
        seconds: Time between them.
        other_cores: Cores' worth of CPU time that other processes used.
        steal_share: Share of all cores' time that a hypervisor gave to others, 0 to 1.
        involuntary_switches: How often the scheduler took a core away from this process.
        load_average_before: Runnable tasks, averaged over the minute before.
        load_average_after: The same over the minute that ends with the measurement.
    """

    seconds: float
    other_cores: float | None
    steal_share: float | None
    involuntary_switches: int | None
    load_average_before: float | None
    load_average_after: float | None

    def to_json(self) -> dict[str, Any]:
        """A JSON object with the fields as they are named here."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Activity:
        """The inverse of `to_json`.

        Raises:
            KeyError: A field is missing.
        """
        return cls(**{name: data[name] for name in cls.__dataclass_fields__})


def take_snapshot() -> Snapshot:
    """Read the counters now."""
    import psutil

    times, children = psutil.cpu_times(), os.times()
    busy = times.user + times.system + getattr(times, "nice", 0.0)
    busy += getattr(times, "irq", 0.0) + getattr(times, "softirq", 0.0)
    return Snapshot(
        at_seconds=time.monotonic(),
        own_seconds=time.process_time() + children.children_user + children.children_system,
        busy_seconds=busy,
        steal_seconds=getattr(times, "steal", None),
        involuntary_switches=_count_involuntary_switches(),
        load_average=os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    )


def describe_activity(before: Snapshot, after: Snapshot, cores: int | None) -> Activity:
    """What happened between two snapshots of one process on a machine with `cores` logical cores."""
    seconds = after.at_seconds - before.at_seconds
    other = steal = None
    if before.busy_seconds is not None and after.busy_seconds is not None:
        others = after.busy_seconds - before.busy_seconds - (after.own_seconds - before.own_seconds)
        other = max(0.0, others - _TICKS_SECONDS) / seconds
    if before.steal_seconds is not None and after.steal_seconds is not None and cores:
        steal = (after.steal_seconds - before.steal_seconds) / (seconds * cores)
    switches = None
    if before.involuntary_switches is not None and after.involuntary_switches is not None:
        switches = after.involuntary_switches - before.involuntary_switches
    return Activity(seconds, other, steal, switches, before.load_average, after.load_average)


def find_disturbances(activity: Activity, cores: int | None) -> tuple[MeasurementWarning, ...]:
    """The warnings that an activity gives rise to."""
    found = []
    of_cores = f" of {cores}" if cores else ""
    if activity.other_cores is not None and activity.other_cores > _OTHER_CORES:
        text = f"other programs kept {activity.other_cores:.1f}{of_cores} cores busy meanwhile"
        found.append(MeasurementWarning("other-load", text))
    if activity.steal_share is not None and activity.steal_share > _STEAL_SHARE:
        text = f"the hypervisor gave {100 * activity.steal_share:.1f} % of the CPU time to other machines"
        found.append(MeasurementWarning("steal", text))
    switches = activity.involuntary_switches
    if switches is not None and switches > _SWITCHES_PER_SECOND * activity.seconds and switches > _SWITCHES_PER_SECOND:
        text = f"the scheduler took a core away {switches:,} times in {activity.seconds:.1f} s"
        found.append(MeasurementWarning("involuntary-switches", text))
    return tuple(found)


def _count_involuntary_switches() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
