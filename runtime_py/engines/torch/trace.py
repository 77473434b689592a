"""Operators of the reference: PyTorch's eager kernels, timed node by node of the exported graph.

The graph is interpreted instead of called, so that every node's time is known for certain. The interpreter's own time
is overhead, and no latency figure comes from these runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from edgex.runtime.engines.trace.operators import Category, OperatorRow
from edgex.runtime.engines.trace.source_map import SourceMap, read_source_map
from edgex.runtime.engines.trace.tracing import WARMUP_RUNS, EngineTrace, TracePlan, run_sequences

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import Artifact
    from edgex.runtime.session.session import Session

_MAX_NODES = 100_000
_CASTS = ("_to_copy", "to", "type_as")


class NodeTimer:
    """Runs a graph module as it would run itself, and notes how long each node took.

    Attributes:
        names: The nodes that were timed, in order.
        runs: Nanoseconds of each node, and at the end of the whole run, for each run.
    """

    def __init__(self, module: Any) -> None:
        import torch.fx

        timer = self
        self.names = [node.name for node in module.graph.nodes if node.op == "call_function"]
        self.runs: list[list[int]] = []

        class Interpreter(torch.fx.Interpreter):
            def run_node(self, n: Any) -> Any:
                if n.op != "call_function":
                    return super().run_node(n)
                started = time.perf_counter_ns()
                result = super().run_node(n)
                timer.runs[-1].append(time.perf_counter_ns() - started)
                return result

        self._interpreter = Interpreter(module)

    def __call__(self, *arguments: Any) -> Any:
        """Run once."""
        self.runs.append([])
        started = time.perf_counter_ns()
        result = self._interpreter.run(*arguments)
        self.runs[-1].append(time.perf_counter_ns() - started)
        return result


def trace_torch(
    artifact: Artifact, open_timed: Callable[[], tuple[Session, NodeTimer]], plan: TracePlan
) -> EngineTrace:
    """Run node by node.

    Args:
        artifact: The artifact, for its source map.
        open_timed: Opens a session of it whose runs a timer makes.
        plan: What to run.
    """
    session, timer = open_timed()
    with session:
        warmup = -(-WARMUP_RUNS // len(plan.steps))
        most = max(1, _MAX_NODES // max(1, len(timer.names) * len(plan.steps)))
        run_sequences(session, plan, warmup + min(plan.sequences, most))
    times = np.array(timer.runs[warmup * len(plan.steps) :], np.int64)
    return read_times(timer.names, times, read_source_map(artifact, plan.shapes))


def read_times(names: list[str], times: np.ndarray[Any, np.dtype[np.int64]], sources: SourceMap) -> EngineTrace:
    """Rows of the nodes that are operators.

    Args:
        names: Names of the nodes.
        times: Nanoseconds, `[runs][nodes + 1]`, the whole run last.
        sources: The artifact's source map.
    """
    whole = times[:, -1]
    rows = [_row(name, times[:, index], sources) for index, name in enumerate(names) if name in sources.operators]
    work = sum((times[:, index] for index, name in enumerate(names) if name in sources.operators), np.zeros_like(whole))
    left = float(np.median(whole - work)) / 1e9
    rows.append(OperatorRow.between_operators("PyTorch", len(rows), left))
    coverage = float(np.median(work / np.maximum(whole, 1)))
    return EngineTrace(tuple(rows), len(times), float(np.median(whole)) / 1e9, 1e-9, coverage)


def _row(name: str, nanoseconds: Any, sources: SourceMap) -> OperatorRow:
    operator = sources.operators[name].op
    category: Category = "cast" if operator.split(".")[1] in _CASTS else "compute"
    seconds = float(np.median(nanoseconds)) / 1e9
    return sources.group([name]).row(name, operator, None, category, "exact", seconds)
