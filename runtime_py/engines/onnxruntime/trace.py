"""Operators of an ONNX Runtime run: its profile, joined to the nodes of `model.onnx` and so to modules and lines.

`edgex.runtime.engines.onnxruntime.node_map` says which exported operators a node does, or serves.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from edgex.errors import RunError
from edgex.runtime.engines.onnxruntime.node_map import MOVERS, REORDERS, Found, NodeMap, count_nodes
from edgex.runtime.engines.onnxruntime.nodes import OnnxNode, read_onnx_nodes
from edgex.runtime.engines.trace.operators import Category, Confidence, OperatorRow, OperatorTensor
from edgex.runtime.engines.trace.source_map import SourceMap, count_bytes, read_source_map
from edgex.runtime.engines.trace.tracing import WARMUP_RUNS, EngineTrace, TracePlan, run_sequences
from edgex.runtime.support.disk.scratch import scratch_folder

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import Artifact
    from edgex.runtime.session.session import Session

# The profile takes about 500 bytes of JSON an event.
_MAX_EVENTS = 60_000
_SUFFIX = "_kernel_time"
_CASTS = frozenset(("Cast", "InsertedPrecisionFreeCast", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"))
_CONTAINERS = frozenset(("If", "Loop", "Scan"))
_CONVOLUTIONS = {"Conv": 1, "FusedConv": 1, "ConvInteger": 1, "QLinearConv": 3, "NhwcFusedConv": 1}
_PRODUCTS = frozenset(
    "MatMul FusedMatMul Gemm FusedGemm MatMulInteger QLinearMatMul QGemm DynamicQuantizeMatMul "  # noqa: SIM905
    "MatMulIntegerToFloat MatMulNBits".split()
)
_DTYPES = {"float": "float32", "double": "float64"}


@dataclass(frozen=True)
class OnnxProfile:
    """Where ONNX Runtime writes what it did: the profile's path begins with `prefix`; `graph` is what it runs."""

    prefix: Path
    graph: Path | None


@dataclass(frozen=True)
class _Event:
    name: str
    op: str
    us: int
    inputs: tuple[OperatorTensor, ...]
    outputs: tuple[OperatorTensor, ...]
    provider: str


@dataclass(frozen=True)
class _Run:
    us: int
    events: tuple[_Event, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(event.name for event in self.events)


def trace_onnx(artifact: Artifact, open_profiled: Callable[[OnnxProfile], Session], plan: TracePlan) -> EngineTrace:
    """Run with profiling on and read the profile.

    Args:
        artifact: The artifact, for its source map.
        open_profiled: Opens a session of it that writes a profile.
        plan: What to run.

    Raises:
        RunError: ONNX Runtime failed, or its profile is damaged.
    """
    sources = read_source_map(artifact, plan.shapes)
    nodes = max(1, len(sources.operators)) * len(plan.steps)
    # A model with weights apart may be too large to be written once more.
    small = not any(entry.path.endswith(".onnx.data") for entry in artifact.manifest.files)
    with scratch_folder("trace") as folder:
        profile = OnnxProfile(folder / "profile", folder / "optimized.onnx" if small else None)
        with open_profiled(profile) as session:
            runner: Any = session.runner
            warmup = -(-WARMUP_RUNS // len(plan.steps))
            run_sequences(session, plan, warmup + min(plan.sequences, max(1, _MAX_EVENTS // nodes)))
            file = runner.end_profile()
        try:
            events = json.loads(file.read_text(encoding="utf-8"))
            optimized = [] if profile.graph is None else read_onnx_nodes(profile.graph)
            runs = read_runs(events)[warmup * len(plan.steps) :]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError("ONNX Runtime's profile cannot be read", artifact.path.name, why=str(error)) from error
    return read_profile(runs, optimized, sources)


def read_runs(events: Sequence[Mapping[str, Any]]) -> list[_Run]:
    """The runs in a profile, each with its leaves in order.

    Raises:
        KeyError, TypeError, ValueError: The profile is not what it was.
    """
    runs: list[_Run] = []
    nodes: list[Mapping[str, Any]] = []
    for event in events:
        if event["name"] == "model_run":
            runs.append(_Run(int(event["dur"]), tuple(_read_event(node) for node in _leaves(nodes))))
            nodes = []
        elif event["cat"] == "Node" and event["name"].endswith(_SUFFIX):
            nodes.append(event)
    return runs


def _leaves(nodes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Without the nodes that only run a graph of other nodes."""
    return [
        node
        for node in nodes
        if node["args"].get("op_name") not in _CONTAINERS
        or not any(
            other is not node and node["ts"] <= other["ts"] and other["ts"] + other["dur"] <= node["ts"] + node["dur"]
            for other in nodes
        )
    ]


def _read_event(event: Mapping[str, Any]) -> _Event:
    arguments = event["args"]
    return _Event(
        event["name"].removesuffix(_SUFFIX),
        arguments["op_name"],
        int(event["dur"]),
        _tensors(arguments.get("input_type_shape", ())),
        _tensors(arguments.get("output_type_shape", ())),
        str(arguments.get("provider") or "ONNX Runtime"),
    )


def _tensors(described: Sequence[Mapping[str, Sequence[int]]]) -> tuple[OperatorTensor, ...]:
    return tuple(
        OperatorTensor(_DTYPES.get(dtype, dtype), tuple(shape)) for one in described for dtype, shape in one.items()
    )


def read_profile(runs: Sequence[_Run], optimized: Sequence[OnnxNode], sources: SourceMap) -> EngineTrace:
    """Rows of the runs that did what most of them did.

    Args:
        runs: Runs, warm ones.
        optimized: Nodes of the graph that ONNX Runtime ran; empty where it is not known.
        sources: The artifact's source map.

    Raises:
        RunError: There is no run.
    """
    by_names: dict[tuple[str, ...], list[_Run]] = {}
    for run in runs:
        by_names.setdefault(run.names, []).append(run)
    alike = max(by_names.values(), key=len, default=[])
    if not alike:
        raise RunError("the profile holds no run", fix="trace it again")
    places: dict[str, list[int]] = {}
    for index, name in enumerate(alike[0].names):
        places.setdefault(name, []).append(index)
    first = alike[0].events
    op_types = {name: first[indices[0]].op for name, indices in places.items()}
    counts = count_nodes(optimized, op_types, {name: len(indices) for name, indices in places.items()})
    nodes = NodeMap(sources, optimized, counts)
    placed: list[tuple[int, OperatorRow]] = []
    for name, indices in places.items():
        groups = [[index] for index in indices] if counts[name] == len(indices) else [indices]
        for number, group in enumerate(groups):
            times = [sum(run.events[index].us for index in group) for run in alike]
            found = nodes.find((name, number))
            placed.append((group[0], _row(first[group[0]], times, len(group), found, sources)))
    rows = [row for _, row in sorted(placed, key=lambda item: item[0])]
    left = [run.us - sum(event.us for event in run.events) for run in alike]
    middle = float(median(left))
    # The profiler counts microseconds.
    rows.append(OperatorRow.between_operators("ONNX Runtime", len(first), middle / 1e6 if middle >= 1.0 else 0.0))
    coverage = median(1.0 - rest / max(run.us, 1) for run, rest in zip(alike, left, strict=True))
    return EngineTrace(tuple(rows), len(alike), float(median(run.us for run in alike)) / 1e6, 1e-6, max(0.0, coverage))


def _row(event: _Event, times: Sequence[int], count: int, found: Found, sources: SourceMap) -> OperatorRow:
    put_in = event.op in REORDERS or (event.op in MOVERS and found.put_in)
    category: Category = "layout" if put_in else "cast" if event.op in _CASTS else "compute"
    middle = float(median(times))
    inputs = event.inputs if found.put_in else (*event.inputs, *_packed_weights(event, found, sources))
    flops = _count_flops(event, inputs, _kernel_shape(event, found, sources))
    confidence: Confidence = "none" if not found.operators else "aligned" if found.put_in else "exact"
    seconds = middle / 1e6 if middle >= 1.0 else None
    row = sources.group(found.operators).row(event.name, event.op, event.provider, category, confidence, seconds, count)
    return dataclasses.replace(
        row,
        operators=() if found.put_in else _aten_operators(found, sources),
        inputs=inputs,
        outputs=event.outputs,
        flops=None if flops is None else flops * count,
        bytes=count_bytes(_TABLES.get(event.op, event.op), inputs, event.outputs) * count if event.outputs else None,
    )


def _aten_operators(found: Found, sources: SourceMap) -> tuple[str, ...]:
    """The ATen operators that a node does; several ONNX nodes may have come of one."""
    members = (sources.operators[name] for name in found.operators)
    return tuple(op for op, *_ in dict.fromkeys((one.op, one.module, one.source) for one in members))


# ONNX's names for operators that read only a part of a tensor.
_TABLES = {"Gather": "gather", "GatherElements": "gather", "GatherND": "gather", "Slice": "slice", "Split": "split"}


def _packed_weights(event: _Event, found: Found, sources: SourceMap) -> list[OperatorTensor]:
    """Weights that ONNX Runtime repacked, which its profile does not list."""
    # The first is what the model computes; a weight may happen to have its shape.
    listed = [tensor.shape for tensor in event.inputs[1:]]
    weights = []
    for name in found.operators:
        for tensor in sources.constants_of(name):
            if tensor.shape in listed:
                listed.remove(tensor.shape)
            elif event.op not in _CONVOLUTIONS:
                weights.append(tensor)
    return weights


def _kernel_shape(event: _Event, found: Found, sources: SourceMap) -> tuple[int, ...] | None:
    """Shape of a convolution's weight, as the model has it: ONNX Runtime pads channels."""
    at = _CONVOLUTIONS.get(event.op)
    if at is None:
        return None
    exported = (tensor.shape for name in found.operators for tensor in sources.constants_of(name))
    own = next((shape for shape in exported if len(shape) > 2), None)
    return own or (event.inputs[at].shape if at < len(event.inputs) else None)


def _count_flops(event: _Event, inputs: Sequence[OperatorTensor], kernel: tuple[int, ...] | None) -> int | None:
    """Floating-point (or integer) operations, from the shapes that ran; None for operators that do little work."""
    if not event.outputs or not inputs:
        return None
    out = event.outputs[0].shape
    if event.op in _PRODUCTS and inputs[0].shape:
        return 2 * math.prod(out) * inputs[0].shape[-1]
    if kernel is not None:
        # Integer convolutions may have channels last.
        last = event.op == "QLinearConv" and out[1] != kernel[0]
        return 2 * out[0] * math.prod(out[1:-1] if last else out[2:]) * math.prod(kernel)
    if event.op == "ConvTranspose" and len(inputs) > 1:
        return 2 * math.prod(inputs[0].shape) * math.prod(inputs[1].shape[1:])
    return None
