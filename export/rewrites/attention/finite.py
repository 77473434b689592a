"""Whether a mask of attention may leave a row without any key, told from how the program makes it."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch.fx import Node

from edgex.delegates.graph.schema import leaves_of, operator_name

# Sums of products: infinite only for inputs out of all proportion.
_SUMS = frozenset(
    f"aten::{name}"
    for name in (
        *("mm", "bmm", "matmul", "linear", "addmm", "baddbmm", "einsum", "conv1d", "conv2d", "convolution"),
        *("layer_norm", "softmax", "sigmoid", "tanh", "embedding"),
    )
)
# Their result is as finite as their operands.
_KEEPS = frozenset(
    f"aten::{name}"
    for name in (
        *("add", "sub", "mul", "neg", "reshape", "view", "_unsafe_view", "permute", "transpose", "expand", "slice"),
        *("unsqueeze", "squeeze", "select", "index", "gather", "cat", "clone", "contiguous", "detach", "alias", "pad"),
        *("flatten", "to", "_to_copy", "index_select", "roll", "repeat", "stack"),
    )
)


def may_be_infinite(mask: Node, constants: Mapping[Node, torch.Tensor]) -> bool:
    """Whether a value of floats may hold -inf on ordinary inputs; what is not known may."""
    seen: set[Node] = set()
    pending = [mask]
    while pending:
        node = pending.pop()
        if node in seen or not _is_float(node):
            continue
        seen.add(node)
        if node in constants:
            known = constants[node]
            # Without values (`why`) it is a trained one.
            if not hasattr(known, "fake_mode") and bool(torch.isinf(known).any()):
                return True
        elif operator_name(node) in _KEEPS:
            if any(isinstance(leaf, float) and math.isinf(leaf) for leaf in leaves_of(node.args)):
                return True
            pending += node.all_input_nodes
        elif operator_name(node) not in _SUMS:
            return True
    return False


def _is_float(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.is_floating_point()
