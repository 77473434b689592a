"""Compute once what the program computes again from the same values.

Layers that each make the same mask, branches that each normalise the same input, filters that each transform it: ONNX
Runtime joins them when it loads a model, ExecuTorch runs every one.

```
before:  one = aten.fft_rfft.default(x); y = aten.mul.Tensor(one, p_first)
         two = aten.fft_rfft.default(x); z = aten.mul.Tensor(two, p_second)
after:   one = aten.fft_rfft.default(x); y = aten.mul.Tensor(one, p_first)
                                         z = aten.mul.Tensor(one, p_second)
```

Not joined: what draws random numbers, returns uninitialised memory or a size that only the run finds, or reads or is
memory that the program writes to, and an operator that is an output itself. Two masks, or two numbers to read, of
which each gives a size of its own stay two: where a program is traced anew, torch gives the sizes of one mask one
symbol, and refuses it for having two.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Mapping
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import content_of, operator_name, overload_of, schema_of
from edgex.export.rewrites.base import Rewrite, locations_of
from edgex.export.rewrites.editing.building import KEEPS_FLOAT
from edgex.export.rewrites.editing.editor import ProgramEditor, constant_tensors
from edgex.export.rewrites.editing.mutation import mutated_nodes
from edgex.export.rewrites.folding.constants import UNINITIALISED

_NAMESPACES = ("aten", "prims")

# Constants of forward's numbers: each `torch.tensor(0.5)` is one of its own.
_FEW = 16


def join_duplicates(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Join equal operators of equal arguments; the same program comes back where there are none."""
    graph = program.exported.graph
    mutated = mutated_nodes(program.exported)
    first: dict[Node, Node] = _equal_constants(constant_tensors(program))
    known: dict[Hashable, Node] = {}
    joined: list[Node] = []
    measured: set[Node] = set()  # what gives sizes once others are joined to it
    for node in graph.nodes:
        if node.op != "call_function" or not _can_join(node, mutated):
            continue
        # What recipes leave in floating point is not joined with what they quantize.
        key = (node.target, _key(node.args, first), _key(node.kwargs, first), node.meta.get(KEEPS_FLOAT, False))
        earlier = known.setdefault(key, node)
        if earlier is node or graph.output_node() in node.users:
            continue
        if _gives_sizes(node):
            if earlier in measured or _gives_sizes(earlier):
                continue
            measured.add(earlier)
        first[node] = earlier
        joined.append(node)
    if not joined:
        return program, None
    editor = ProgramEditor(program)
    for node in joined:
        editor.node(node).replace_all_uses_with(editor.node(first[node]))
    operators = [node for node in joined if node.target is not operator.getitem]
    detail = f"{len(operators)} operator(s) of the same arguments as an earlier one are not run again"
    where = locations_of(operators, program.source_root)
    return editor.finish(), Rewrite("join_duplicates", len(operators), detail, where)


def _equal_constants(constants: Mapping[Node, torch.Tensor]) -> dict[Node, Node]:
    """For each constant that an earlier one equals, that one: tied weights, and few numbers that are the same."""
    known: dict[Hashable, Node] = {}
    first: dict[Node, Node] = {}
    for node, tensor in constants.items():
        key: Hashable = id(tensor)
        plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided
        if plain and tensor.numel() <= _FEW and not tensor.is_conj() and not tensor.is_neg() and not tensor.is_meta:
            key = (tensor.dtype, tensor.shape, tensor.stride(), bytes(content_of(tensor).tolist()))
        earlier = known.setdefault(key, node)
        if earlier is not node:
            first[node] = earlier
    return first


def _can_join(node: Node, mutated: set[Node]) -> bool:
    if node in mutated or node.meta.get("unbacked_bindings") or any(arg in mutated for arg in node.all_input_nodes):
        return False
    if node.target is operator.getitem:
        return True
    overload = overload_of(node)
    if overload is None or overload.namespace not in _NAMESPACES or operator_name(node) in UNINITIALISED:
        return False
    schema = schema_of(overload)
    return bool(schema.returns) and not schema.is_mutable and torch.Tag.nondeterministic_seeded not in overload.tags


def _gives_sizes(node: Node) -> bool:
    """Whether a size that only the run finds is found from it."""
    return any(user.meta.get("unbacked_bindings") for user in node.users)


def _key(value: Any, first: Mapping[Node, Node]) -> Hashable:
    """An argument to compare by: numbers with their type and letters (1 is not True nor 1.0, and 0.0 is not -0.0)."""
    if isinstance(value, Node):
        return first.get(value, value)
    if isinstance(value, (list, tuple)):
        return tuple(_key(item, first) for item in value)
    if isinstance(value, dict):
        return tuple((name, _key(item, first)) for name, item in sorted(value.items()))
    return type(value), repr(value)
