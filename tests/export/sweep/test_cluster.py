"""Tasks on a Ray cluster: nodes in turn, and the same rows as local processes give, also where a worker is killed."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from dataclasses import asdict
from itertools import pairwise
from math import ceil
from pathlib import Path

import pytest
from ray_support import ray_cluster
from sweep_support import GOOD, MODELS, make_row

from edgex.errors import RunError
from edgex.export.sweep.cluster import RayExecutor, choose_node
from edgex.export.sweep.driver import Sweep, run_sweep
from edgex.export.sweep.local import LocalExecutor
from edgex.export.sweep.plan import GIB, Limits, PlannedModel, SweepPlan, name_models


def test_measurements_are_spread_over_a_simulated_cluster_of_100_nodes() -> None:
    nodes = [
        {"NodeID": f"{at:02x}", "Alive": at != 7, "Resources": {"CPU": 4.0 + at % 3} if at != 9 else {}}
        for at in range(100)
    ]
    taken = [choose_node(nodes, turn) for turn in range(980)]
    # A dead node and one without cores take nothing; the others ten each, all of their cores.
    assert set(Counter(name for name, _ in taken).values()) == {10} and len({name for name, _ in taken}) == 98
    assert all(cores == 4.0 + int(name, 16) % 3 for name, cores in taken)
    with pytest.raises(RunError, match="no node"):
        choose_node([{"NodeID": "a", "Alive": False, "Resources": {"CPU": 4.0}}], 0)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_two_nodes_give_the_rows_of_local_processes_also_with_a_worker_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = int(os.environ.get("EDGEX_SWEEP_MODELS", "100"))
    for number in range(count):
        (tmp_path / f"net{number:03}.py").write_text(GOOD.format(seed=number, width=8 + number))
    (tmp_path / "dies.py").write_text(MODELS["dies"])
    names = [*(f"net{number:03}.py" for number in range(count)), "dies.py"]
    limits = Limits(seconds=600.0, memory_bytes=2 * GIB)
    plan = SweepPlan(
        name_models(names), ("reference", "onnx-cpu"), measure=False, folder=tmp_path, limits=limits, executor="ray"
    )

    class Killing(RayExecutor):
        """Whatever exports after a third of the way is killed, with Ray's process around it."""

        ends = killed = 0

        def next(self):
            ended = super().next()
            self.ends += 1
            if self.ends == max(2, count // 3):
                self.killed += kill_a_worker()
            return ended

    with ray_cluster(monkeypatch, tmp_path, nodes=2, num_cpus=2, memory=16 * GIB):
        executor = Killing(None)
        found = run_sweep(plan, tmp_path / "ray", lambda _plan: executor)
    assert executor.killed == 1 and found.done == 2 * count + 2 and found.failed == 2
    local = run_sweep(plan, tmp_path / "local", lambda _plan: LocalExecutor(2))
    assert facts(found) == facts(local)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ray_itself_places_trivial_tasks_on_many_nodes_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real nodes of Ray with resources that they only say they have; exports and measurements do nothing but sleep."""
    nodes = int(os.environ.get("EDGEX_SWEEP_NODES", "100"))
    # A node is 25 MB, a task that runs a process of 80 MB: 100 nodes and 20 models are 5 GB.
    count = int(os.environ.get("EDGEX_SWEEP_MODELS", "20"))
    log = tmp_path / "log"
    log.mkdir()
    kinds = ("reference", "onnx-cpu")
    like = make_row("like")
    made, timing = asdict(like.made), asdict(like.timing)

    def sleep_instead_of_working(kind: str, request):
        import ray

        began, node = time.monotonic(), ray.get_runtime_context().get_node_id()
        time.sleep(0.3)
        (log / f"{os.getpid()}-{began}").write_text(f"{kind} {node} {began} {time.monotonic()}")
        found = {"status": "verified", "seconds": {}, "peak_rss_bytes": 1, "made": made, "failure": None}
        exported = dict.fromkeys(kinds, found) if kind == "export" else {}
        measured = {one["job"]: {"timing": timing} for one in request.get("subjects", ())}
        return {"ending": "done", "answer": {**exported, **measured}, "machine": node}

    class Cheap(RayExecutor):
        def __init__(self, address) -> None:
            super().__init__(address)
            self._perform = self._ray.remote(max_retries=0, num_returns=1)(sleep_instead_of_working)

    (tmp_path / "net.py").write_text("")
    models = tuple(PlannedModel("net.py", f"m{number}") for number in range(count))
    limits = Limits(memory_bytes=2 * GIB)
    plan = SweepPlan(models, kinds, folder=tmp_path, limits=limits, turns=True, executor="ray")
    # Two cores, and memory for one export: no second one has room beside it.
    with ray_cluster(monkeypatch, tmp_path, nodes=nodes, num_cpus=2, memory=3 * GIB):
        found = run_sweep(plan, tmp_path / "out", lambda _plan: Cheap(None))
    assert (found.done, found.failed, found.again) == (2 * count, 0, 0)

    spans: dict[str, list[tuple[float, float, str]]] = {}
    for path in log.iterdir():
        kind, node, began, ended = path.read_text().split()
        spans.setdefault(node, []).append((float(began), float(ended), kind))
    measured = Counter(node for node, found in spans.items() for *_, kind in found if kind == "measure")
    # One node after the other.
    assert len(measured) == min(nodes, count) and max(measured.values()) == ceil(count / nodes), measured
    for on_node in spans.values():
        on_node.sort()
        # Exports one by one for want of memory, and nothing beside a measurement, which has all cores.
        assert all(before[1] <= after[0] for before, after in pairwise(on_node)), on_node


def kill_a_worker() -> int:
    """Kill a process of Ray's in which an export runs."""
    import psutil

    for process in psutil.process_iter(["name", "cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if "edgex.export.sweep.worker" in line and process.parent() is not None:
            parent = process.parent()
            if parent is not None and "ray::" in " ".join(parent.cmdline()):
                os.kill(parent.pid, signal.SIGKILL)
                return 1
    return 0


def facts(sweep: Sweep):
    """What two runs of a plan must have in common."""
    return [
        (row.job, row.status, None if row.made is None else (row.made.total_ops, row.made.max_abs_error))
        for row in sweep.rows
    ]
