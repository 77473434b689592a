"""The weights of a quantized program as its layers read them: converted once, where that fits into memory.

A program of a few bits converts every weight at every run, in the operators of a recipe that are made to be fused and
not to be run. A language model is run some hundred times for its proof, mostly for one token, and the conversions were
most of that.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from edgex.delegates.graph.provenance import is_conversion
from edgex.runtime.support.machine.memory import read_available_bytes

# Of what the system could give; the model in float32, its engines and other programs are to have the rest.
_LARGEST_SHARE = 1 / 8


def compute_float_weights(
    module: GraphModule, constants: Mapping[Node, torch.Tensor], available_bytes: int | None = None
) -> dict[Node, torch.Tensor | None]:
    """The values of conversions that read constants alone.

    Args:
        module: What is run.
        constants: Placeholders of its graph with values that never change; others' placeholders do no harm.
        available_bytes: Of memory; None asks the system.

    Returns:
        For an interpreter's environment: each converted weight, and None for what only these read. Nothing where the
        weights take more than an eighth of the available memory, or where the system does not say.
    """
    sources = {node: value.detach() for node, value in constants.items() if node.graph is module.graph}
    for node in module.graph.find_nodes(op="get_attr"):
        value = operator.attrgetter(str(node.target))(module)
        if isinstance(value, torch.Tensor):
            sources[node] = value
    conversions: dict[Node, None] = {}
    for node in module.graph.nodes:
        reads = node.all_input_nodes
        if not reads or not is_conversion(str(node.target)) or not isinstance(node.meta.get("val"), torch.Tensor):
            continue
        if all(read in sources or read in conversions for read in reads):
            conversions[node] = None
    kept = {node for node in conversions if any(user not in conversions for user in node.users)}
    available = read_available_bytes() if available_bytes is None else available_bytes
    if available is None or sum(node.meta["val"].nbytes for node in kept) > available * _LARGEST_SHARE:
        return {}
    values: dict[Node, torch.Tensor | None] = {}
    with torch.no_grad():
        for node in conversions:
            args, kwargs = map_arg(
                (node.args, node.kwargs), lambda read: sources[read] if read in sources else values[read]
            )
            assert callable(node.target)
            values[node] = node.target(*args, **kwargs)
    return {node: value if node in kept else None for node, value in values.items()}
