"""What each of OpenVINO's nodes took, brought back to the operators that it was made of."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from edgex.errors import RunError
from edgex.runtime.engines.trace.operators import Category, Confidence, OperatorRow
from edgex.runtime.engines.trace.source_map import SourceMap, read_source_map
from edgex.runtime.engines.trace.tracing import WARMUP_RUNS, EngineTrace, TracePlan

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import Artifact
    from edgex.runtime.engines.openvino.session import OpenVinoRunner
    from edgex.runtime.session.session import Session

_LAYOUT = ("Reorder", "Transpose", "Reshape")
_ORIGINAL, _ORDER = "originalLayersNames", "execOrder"
_RESOLUTION_SECONDS = 1e-6
_NUMBERS = re.compile(r"(?:\.\d+)+$")


def trace_openvino(artifact: Artifact, session: Session, runner: OpenVinoRunner, plan: TracePlan) -> EngineTrace:
    """Run with counters on; they are those of the last run, so they are read after each.

    Raises:
        RunError: OpenVINO failed, or counted nothing.
    """
    sources = read_source_map(artifact, plan.shapes)
    whole: list[float] = []
    taken: dict[str, list[float]] = {}
    kinds: dict[str, tuple[str, str]] = {}
    for number in range(WARMUP_RUNS + plan.sequences):
        session.reset()
        for arrays in plan.steps:
            started = time.perf_counter()
            session.run(*arrays)
            seconds = time.perf_counter() - started
            if number < WARMUP_RUNS:
                continue
            whole.append(seconds)
            for counter in runner.counters:
                if str(counter.status).endswith("EXECUTED"):
                    kinds[counter.node_name] = counter.node_type, counter.exec_type
                    taken.setdefault(counter.node_name, []).append(counter.real_time.total_seconds())
    session.reset()
    if not taken:
        raise RunError("OpenVINO counted no operator", artifact.path.name)
    origins = _read_origins(runner.compiled)
    order = sorted(taken, key=lambda name: origins.get(name, (0, ()))[0])
    rows = [_row(name, kinds[name], taken[name], origins.get(name, (0, ()))[1], sources) for name in order]
    execute = median(whole)
    inside = sum(median(times) for times in taken.values())
    rows.append(OperatorRow.between_operators("OpenVINO", len(rows), max(0.0, execute - inside)))
    coverage = min(1.0, inside / max(execute, 1e-12))
    return EngineTrace(tuple(rows), len(whole), execute, _RESOLUTION_SECONDS, coverage)


def _read_origins(compiled: Any) -> Mapping[str, tuple[int, tuple[str, ...]]]:
    """Node of the compiled model -> when it runs, and the names of the ONNX nodes that it was made of."""
    found = {}
    for operation in compiled.get_runtime_model().get_ordered_ops():
        info = operation.get_rt_info()
        names = str(info[_ORIGINAL].value) if _ORIGINAL in info else ""
        order = int(info[_ORDER].value) if _ORDER in info else 0
        found[operation.get_friendly_name()] = order, tuple(name for name in names.split(",") if name)
    return found


def _row(
    name: str, kind: tuple[str, str], seconds: Sequence[float], origins: tuple[str, ...], sources: SourceMap
) -> OperatorRow:
    node_type, implementation = kind
    known = _find_operators(origins, name, sources)
    middle = median(seconds)
    category: Category = "compute" if known and node_type not in _LAYOUT else "layout"
    if node_type == "Convert":
        category = "cast"
    # The type that it really ran in is part of the implementation's name: brgconv_avx512_f32.
    op_type = f"{node_type} ({implementation})"
    took = middle if middle >= _RESOLUTION_SECONDS else None
    confidence: Confidence = "exact" if known else "none"
    return sources.group(known).row(name, op_type, "OpenVINO", category, confidence, took)


def _find_operators(origins: Sequence[str], name: str, sources: SourceMap) -> list[str]:
    """Ids of the source map behind a node: it keeps ONNX names, but for the last one's, which is its output's.

    Where one ONNX node becomes several, the later ones have its output's name with numbers behind: `output_1.0.0`.
    """
    by_output = {output: key for key, operator in sources.operators.items() for output in operator.outputs}
    found: dict[str, None] = {}
    for origin in origins or (name.partition("/")[0],):
        for candidate in (origin, _NUMBERS.sub("", origin)):
            key = candidate if candidate in sources.operators else by_output.get(candidate)
            if key is not None:
                found.setdefault(key)
                break
    return list(found)
