"""Tasks on a Ray cluster: an export asks for a core and its memory, a measurement for all cores of one node.

Ray says where; on the node, a process of this project does the task with the same limits as on one machine
(`edgex.export.sweep.local`), so a crash or a limit is an answer there too. What Ray itself loses, with a node that went
away, is begun again as if its process had died.

Nodes see the same folders (a shared file system), or artifacts go to a URL (`--artifacts s3://…`).
"""

from __future__ import annotations

import atexit
import os
from collections import deque
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from edgex.errors import RunError, TargetUnavailable
from edgex.export.sweep.local import ask, start_exporter, start_measurer
from edgex.export.sweep.task import Ended, ExportTask, MeasureTask, Task
from edgex.runtime.measure.results.row import HERE
from edgex.runtime.support.process.child import Child

# Ray asks for nothing and sends nothing home; its own variables, read when it is imported and started.
_SILENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_USAGE_STATS_PROMPT_ENABLED": "0"}
_LOOK_SECONDS = 1.0


class RayExecutor:
    """See `edgex.export.sweep.task.TaskExecutor`."""

    def __init__(self, address: str | None) -> None:
        """Connect, or start a cluster of this machine alone.

        Args:
            address: Of the cluster; None is the one that Ray finds.

        Raises:
            TargetUnavailable: Ray is not installed.
            RunError: The cluster cannot be reached.
        """
        os.environ.update(_SILENT)
        try:
            import ray
        except ImportError as error:
            raise TargetUnavailable(
                "--executor ray needs Ray", fix="pip install 'edgex-toolchain[ray]'", why=str(error)
            ) from error
        self._ray = ray
        self._owns = not ray.is_initialized()
        if self._owns:
            try:
                ray.init(address=address, include_dashboard=False, log_to_driver=False, configure_logging=False)
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise RunError(
                    f"the Ray cluster {address or ''} cannot be reached".replace("  ", " "),
                    fix="ray start --head starts one; --address names it; without --executor ray no cluster is needed",
                    why=str(error).splitlines()[0] if str(error) else None,
                ) from error
        self._perform = ray.remote(max_retries=0, num_returns=1)(perform)
        self._tasks: dict[Any, Task] = {}
        self._waiting: dict[str, deque[MeasureTask]] = {}
        self._busy: set[str] = set()
        self._turn = 0

    @property
    def running(self) -> int:
        """See `TaskExecutor`; those that Ray keeps waiting are among them."""
        return len(self._tasks)

    def submit(self, task: Task) -> None:
        """See `TaskExecutor`."""
        if isinstance(task, ExportTask):
            self._begin(task, {"num_cpus": 1, "memory": task.limits.memory_bytes})
            return
        if task.device == HERE:
            self._begin(task, self._whole_node())
            return
        # One at a time for each device; where a node announces it as a resource, on that node.
        self._waiting.setdefault(task.device, deque()).append(task)
        self._begin_on_devices()

    def _whole_node(self) -> dict[str, Any]:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        node, cores = choose_node(self._ray.nodes(), self._turn)
        self._turn += 1
        return {"num_cpus": cores, "scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False)}

    def _begin_on_devices(self) -> None:
        known = self._ray.cluster_resources()
        for device, waiting in self._waiting.items():
            if waiting and device not in self._busy:
                self._busy.add(device)
                resources = {device: 1} if device in known else {}
                self._begin(waiting.popleft(), {"num_cpus": 0, "resources": resources})

    def _begin(self, task: Task, options: Mapping[str, Any]) -> None:
        kind = "export" if isinstance(task, ExportTask) else "measure"
        self._tasks[self._perform.options(**options).remote(kind, task.to_json())] = task

    def begin(self) -> None:
        """See `TaskExecutor`: Ray begins tasks by itself."""

    def next(self) -> Ended:
        """See `TaskExecutor`."""
        ready: list[Any] = []
        while not ready:
            ready, _ = self._ray.wait(list(self._tasks), num_returns=1, timeout=_LOOK_SECONDS)
        task = self._tasks.pop(ready[0])
        if isinstance(task, MeasureTask) and task.device in self._busy:
            self._busy.discard(task.device)
            self._begin_on_devices()
        try:
            return Ended(task, **self._ray.get(ready[0]))
        except self._ray.exceptions.OutOfMemoryError:
            return Ended(task, "memory", {}, "", "Ray ended it because its node ran out of memory", exit_code=137)
        except self._ray.exceptions.RayError as error:
            first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            return Ended(task, "lost", {}, "", f"the cluster lost it: {first}", exit_code=1)

    def close(self) -> None:
        """See `TaskExecutor`."""
        for reference in self._tasks:
            self._ray.cancel(reference, force=True)
        self._tasks.clear()
        if self._owns:
            self._ray.shutdown()
            self._owns = False


def choose_node(nodes: Sequence[Mapping[str, Any]], turn: int) -> tuple[str, float]:
    """A living node with cores, one after the other.

    Args:
        nodes: As `ray.nodes()` lists them.
        turn: How many were chosen before.

    Returns:
        Its name, and how many cores it has.

    Raises:
        RunError: There is none.
    """
    found = sorted(
        (node["NodeID"], node["Resources"]["CPU"])
        for node in nodes
        if node["Alive"] and node["Resources"].get("CPU", 0) >= 1
    )
    if not found:
        raise RunError("no node of the Ray cluster has a core", fix="ray status lists the nodes")
    return found[turn % len(found)]


def perform(kind: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """On a node, in a process of Ray's: do a task.

    Args:
        kind: `export` or `measure`.
        request: The task as JSON.
    """
    if kind == "export":
        ended = ask(_exporter(), ExportTask.from_json(request))
        if ended.ending == "lost":
            _exporter.cache_clear()
    else:
        with start_measurer() as child:
            ended = ask(child, MeasureTask.from_json(request))
    document = {name: value for name, value in vars(ended).items() if name != "task"}
    return {**document, "answer": dict(document["answer"])}


@cache
def _exporter() -> Child:
    """The exporter of this process of Ray's, which does one task after the other."""
    child = start_exporter()
    atexit.register(child.kill)
    return child
