"""Operators of an ExecuTorch run: events of the runtime and of its backends, joined to the program's operators."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from edgex.errors import RunError
from edgex.runtime.engines.executorch.trace.etdump import TracedRun, TraceEvent, read_etdump, same_runs
from edgex.runtime.engines.executorch.trace.handles import COPY, Identified, match_handles
from edgex.runtime.engines.executorch.trace.xnnpack_events import event_type, match_events
from edgex.runtime.engines.trace.operators import ArenaSpan, Category, Confidence, OperatorRow
from edgex.runtime.engines.trace.source_map import SourceMap, read_source_map
from edgex.runtime.engines.trace.tracing import WARMUP_RUNS, EngineTrace, TracePlan, run_sequences
from edgex.runtime.support.disk.scratch import scratch_folder

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import Artifact
    from edgex.runtime.session.session import Session

_EXECUTE, _DELEGATE, _OPERATOR, _KERNEL = "Method::execute", "DELEGATE_CALL", "OPERATOR_CALL", "native_call_"
# The file grows by about 70 bytes an event; more events say nothing new.
_MAX_EVENTS = 400_000
_COARSE_NS = 1000
_VIEW = "executorch_prim::et_view"
# Kernels on numbers instead of tensors: sizes of dynamic dimensions.
_SIZE_ARITHMETIC = ("aten.sym_", "executorch_prim.add", "executorch_prim.mul", "executorch_prim.sub",
                    "executorch_prim.floordiv", "executorch_prim.mod", "executorch_prim.truediv")  # fmt: skip

# Around the step of a loop: what it reads, what it writes, and whether it was the last.
_LOOP = ("select_copy.int_out", "copy_", "executorch_prim::et_copy_index.tensor", "executorch_prim::eq.Scalar")

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
    with scratch_folder("trace") as folder, open_traced() as session:
        file = folder / "trace.etdp"
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
    for call in leaves.calls:
        # A loop's step: what is in it takes less than backends can tell, hundreds of times. All steps are one operator.
        if call.is_delegate and call.count > 1 and len(sources.of_region(call.event.instruction)) == 1:
            call.inner, call.count = [], 1
    by_call = [(call.event.instruction, _rows_of_call(call, sources)) for call in leaves.calls]
    rows = [row for _, mine in by_call for row in mine]
    places = [instruction for instruction, mine in by_call for _ in mine]
    inside = [leaf.nanoseconds for call in leaves.calls for leaf in call.inner]
    coarse = bool(inside) and all((column % _COARSE_NS == 0).all() for column in inside)
    overhead = leaves.whole - sum(call.nanoseconds for call in leaves.calls)
    rows += [*_delegate_overheads(leaves.calls, sources), _overhead_row("ExecuTorch", len(leaves.calls), overhead)]
    execute_seconds = float(np.median(leaves.whole)) / 1e9
    # A delegate without events of its own is covered as a whole.
    uncovered = overhead + sum(_uncovered(call) for call in leaves.calls if call.inner)
    coverage = float(np.median(1.0 - uncovered / np.maximum(leaves.whole, 1)))
    resolution_seconds = _COARSE_NS / 1e9 if coarse else 1e-9
    arena = _arena(sources, places)
    coverage = min(1.0, max(0.0, coverage))
    return EngineTrace(tuple(rows), len(alike), execute_seconds, resolution_seconds, coverage, arena)


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
        return [_kernel_row(call, sources)]
    backend = str(sources.delegates.get(instruction, {}).get("backend", "delegate"))
    if not call.inner:
        names = [item.name for item in sources.of_region(instruction)]
        confidence: Confidence = "exact" if len(names) == 1 else "delegate" if names else "none"
        name = f"{backend} {sources.delegates.get(instruction, {}).get('id', instruction)}"
        row = _row(name, backend, backend, "compute", call.nanoseconds, call.count, names, confidence, sources)
        return [row]
    return _inner_rows(call, backend, sources)


def _kernel_row(call: _Call, sources: SourceMap) -> OperatorRow:
    names = sources.instructions.get(call.event.instruction, ())
    kernel = call.event.name.removeprefix(_KERNEL)
    if kernel == _OPERATOR:
        kernel = sources.kernels.get(call.event.instruction, kernel)
    operator = sources.operators[names[0]].op if names and names[0] in sources.operators else None
    op_type = kernel.replace("::", ".")
    if operator is not None and "::" not in kernel:
        op_type = f"{operator.split('.')[0]}.{kernel}"
    category: Category = "compute"
    if op_type.startswith(_SIZE_ARITHMETIC) or (operator is None and kernel in _LOOP):
        category = "overhead"
    elif operator is not None and _casts(names, sources):
        category = "cast"
    confidence: Confidence = "exact" if operator is not None else "none"
    row = _row(kernel, op_type, None, category, call.nanoseconds, call.count, names, confidence, sources)
    # A view moves nothing.
    return dataclasses.replace(row, bytes=None) if kernel.startswith(_VIEW) else row


def _casts(names: Sequence[str], sources: SourceMap) -> bool:
    """Whether an operator does nothing but convert to another dtype."""
    group = sources.group(names)
    converts = group.operators[0].split(".")[1] in ("_to_copy", "_to_dim_order_copy")
    return converts and {t.dtype for t in group.inputs} != {t.dtype for t in group.outputs}


def _inner_rows(call: _Call, backend: str, sources: SourceMap) -> list[OperatorRow]:
    """Rows of what a delegate reports: by the handles that it attached, else by aligning it with its graph."""
    region = sources.of_region(call.event.instruction)
    nodes = sources.delegates.get(call.event.instruction, {}).get("nodes", ())
    if any(leaf.event.metadata for leaf in call.inner):
        found = match_handles([leaf.event for leaf in call.inner], region)
    elif nodes:
        found = _by_alignment([leaf.event.name for leaf in call.inner], nodes)
    else:
        found = [Identified()] * len(call.inner)
    rows = []
    for leaf, one in zip(call.inner, found, strict=True):
        op_type = event_type(leaf.event.name)
        category: Category = "layout" if one.inserted or op_type == COPY else "compute"
        if op_type.startswith("Convert") or op_type in ("quantize", "dequantize"):
            category = "cast"
        names = one.names or tuple(item.name for item in region)
        confidence = one.confidence if one.names else "delegate" if region else "none"
        row = _row(
            leaf.event.name, op_type, backend, category, leaf.nanoseconds, leaf.count, names, confidence, sources
        )
        rows.append(row if one.names and one.own_work else _without_work(row))
    return rows


def _by_alignment(names: Sequence[str], nodes: Sequence[Mapping[str, Any]]) -> list[Identified]:
    found = []
    for match, indices in match_events(names, nodes):
        if match.node is None:
            found.append(Identified())
            continue
        inserted = bool(nodes[match.node]["inserted"])
        # What was fused is named too, but not what an inserted node beside it serves.
        ran = [at for at in indices if at == match.node or not nodes[at]["inserted"]]
        ops = tuple(dict.fromkeys(name for at in ran for name in nodes[at]["ops"]))
        found.append(Identified(ops, "exact" if match.only_choice else "aligned", not inserted, inserted))
    return found


def _without_work(row: OperatorRow) -> OperatorRow:
    """The row without its operators' sizes: it stands beside them, is one of many, or only a part of them."""
    several = row.map_confidence == "delegate"
    return dataclasses.replace(
        row,
        module_path=None if several else row.module_path,
        source=None if several else row.source,
        operators=() if several or row.category == "layout" else row.operators,
        inputs=(),
        outputs=(),
        flops=None,
        bytes=None,
    )


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
    median = float(np.median(nanoseconds)) / 1e9
    seconds = median if median >= _resolution_seconds(nanoseconds) else None
    return sources.group(names).row(name, op_type, delegate, category, confidence, seconds, count)


def _resolution_seconds(nanoseconds: _Columns) -> float:
    """XNNPACK counts whole microseconds, the runtime itself nanoseconds."""
    return _COARSE_NS / 1e9 if (nanoseconds % _COARSE_NS == 0).all() else 1e-9


def _delegate_overheads(calls: Sequence[_Call], sources: SourceMap) -> list[OperatorRow]:
    """The time of delegates' calls that none of their operators took, by the module and line of the whole region.

    A region that one line of one module made has them; regions of several share a row without.
    """
    groups: dict[tuple[str, str | None, str | None], list[_Call]] = {}
    for call in calls:
        if call.inner:
            backend = str(sources.delegates.get(call.event.instruction, {}).get("backend", "delegate"))
            region = sources.of_region(call.event.instruction)
            modules, places = {item.module for item in region}, {item.source for item in region}
            key = (
                backend,
                next(iter(modules)) if len(modules) == 1 else None,
                next(iter(places)) if len(places) == 1 else None,
            )
            groups.setdefault(key, []).append(call)
    rows = []
    for (backend, module, source), mine in groups.items():
        left = sum(_uncovered(call) for call in mine)
        count = sum(call.count for call in mine)
        rows.append(_overhead_row(backend, count, np.asarray(left), module, source))
    return rows


def _uncovered(call: _Call) -> _Columns:
    """Time of a delegate's call outside its operators."""
    inside: _Columns = call.nanoseconds - sum(leaf.nanoseconds for leaf in call.inner)
    return inside


def _overhead_row(
    who: str, count: int, nanoseconds: _Columns, module: str | None = None, source: str | None = None
) -> OperatorRow:
    row = OperatorRow.between_operators(who, count, float(np.median(nanoseconds)) / 1e9, module, source)
    return row if who == "ExecuTorch" else dataclasses.replace(row, delegate=who)
