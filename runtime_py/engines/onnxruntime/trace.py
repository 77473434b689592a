"""Operators of an ONNX Runtime run: its profile, joined to the nodes of `model.onnx` and so to modules and lines.

ONNX Runtime runs a graph of its own making: nodes are fused, renamed (`relu_nchwc`) and put in (`ReorderOutput`). What
stays are the names of tensors. A node that makes a tensor of the exported graph does the work of all exported nodes
behind that tensor, back to tensors that other nodes make.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from edgex.errors import RunError
from edgex.runtime.engines.onnxruntime.nodes import OnnxNode, read_onnx_nodes
from edgex.runtime.engines.trace.operators import Category, OperatorRow, OperatorTensor
from edgex.runtime.engines.trace.source_map import SourceMap, count_bytes, read_source_map
from edgex.runtime.engines.trace.tracing import WARMUP_RUNS, EngineTrace, TracePlan, run_sequences
from edgex.runtime.support.disk.scratch import scratch_folder

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import Artifact
    from edgex.runtime.session.session import Session

# What a change of layout adds to the names of nodes and tensors.
_RENAMED = re.compile(r"_token_\d+$")
# The profile takes about 500 bytes of JSON an event.
_MAX_EVENTS = 60_000
_SUFFIX = "_kernel_time"
_LAYOUT = frozenset(("ReorderInput", "ReorderOutput"))
_CASTS = frozenset(("Cast", "InsertedPrecisionFreeCast"))
_CONTAINERS = frozenset(("If", "Loop", "Scan"))
_CONVOLUTIONS = {"Conv": 1, "FusedConv": 1, "ConvInteger": 1, "QLinearConv": 3, "NhwcFusedConv": 1}
_PRODUCTS = frozenset(
    "MatMul FusedMatMul Gemm FusedGemm MatMulInteger QLinearMatMul QGemm DynamicQuantizeMatMul "  # noqa: SIM905
    "MatMulIntegerToFloat MatMulNBits".split()
)
# Kernels that make bytes: they do what is exported as an operator, an activation and a QuantizeLinear.
_QUANTIZED = frozenset(("QLinearConv", "QLinearAdd", "QLinearMul", "QLinearConcat", "QLinearGlobalAveragePool"))
_ACTIVATIONS = ("aten.relu", "aten.hardtanh", "aten.clamp")
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
    finder = _NodeFinder(sources, optimized, list(places))
    placed: list[tuple[int, OperatorRow]] = []
    for name, indices in places.items():
        # Inserted nodes share one name; a node inside a loop runs several times.
        groups = [[index] for index in indices] if alike[0].events[indices[0]].op in _LAYOUT else [indices]
        for number, group in enumerate(groups):
            times = [sum(run.events[index].us for index in group) for run in alike]
            event = alike[0].events[group[0]]
            placed.append((group[0], _row(event, times, len(group), finder.find(name, number), sources)))
    rows = [row for _, row in sorted(placed, key=lambda item: item[0])]
    left = [run.us - sum(event.us for event in run.events) for run in alike]
    rows.append(_overhead_row(len(alike[0].events), left))
    coverage = median(1.0 - rest / max(run.us, 1) for run, rest in zip(alike, left, strict=True))
    return EngineTrace(tuple(rows), len(alike), float(median(run.us for run in alike)) / 1e6, 1e-6, max(0.0, coverage))


@dataclass(frozen=True)
class _Found:
    """Operators that a node does, main first; or, for one that was put in, the operator beside it."""

    operators: tuple[str, ...]
    beside: bool = False


class _NodeFinder:
    """From the name of a node that ran to operators of the source map."""

    def __init__(self, sources: SourceMap, optimized: Sequence[OnnxNode], ran: Sequence[str]) -> None:
        self._sources = sources
        self._makers = {value: name for name, item in sources.operators.items() for value in item.outputs}
        self._users: dict[str, list[str]] = {}
        for name, item in sources.operators.items():
            for value in item.inputs:
                self._users.setdefault(value, []).append(name)
        self._nodes: dict[str, list[OnnxNode]] = {}
        for node in optimized:
            self._nodes.setdefault(node.name or node.op_type, []).append(node)
        self._ends = {name: self._ends_of(name) for name in ran}
        made = {value for name in ran for end in self._ends[name] for value in sources.operators[end].outputs}
        self._made = made
        self._taken: dict[str, str] = {}

    def find(self, name: str, number: int) -> _Found:
        """What the node does; `number` counts those of the same name."""
        ends = self._ends[name]
        if ends:
            return _Found(tuple(self._behind(ends)))
        nodes = self._nodes.get(name, ())
        if number < len(nodes):
            beside = self._beside(nodes[number])
            if beside:
                return _Found((beside,), beside=True)
        return _Found(())

    def _ends_of(self, name: str) -> list[str]:
        """The exported nodes that make the tensors which this node makes."""
        nodes = self._nodes.get(name, ())
        if len(nodes) == 1 and nodes[0].op_type not in _LAYOUT:
            ends = [end for value in nodes[0].outputs if (end := self._maker(value)) is not None]
            if ends:
                return list(dict.fromkeys(ends))
        plain = _plain_name(name)
        if plain in self._sources.operators:
            return [self._requantized(plain) if nodes and nodes[0].op_type in _QUANTIZED else plain]
        maker = self._maker(name) if len(nodes) <= 1 else None
        return [] if maker is None or name in _LAYOUT else [maker]

    def _requantized(self, name: str) -> str:
        """The exported node that quantizes what this one makes, maybe behind an activation."""
        end = name
        while True:
            users = {user for value in self._sources.operators[end].outputs for user in self._users.get(value, ())}
            if len(users) != 1:
                return name
            (end,) = users
            kind = self._sources.operators[end].op
            if ".quantize_per_tensor" in kind:
                return end
            if not kind.startswith(_ACTIVATIONS):
                return name

    def _maker(self, value: str) -> str | None:
        """The exported node that makes a tensor, also under the name that a change of layout gave it."""
        for name in (value, _plain_name(value)):
            if name in self._makers:
                return self._makers[name]
        return None

    def _behind(self, ends: Sequence[str]) -> list[str]:
        """The exported nodes behind these, back to tensors that other nodes make; the one with the work first."""
        found: list[str] = []
        queue = list(ends)
        while queue:
            name = queue.pop(0)
            if name in found or self._taken.setdefault(name, ends[0]) != ends[0]:
                continue
            found.append(name)
            for value in self._sources.operators[name].inputs:
                if value in self._makers and value not in self._made:
                    queue.append(self._makers[value])
        return sorted(found, key=lambda name: _rank(self._sources.operators[name].op))

    def _beside(self, node: OnnxNode) -> str | None:
        makers = (self._maker(value) for value in (*node.outputs, *node.inputs))
        return next((maker for maker in makers if maker is not None), None)


def _plain_name(name: str) -> str:
    """The exported name in one that ONNX Runtime made of it."""
    plain = name.removeprefix("fused ").split("/")[0].removesuffix("_nchwc").removesuffix("_nhwc")
    return _RENAMED.sub("", plain)


def _is_heavy(operator: str) -> bool:
    parts = operator.split(".")
    base = parts[1] if len(parts) > 1 else parts[0]
    return base.startswith(("conv", "linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "scaled_dot_product"))


def _rank(operator: str) -> int:
    """Which of the operators that one node does names it: the lowest, and of equals the last."""
    if _is_heavy(operator):
        return 0
    return 3 if operator.startswith("quantized_decomposed.") else 2 if operator.startswith(_ACTIVATIONS) else 1


def _row(event: _Event, times: Sequence[int], count: int, found: _Found, sources: SourceMap) -> OperatorRow:
    group = sources.group(found.operators)
    category: Category = "layout" if event.op in _LAYOUT else "cast" if event.op in _CASTS else "compute"
    middle = float(median(times))
    inputs = event.inputs if found.beside else (*event.inputs, *_packed_weights(event, found, sources))
    flops = _count_flops(event, inputs, _kernel_shape(event, found, sources))
    return OperatorRow(
        name=event.name,
        op_type=event.op,
        delegate=event.provider,
        category=category,
        count=count,
        median_seconds=middle / 1e6 if middle >= 1.0 else None,
        share=None,
        module_path=next(iter(group.module_paths), None),
        module_paths=group.module_paths,
        source=next(iter(group.sources), None),
        sources=group.sources,
        operators=() if found.beside else group.operators,
        map_confidence="none" if not found.operators else "aligned" if found.beside else "exact",
        inputs=inputs,
        outputs=event.outputs,
        flops=None if flops is None else flops * count,
        bytes=count_bytes(_TABLES.get(event.op, event.op), inputs, event.outputs) * count if event.outputs else None,
    )


# ONNX's names for operators that read only a part of a tensor.
_TABLES = {"Gather": "gather", "GatherElements": "gather", "GatherND": "gather", "Slice": "slice", "Split": "split"}


def _packed_weights(event: _Event, found: _Found, sources: SourceMap) -> list[OperatorTensor]:
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


def _kernel_shape(event: _Event, found: _Found, sources: SourceMap) -> tuple[int, ...] | None:
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


def _overhead_row(count: int, left: Sequence[int]) -> OperatorRow:
    middle = float(median(left))
    return OperatorRow(
        name="ONNX Runtime: between operators",
        op_type="overhead",
        delegate=None,
        category="overhead",
        count=count,
        median_seconds=middle / 1e6 if middle >= 1.0 else None,
        share=None,
        module_path=None,
        module_paths=(),
        source=None,
        sources=(),
        operators=(),
        map_confidence="none",
    )
