"""Constants that several operators read, as layers have that are called more than once, parted for PT2E.

torchao's quantizers mark a weight with the operator that reads it, and pass over every further reader: of a layer that
runs twelve times they quantize the first call. A bias has another scale in each call, that of its input, so that one
engine's value cannot serve two.

```
before:  y = conv2d(x, w, b); z = conv2d(y, w, b)            # w, b: one attribute each, one node each
parted:  y = conv2d(x, w, b); z = conv2d(y, w_1, b_1)        # w_1: another node of the same attribute; b_1: a copy
joined:  y = conv2d(x, dq(q), b); z = conv2d(y, dq(q), b_1)  # q, its scale and zero point: one attribute each
```
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import torch
from torch.fx import GraphModule, Node

from edgex.delegates.graph.provenance import is_conversion
from edgex.export.quantization.graph_module import attribute_of

# Of each parted constant, the names of its readers and where they read it.
Parted: TypeAlias = Mapping[str, Sequence[tuple[str, int]]]

_BIAS = 2
_WITH_BIAS = ("aten.conv", "aten.linear")
# Between the name of a constant and the number of a node of its own, with the same numbers and with a copy.
_PART, _COPY = "_part_", "_copy_"


def part_constants(module: GraphModule) -> Parted:
    """Give each reader of a constant a node and an attribute of its own, and its own copy of a bias.

    torchao takes away the attribute that it folds, whoever else reads it.

    Args:
        module: From `open_program`; it is changed.
    """
    parted: dict[str, list[tuple[str, int]]] = {}
    for node in list(module.graph.find_nodes(op="get_attr")):
        name, value = str(node.target), attribute_of(module, str(node.target))
        if not isinstance(value, torch.Tensor) or not value.is_floating_point() or len(node.users) < 2:
            continue
        for number, user in enumerate(list(node.users)):
            if node not in user.args:  # in a list, or by its name: no weight
                continue
            at = user.args.index(node)
            parted.setdefault(name, []).append((user.name, at))
            if not number:
                continue
            is_bias = at == _BIAS and str(user.target).startswith(_WITH_BIAS)
            target = f"{name}{_COPY if is_bias else _PART}{number}"
            module.register_buffer(target, value.clone() if is_bias else value)
            with module.graph.inserting_after(node):
                own = module.graph.get_attr(target)
            own.meta = dict(node.meta)
            user.replace_input_with(node, own)
    module.recompile()
    return parted


def join_constants(module: GraphModule, parted: Parted) -> None:
    """Let readers of one constant that were converted alike, or not at all, read one attribute again.

    Args:
        module: A converted one; it is changed.
        parted: From `part_constants`.
    """
    by_name = {node.name: node for node in module.graph.nodes}
    for readers in parted.values():
        first: list[Node] | None = None
        for name, at in readers:
            found = _converted(by_name.get(name), at)
            if found is None:
                continue
            if first is None:
                first = found
            elif _are_equal(module, first, found):
                for one, other in zip(first, found, strict=True):
                    other.target = one.target
    for node in module.graph.find_nodes(op="get_attr"):
        name, part, _ = str(node.target).partition(_PART)
        if part and name in parted:
            if not hasattr(module, name):
                module.register_buffer(name, attribute_of(module, str(node.target)))
            node.target = name
    module.recompile()


def _converted(user: Node | None, at: int) -> list[Node] | None:
    """The attributes of the dequantize operator that a reader reads: bytes, scales, zero points."""
    value = user.args[at] if user is not None and at < len(user.args) else None
    if not isinstance(value, Node) or not is_conversion(str(value.target)):
        return None
    return [node for node in value.all_input_nodes if node.op == "get_attr"]


def _are_equal(module: GraphModule, first: Sequence[Node], found: Sequence[Node]) -> bool:
    values = [[attribute_of(module, str(node.target)) for node in nodes] for nodes in (first, found)]
    return len(first) == len(found) and all(
        one.dtype == other.dtype and one.shape == other.shape and bool(torch.equal(one, other))
        for one, other in zip(*values, strict=True)
    )
