"""A part of a program as a program of its own, with fixed sizes.

```
whole:  x -> linear -> gelu -> layer_norm -> linear_1 -> y
part:              linear -> gelu -> output_0             # `linear` is an input now: eager's value goes in
```

What the part reads of the steps before it are its inputs, what later steps read of it are its outputs. Weights are
shared. Sizes are those of one recorded run, as numbers: a dynamic dimension of the whole is none here.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.export import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Graph, Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.torch_internals import FakeTensorMode, pytree
from edgex.export.bisect.parts.recording import TensorForm
from edgex.export.bisect.parts.steps import Step, Whole, is_conversion_node
from edgex.export.rewrites.editing.editor import placeholders
from edgex.runtime.artifact.specs import NUMPY_DTYPES, TensorSpec

_ORDER = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


@dataclass(frozen=True)
class Part:
    """Some steps of a program, runnable alone.

    Attributes:
        steps: Which.
        program: They, as a program.
        reads: Names of the whole's nodes whose values are its inputs, in order.
        gives: Names of the whole's nodes whose values are its outputs, in order.
    """

    steps: tuple[Step, ...]
    program: CapturedProgram
    reads: tuple[str, ...]
    gives: tuple[str, ...]


def can_cut(whole: Whole, at: int, forms: Mapping[str, Any]) -> bool:
    """Whether all values that cross the gap before a step can be inputs and outputs of artifacts."""
    before = {node for step in whole.steps[:at] for node in step.nodes}
    crossing = _reads(whole, whole.steps[at:], forms)[0] & before
    return all(_crosses(forms.get(node.name)) for node in crossing)


def cut(whole: Whole, steps: Sequence[Step], forms: Mapping[str, Any]) -> Part:
    """Take some steps, that no other step stands between, out of a program.

    Args:
        whole: It is not changed; weights are shared.
        steps: Any unbroken stretch of its steps.
        forms: Of a recorded run.
    """
    return _Cutter(whole, steps, forms).part()


def _crosses(form: Any) -> bool:
    return isinstance(form, TensorForm) and form.text in NUMPY_DTYPES


def _is_number(node: Node, forms: Mapping[str, Any]) -> bool:
    return isinstance(forms.get(node.name), int | float | bool) and node.op == "call_function"


def _reads(whole: Whole, steps: Sequence[Step], forms: Mapping[str, Any]) -> tuple[set[Node], set[Node]]:
    """What a part takes from outside, and all nodes that are copied into it."""
    needed = {node for step in steps for node in step.nodes}
    inputs: set[Node] = set()
    stack = [read for node in needed for read in node.all_input_nodes]
    stack += [node for step in steps for given in step.nodes for node in _round_trip(whole, given)]
    while stack:
        node = stack.pop()
        if node in needed or node in inputs or _is_number(node, forms):
            continue
        if not whole.is_taken_along(node):
            inputs.add(node)
            continue
        needed.add(node)
        stack += node.all_input_nodes
    return inputs, needed


def _round_trip(whole: Whole, node: Node) -> tuple[Node, ...]:
    """`quantize` and `dequantize` behind a value that nobody else reads: what a delegate fuses into its operator."""
    if node in whole.results or not node.users:
        return ()
    readers = list(node.users)
    if not all(is_conversion_node(user) and ".quantize_per" in str(user.target) for user in readers):
        return ()
    back = next((user for user in readers[0].users if is_conversion_node(user)), None)
    return () if back is None else (readers[0], back)


class _Cutter:
    def __init__(self, whole: Whole, steps: Sequence[Step], forms: Mapping[str, Any]) -> None:
        self._whole, self._steps, self._forms = whole, tuple(steps), forms
        self._exported = whole.program.exported
        self._inputs, self._needed = _reads(whole, steps, forms)
        self._specs = dict(placeholders(self._exported))
        self._graph = Graph()
        self._copies: dict[Node, Any] = {}
        self._mode = FakeTensorMode(allow_non_fake_inputs=True)
        self._signature: list[InputSpec] = []

    def part(self) -> Part:
        order = list(self._exported.graph.nodes)
        weights = [n for n in order if n in self._needed and n.op == "placeholder"]
        for kind in _ORDER:
            for node in weights:
                if self._specs[node].kind == kind:
                    spec = self._specs[node]
                    self._place(node, replace(spec, arg=TensorArgument(node.name)))
        reads = [node for node in order if node in self._inputs]
        for node in reads:
            self._place(node, InputSpec(InputKind.USER_INPUT, TensorArgument(node.name), None))
        for node in order:
            if node in self._needed and node.op != "placeholder":
                self._copy(node)
        outputs = self._outputs()
        results = tuple(self._copies[_last(self._whole, node)] for node in outputs)
        self._graph.output(results)
        specs = [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None) for node in results]
        program = replace(
            self._whole.program,
            exported=self._export(ExportGraphSignature(self._signature, specs), len(reads), len(results)),
            inputs=tuple(self._spec(node.name, node) for node in reads),
            outputs=tuple(self._spec(f"output_{at}", _last(self._whole, n)) for at, n in enumerate(outputs)),
            state=(),
        )
        gives = tuple(_last(self._whole, node).name for node in outputs)
        return Part(self._steps, program, tuple(node.name for node in reads), gives)

    def _outputs(self) -> list[Node]:
        inside = {node for step in self._steps for node in step.nodes}
        found = []
        for node in (node for step in self._steps for node in step.nodes):
            if self._is_read_outside(node, inside) and isinstance(self._forms.get(node.name), TensorForm):
                found.append(node)
        return found

    def _is_read_outside(self, node: Node, inside: set[Node]) -> bool:
        """Whether a later step or the caller reads a value, or what a conversion makes of it."""
        if node in self._whole.results:
            return True
        return any(
            self._is_read_outside(user, inside) if is_conversion_node(user) else user not in inside
            for user in node.users
        )

    def _place(self, node: Node, spec: InputSpec) -> None:
        new = self._graph.placeholder(node.name)
        new.name = new.target = node.name
        is_input = spec.kind == InputKind.USER_INPUT
        new.meta["val"] = self._fake(self._forms[node.name], None if is_input else node.meta.get("val"), is_input)
        self._copies[node] = new
        self._signature.append(spec)

    def _copy(self, node: Node) -> None:
        new = self._graph.node_copy(node, self._value_of)
        new.name = node.name
        new.meta = {key: value for key, value in node.meta.items() if key != "unbacked_bindings"}
        if node.op != "get_attr":
            new.meta["val"] = self._fake(self._forms[node.name], node.meta.get("val"))
        self._copies[node] = new

    def _value_of(self, node: Node) -> Any:
        return self._copies[node] if node in self._copies else self._forms[node.name]

    def _fake(self, form: Any, traced: Any, contiguous: bool = False) -> Any:
        """A fake tensor of the recorded size; in memory as it was traced, where an eager kernel may order otherwise."""
        if isinstance(form, TensorForm):
            strides = form.strides
            if isinstance(traced, torch.Tensor) and all(
                type(size) is int for size in (*traced.shape, *traced.stride())
            ):
                strides = tuple(traced.stride()) if tuple(traced.shape) == form.shape else strides
            with self._mode:
                if contiguous:
                    return torch.empty(form.shape, dtype=form.dtype)
                return torch.empty_strided(form.shape, strides, dtype=form.dtype)
        if isinstance(form, tuple):
            parts = traced if isinstance(traced, list | tuple) and len(traced) == len(form) else [None] * len(form)
            return tuple(self._fake(part, was) for part, was in zip(form, parts, strict=True))
        return form

    def _spec(self, name: str, node: Node) -> TensorSpec:
        form = self._forms[node.name]
        return TensorSpec(name, form.text, form.shape)

    def _export(self, signature: ExportGraphSignature, inputs: int, outputs: int) -> ExportedProgram:
        exported = self._exported
        kept = {str(spec.target) for spec in self._signature if spec.target is not None}
        names = [spec.arg.name for spec in self._signature if spec.kind == InputKind.USER_INPUT]
        in_spec = pytree.tree_structure((tuple(range(inputs)), {}))
        call = ModuleCallSignature([], [], in_spec, pytree.tree_structure(tuple(range(outputs))), names)
        attributes = {
            str(node.target): operator.attrgetter(str(node.target))(exported.graph_module)
            for node in self._graph.find_nodes(op="get_attr")
        }
        return ExportedProgram(
            root=attributes,
            graph=self._graph,
            graph_signature=signature,
            state_dict={name: tensor for name, tensor in exported.state_dict.items() if name in kept},
            range_constraints={},
            module_call_graph=[ModuleCallEntry("", call)],
            example_inputs=None,
            constants={name: value for name, value in exported.constants.items() if name in kept},
            verifiers=exported.verifiers,
        )


def _last(whole: Whole, node: Node) -> Node:
    """The value that stands for a node's where the part ends: behind its conversions."""
    trip = _round_trip(whole, node)
    return trip[-1] if trip else node
