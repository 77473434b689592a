"""Samples taken on this machine, in this process or in a child: what else it did meanwhile, and what is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from edgex.runtime.execute.base import Keep, Progress
from edgex.runtime.execute.events import Events
from edgex.runtime.execute.request import RunResult
from edgex.runtime.support.machine.activity import describe_activity, take_snapshot
from edgex.runtime.support.machine.host import read_host


def collect_samples(
    result: RunResult, sample: Callable[[Events], object], progress: Progress, keep: Keep, *, in_child: bool
) -> RunResult:
    """Take samples, and watch the machine meanwhile.

    Args:
        result: What is known so far.
        sample: Takes them, and tells events.
        progress: Told about each stage, with a detail.
        keep: Receives the rounds that were finished where the user interrupts.
        in_child: Whether another process takes them: this one's context switches say nothing then.
    """
    events, before = Events(progress), take_snapshot()

    def measured() -> RunResult:
        activity = describe_activity(before, take_snapshot(), read_host().logical_cores)
        activity = replace(activity, involuntary_switches=None) if in_child else activity
        return replace(result, activity=activity, **events.describe())

    try:
        sample(events)
    except KeyboardInterrupt:
        if events.rounds:
            keep(measured())
        raise
    return measured()
