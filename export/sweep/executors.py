"""Who runs the tasks of a plan."""

from __future__ import annotations

from edgex.export.sweep.plan import SweepPlan
from edgex.export.sweep.task import TaskExecutor


def start_executor(plan: SweepPlan) -> TaskExecutor:
    """The executor of a plan.

    Raises:
        TargetUnavailable: Its package is not installed.
        RunError: It cannot be reached.
    """
    if plan.executor == "ray":
        from edgex.export.sweep.cluster import RayExecutor

        return RayExecutor(plan.address)
    from edgex.export.sweep.local import LocalExecutor, choose_workers

    return LocalExecutor(plan.workers or choose_workers(plan.limits))
