"""Tasks in processes of this machine: exports beside each other, as cores and memory allow, measurements alone.

```
exports          up to `workers` at a time            hold the machine's lock together with other exports
measurements     one, while no export runs            hold it alone
  on a device    one a device, beside anything else   hold that device's lock
```

The locks are files of the user's cache, so that two sweeps of one user do not measure each other.
"""

from __future__ import annotations

import platform
import queue
import re
import threading
from collections import deque

from edgex.errors import EdgexError
from edgex.export.sweep.measuring import describe_failure
from edgex.export.sweep.plan import Limits
from edgex.export.sweep.task import Ended, ExportTask, MeasureTask, Task
from edgex.runtime.measure.results.row import HERE
from edgex.runtime.support.cache import user_cache
from edgex.runtime.support.disk.locks import Lock
from edgex.runtime.support.process.child import Child, ChildEnded

_EXPORTER, _MEASURER = "edgex.export.sweep.worker:Worker", "edgex.export.sweep.measuring:answer"

# So many artifacts wait before exports make room for their measurement: each change of turns leaves cores idle for a
# while.
_MEASUREMENTS_IN_A_ROW = 16
# Exports share the cores: the threads of one that wait must not spin in the way of another's.
_SHARING = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}
# An exporter sees to the limits itself, and is ended only where it does not.
_GRACE_SECONDS = 60.0


def choose_workers(limits: Limits) -> int:
    """As many exports at a time as there are cores, and as half of the memory that is free now has room for."""
    import psutil

    from edgex.runtime.support.machine.host import read_host

    cores = read_host().usable_cores or 1
    room = psutil.virtual_memory().available // limits.memory_bytes
    return max(1, min(cores, room))


class LocalExecutor:
    """See `edgex.export.sweep.task.TaskExecutor`. To be used in the main thread, which starts all processes."""

    def __init__(self, workers: int) -> None:
        """Start nothing yet.

        Args:
            workers: Exports at a time.
        """
        self._workers = workers
        self._exports: deque[ExportTask] = deque()
        self._measurements: dict[str, deque[MeasureTask]] = {}
        self._busy: dict[str, int] = {}  # by what they hold: `exports`, or a device
        self._idle: list[Child] = []
        self._children: set[Child] = set()
        self._ended: queue.SimpleQueue[tuple[str, Child | None, Ended]] = queue.SimpleQueue()
        self._measuring = False

    @property
    def running(self) -> int:
        """See `TaskExecutor`."""
        return sum(self._busy.values())

    def submit(self, task: Task) -> None:
        """See `TaskExecutor`."""
        if isinstance(task, ExportTask):
            self._exports.append(task)
        else:
            self._measurements.setdefault(task.device, deque()).append(task)

    def next(self) -> Ended:
        """See `TaskExecutor`."""
        self.begin()
        while True:
            try:
                # With a limit, so that Ctrl-C is heard on every system.
                holds, child, ended = self._ended.get(timeout=1.0)
            except queue.Empty:
                continue
            break
        self._busy[holds] -= 1
        if child is not None:
            if ended.ending == "lost" or holds != "exports":
                self._children.discard(child)
                child.kill()
            else:
                self._idle.append(child)
        return ended

    def begin(self) -> None:
        """See `TaskExecutor`."""
        for device, waiting in self._measurements.items():
            if device != HERE and waiting and not self._busy.get(device):
                self._start(waiting.popleft(), device)
        if self._busy.get(HERE):
            return
        waiting = self._measurements.get(HERE, deque())
        if not waiting:
            self._measuring = False
        elif not self._exports or sum(len(task.subjects) for task in waiting) >= _MEASUREMENTS_IN_A_ROW:
            self._measuring = True
        if self._measuring:
            if not self._busy.get("exports"):
                self._start(waiting.popleft(), HERE)
            return
        while self._exports and self._busy.get("exports", 0) < self._workers:
            self._start(self._exports.popleft(), "exports")

    def _start(self, task: Task, holds: str) -> None:
        child = self._idle.pop() if holds == "exports" and self._idle else None
        if child is None:
            child = start_exporter() if isinstance(task, ExportTask) else start_measurer()
            self._children.add(child)
        self._busy[holds] = self._busy.get(holds, 0) + 1
        lock = _lock_for(holds)
        thread = threading.Thread(target=self._see_to, args=(task, holds, child, lock), name=task.label, daemon=True)
        thread.start()

    def _see_to(self, task: Task, holds: str, child: Child, lock: Lock) -> None:
        """In a thread: wait for one task, and say how it ended."""
        with lock:
            ended = ask(child, task)
        self._ended.put((holds, child, ended))

    def close(self) -> None:
        """See `TaskExecutor`."""
        children, self._children, self._idle = self._children, set(), []
        for child in children:
            child.kill()


def start_exporter() -> Child:
    """A process that exports, one task after the other."""
    return Child(_EXPORTER, "the process that exports", _SHARING)


def start_measurer() -> Child:
    """A process that measures."""
    return Child(_MEASURER, "the process that measures")


def ask(child: Child, task: Task) -> Ended:
    """Have a process do a task; whatever happens to it is an ending.

    Args:
        child: An exporter or a measurer, as the task needs.
        task: What to do.
    """
    if isinstance(task, MeasureTask):
        return _ask_measurer(child, task)
    try:
        found = child.ask(task.to_json(), timeout_seconds=task.limits.seconds + _GRACE_SECONDS)
    except (EdgexError, OSError, ValueError) as error:
        return _lost(task, error)
    return Ended(task, **found)


def _ask_measurer(child: Child, task: MeasureTask) -> Ended:
    try:
        found = child.ask(task.to_json(), timeout_seconds=task.seconds)
    except ChildEnded as error:
        if error.timed_out:
            reason = f"stopped after {task.seconds:g} s, the limit for one task"
            return Ended(task, "timeout", {}, platform.node(), reason, exit_code=124)
        return _lost(task, error)
    except EdgexError as error:  # the device itself, for example
        each = describe_failure(error)
        return Ended(task, "done", {subject.job: each for subject in task.subjects}, platform.node())
    except (OSError, ValueError) as error:  # ended by `close`
        return _lost(task, error)
    return Ended(task, "done", found, platform.node())


def _lost(task: Task, error: Exception) -> Ended:
    why = getattr(error, "why", None) or ""
    what = getattr(error, "what", None) or str(error)
    return Ended(task, "lost", {}, platform.node(), what, why, exit_code=1)


def _lock_for(holds: str) -> Lock:
    if holds == "exports":
        return Lock(user_cache("locks", "machine"), shared=True)
    name = "machine" if holds == HERE else "device-" + re.sub(r"\W+", "-", holds)
    return Lock(user_cache("locks", name))
