"""Clusters of Ray on this machine: its own head and nodes, which say of themselves what resources they have."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

# A node of Ray starts two agents, for its dashboard and for environments of tasks, which no task here has: 150 MB and
# some seconds each, and a node gives up after 15. This says on which ports they would be, none, and lives as long.
STAND_IN_AGENT = """\
import os, sys, time
from pathlib import Path

given = dict(one[2:].split("=", 1) for one in sys.argv[1:] if one.startswith("--") and "=" in one)
if "runtime-env-agent-port" in given:
    names = ["runtime_env_agent_port"]
else:
    names = ["metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port"]
for name in names:
    path = Path(given["session-dir"]) / f"{name}_{given['node-id']}"
    path.with_suffix(".new").write_text("1")
    path.with_suffix(".new").rename(path)
parent = os.getppid()
while os.getppid() == parent:
    time.sleep(1.0)
"""


@contextmanager
def ray_cluster(monkeypatch: pytest.MonkeyPatch, folder: Path, nodes: int, **resources: float) -> Iterator[None]:
    """Connect to a cluster for the length of a block; nothing is sent home.

    Args:
        monkeypatch: Of the test.
        folder: Receives a file.
        nodes: How many, the head among them.
        resources: What each says it has: `num_cpus`, `memory` in bytes.
    """
    for name in ("RAY_USAGE_STATS_ENABLED", "RAY_USAGE_STATS_PROMPT_ENABLED", "RAY_enable_metrics_collection"):
        monkeypatch.setenv(name, "0")
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    from ray._private import services
    from ray.cluster_utils import Cluster

    agent = folder / "stand_in_agent.py"
    agent.write_text(STAND_IN_AGENT)
    real = services._build_python_executable_command_memory_profileable

    def build(component: str, *rest, **more):
        is_agent = "agent" in component
        return [sys.executable, "-S", "-E", str(agent)] if is_agent else real(component, *rest, **more)

    monkeypatch.setattr(services, "_build_python_executable_command_memory_profileable", build)
    cluster = Cluster()
    try:
        for _ in range(nodes):
            cluster.add_node(include_dashboard=False, object_store_memory=80 * 1024**2, **resources)
        ray.init(address=cluster.address, log_to_driver=False)
        yield
    finally:
        ray.shutdown()
        cluster.shutdown()
