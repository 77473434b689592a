"""Operators of an ExecuTorch run: events of the runtime and of its backends, joined to the program's operators."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgex.errors import RunError
from edgex.runtime.profile.etdump import TracedRun, TraceEvent, read_etdump, same_runs
from edgex.runtime.profile.operators import ArenaSpan, Category, Confidence, OperatorRow
from edgex.runtime.profile.source_map import SourceMap, read_source_map
from edgex.runtime.profile.tracing import WARMUP_RUNS, EngineTrace, TracePlan, run_sequences
from edgex.runtime.profile.xnnpack_events import event_type, match_events

if TYPE_CHECKING:
    from edgex.runtime.artifact import Artifact
    from edgex.runtime.session import Session

_EXECUTE, _DELEGATE, _OPERATOR, _KERNEL = "Method::execute", "DELEGATE_CALL", "OPERATOR_CALL", "native_call_"
# The file grows by about 70 bytes an event; more events say nothing new.
_MAX_EVENTS = 400_000
_COARSE_NS = 1000

_Columns = np.ndarray[Any, np.dtype[np.int64]]


def trace_executorch(artifact: Artifact, open_traced: Callable[[], Session], plan: TracePlan) -> EngineTrace:
    """Run with events recorded and read them.

    Args:
        artifact: The artifact, for its source map.
        open_traced: Opens a session of it with the option `trace`.
        plan: What to run.

    Raises:
        RunError: The engine failed, or the trace is damaged.
    """
    with tempfile.TemporaryDirectory(prefix="edgex-trace-") as folder, open_traced() as session:
        file = Path(folder) / "trace.etdp"
        runner: Any = session.runner
        run_sequences(session, plan, -(-WARMUP_RUNS // len(plan.steps)))
        # Writing starts a new trace. The first one tells how many events a run has.
        runner.write_trace(file)
        events = max((len(run.events) for run in read_etdump(file)), default=1)
        most = max(1, _MAX_EVENTS // (events * len(plan.steps)))
        run_sequences(session, plan, min(plan.sequences, most))
        runner.write_trace(file)
        runs = read_etdump(file)
    return read_trace(runs, read_source_map(artifact, plan.shapes))


def read_trace(runs: Sequence[TracedRun], sources: SourceMap) -> EngineTrace:
    """Rows of the runs of one method.

    Raises:
        RunError: No run is in the trace.
    """
    alike = same_runs([run for run in runs if any(event.name == _EXECUTE for event in run.events)])
    if not alike:
        raise RunError("the trace holds no run", fix="trace it again")
    leaves = _Leaves(alike[0].events, np.stack([run.nanoseconds for run in alike]))
    by_call = [(call.event.instruction, _rows_of_call(call, sources)) for call in leaves.calls]
    rows = [row for _, mine in by_call for row in mine]
    places = [instruction for instruction, mine in by_call for _ in mine]
    inside = [leaf.nanoseconds for call in leaves.calls for leaf in call.inner]
    coarse = bool(inside) and all((column % _COARSE_NS == 0).all() for column in inside)
    overhead = leaves.whole - sum(call.nanoseconds for call in leaves.calls)
    rows += [*_delegate_overheads(leaves.calls, sources), _overhead_row("ExecuTorch", len(leaves.calls), overhead)]
    execute_us = float(np.median(leaves.whole)) / 1e3
    arena = _arena(sources, places)
    return EngineTrace(tuple(rows), len(alike), execute_us, 1.0 if coarse else 0.001, arena)


def _arena(sources: SourceMap, places: Sequence[int]) -> tuple[ArenaSpan, ...]:
    """The planned arena in terms of rows; `places` is each row's instruction."""
    spans = []
    for span in sources.arena:
        first = next((row for row, place in enumerate(places) if place >= span["first"]), len(places) - 1)
        last = max((row for row, place in enumerate(places) if place <= span["last"]), default=first)
        spans.append(ArenaSpan(span["name"], span["offset"], span["bytes"], first, max(first, last)))
    return tuple(spans) if places else ()


@dataclass
class _Leaf:
    """An operator inside a delegate: its times over the runs, calls of one run summed."""

    event: TraceEvent
    nanoseconds: _Columns
    count: int = 1


@dataclass
class _Call:
    """An instruction of the program: a kernel or a delegate with its operators."""

    event: TraceEvent
    nanoseconds: _Columns
    count: int = 1
    inner: list[_Leaf] = field(default_factory=list)

    @property
    def is_delegate(self) -> bool:
        return self.event.name == _DELEGATE


class _Leaves:
    """The events of a run as a tree: a parent's event comes after those of its parts."""

    def __init__(self, events: Sequence[TraceEvent], nanoseconds: _Columns) -> None:
        self.whole = np.zeros(len(nanoseconds), np.int64)
        found: dict[tuple[int, bool], _Call] = {}
        inner: list[tuple[TraceEvent, _Columns]] = []
        kernel_of: int | None = None
        for index, event in enumerate(events):
            times = nanoseconds[:, index]
            if event.in_delegate:
                inner.append((event, times))
            elif event.name == _DELEGATE:
                call = _add(found, event, times, delegate=True)
                for position, (inside, its_times) in enumerate(inner):
                    if position < len(call.inner):
                        call.inner[position].nanoseconds = call.inner[position].nanoseconds + its_times
                        call.inner[position].count += 1
                    else:
                        call.inner.append(_Leaf(inside, its_times))
                inner = []
            elif event.name.startswith(_KERNEL):
                _add(found, event, times, delegate=False)
                kernel_of = event.instruction
            elif event.name == _OPERATOR:
                # The same work as its kernel's event; kernels of some operators report none.
                if kernel_of != event.instruction:
                    _add(found, event, times, delegate=False)
                kernel_of = None
            elif event.name == _EXECUTE:
                self.whole = self.whole + times
        self.calls = list(found.values())


def _add(found: dict[tuple[int, bool], _Call], event: TraceEvent, times: _Columns, *, delegate: bool) -> _Call:
    key = (event.instruction, delegate)
    call = found.get(key)
    if call is None:
        call = found[key] = _Call(event, times)
    else:
        call.nanoseconds = call.nanoseconds + times
        call.count += 1
    return call


def _rows_of_call(call: _Call, sources: SourceMap) -> list[OperatorRow]:
    instruction = call.event.instruction
    if not call.is_delegate:
        names = sources.instructions.get(instruction, ())
        return [_kernel_row(call, names, sources)]
    backend = str(sources.delegates.get(instruction, {}).get("backend", "delegate"))
    if not call.inner:
        names = sources.of_region(instruction)
        confidence: Confidence = "exact" if len(names) == 1 else "delegate" if names else "none"
        name = f"{backend} {sources.delegates.get(instruction, {}).get('id', instruction)}"
        return [_row(name, backend, backend, "compute", call.nanoseconds, call.count, names, confidence, sources)]
    return _inner_rows(call, backend, sources)


def _kernel_row(call: _Call, names: Sequence[str], sources: SourceMap) -> OperatorRow:
    kernel = call.event.name.removeprefix(_KERNEL)
    operator = sources.operators[names[0]].op if names else None
    op_type = f"{operator.split('.')[0]}.{kernel}" if operator and kernel != _OPERATOR else operator or kernel
    category: Category = "cast" if operator is not None and _casts(names, sources) else "compute"
    confidence: Confidence = "exact" if names else "none"
    return _row(kernel, op_type, None, category, call.nanoseconds, call.count, names, confidence, sources)


def _casts(names: Sequence[str], sources: SourceMap) -> bool:
    """Whether an operator does nothing but convert to another dtype."""
    group = sources.group(names)
    converts = group.operators[0].split(".")[1] in ("_to_copy", "_to_dim_order_copy")
    return converts and {t.dtype for t in group.inputs} != {t.dtype for t in group.outputs}


def _inner_rows(call: _Call, backend: str, sources: SourceMap) -> list[OperatorRow]:
    """Rows of what a delegate reports: by the handles that it attached, else by aligning it with its graph."""
    instruction = call.event.instruction
    rows = []
    nodes: Sequence[Mapping[str, Any]] = sources.delegates.get(instruction, {}).get("nodes", ())
    matches = match_events([leaf.event.name for leaf in call.inner], nodes) if nodes else []
    for index, leaf in enumerate(call.inner):
        op_type = event_type(leaf.event.name)
        category: Category = _category(op_type)
        names = sources.by_handles(instruction, _handles(leaf.event.metadata))
        confidence: Confidence = "exact"
        inserted = False
        if not names and matches and matches[index][0].node is not None:
            match, indices = matches[index]
            inserted = bool(nodes[indices[0]]["inserted"])
            category = "layout" if inserted else category
            # What was fused is named too, but not what an inserted node beside it serves.
            ran = [at for at in indices if at == indices[0] or not nodes[at]["inserted"]]
            names = list(dict.fromkeys(name for at in ran for name in nodes[at]["ops"]))
            confidence = "exact" if match.only_choice else "aligned"
        if not names:
            names, confidence = sources.of_region(instruction), "delegate"
        row = _row(
            leaf.event.name, op_type, backend, category, leaf.nanoseconds, leaf.count, names, confidence, sources
        )
        rows.append(_of_neighbour(row) if inserted or confidence == "delegate" else row)
    return rows


def _category(op_type: str) -> Category:
    if op_type.startswith("Convert"):
        return "cast"
    return "layout" if op_type in ("reorder", "Reorder") else "compute"


def _of_neighbour(row: OperatorRow) -> OperatorRow:
    """The row without what describes its operators' own work: it only stands beside them, or is one of many."""
    several = row.map_confidence == "delegate"
    return OperatorRow(
        name=row.name,
        op_type=row.op_type,
        delegate=row.delegate,
        category=row.category,
        count=row.count,
        median_us=row.median_us,
        share=None,
        module_path=None if several else row.module_path,
        module_paths=row.module_paths,
        source=None if several else row.source,
        sources=row.sources,
        operators=(),
        map_confidence=row.map_confidence,
    )


def _handles(metadata: bytes) -> list[int]:
    """Debug handles that a delegate attached, for example `3,4,5`."""
    text = metadata.rstrip(b"\0").decode("ascii", errors="replace")
    return [int(part) for part in text.split(",") if part.isdigit()]


def _row(
    name: str,
    op_type: str,
    delegate: str | None,
    category: Category,
    nanoseconds: _Columns,
    count: int,
    names: Sequence[str],
    confidence: Confidence,
    sources: SourceMap,
) -> OperatorRow:
    group = sources.group(names)
    median = float(np.median(nanoseconds)) / 1e3
    return OperatorRow(
        name=name,
        op_type=op_type,
        delegate=delegate,
        category=category,
        count=count,
        median_us=median if median >= _resolution_us(nanoseconds) else None,
        share=None,
        module_path=next(iter(group.module_paths), None),
        module_paths=group.module_paths,
        source=next(iter(group.sources), None),
        sources=group.sources,
        operators=group.operators,
        map_confidence=confidence,
        inputs=group.inputs,
        outputs=group.outputs,
        flops=None if group.flops is None else group.flops * count,
        bytes=None if group.bytes is None else group.bytes * count,
    )


def _resolution_us(nanoseconds: _Columns) -> float:
    """XNNPACK counts whole microseconds, the runtime itself nanoseconds."""
    return _COARSE_NS / 1e3 if (nanoseconds % _COARSE_NS == 0).all() else 1e-3


def _delegate_overheads(calls: Sequence[_Call], sources: SourceMap) -> list[OperatorRow]:
    """For each backend the time of its calls that none of its operators took."""
    by_backend: dict[str, list[_Call]] = {}
    for call in calls:
        if call.inner:
            backend = str(sources.delegates.get(call.event.instruction, {}).get("backend", "delegate"))
            by_backend.setdefault(backend, []).append(call)
    rows = []
    for backend, mine in by_backend.items():
        left = sum(call.nanoseconds for call in mine) - sum(leaf.nanoseconds for call in mine for leaf in call.inner)
        rows.append(_overhead_row(backend, sum(call.count for call in mine), np.asarray(left)))
    return rows


def _overhead_row(who: str, count: int, nanoseconds: _Columns) -> OperatorRow:
    median = float(np.median(nanoseconds)) / 1e3
    return OperatorRow(
        name=f"{who}: between operators",
        op_type="overhead",
        delegate=who if who != "ExecuTorch" else None,
        category="overhead",
        count=count,
        median_us=median if median > 0 else None,
        share=None,
        module_path=None,
        module_paths=(),
        source=None,
        sources=(),
        operators=(),
        map_confidence="none",
    )
