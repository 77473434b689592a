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
_LARGEST_SHARE = 1 / 4


def compute_float_weights(
    module: GraphModule, constants: Mapping[Node, torch.Tensor], available_bytes: int | None = None
) -> dict[Node, torch.Tensor]:
    """The values of conversions that read constants alone.

    Args:
        module: What is run.
        constants: Placeholders of its graph with values that never change; others' placeholders do no harm.
        available_bytes: Of memory; None asks the system.

    Returns:
        For an interpreter's environment: converted weights in the program's order, as many as a quarter of the
        available memory holds. None where the system does not say what it has.
    """
    sources = {node: value.detach() for node, value in constants.items() if node.graph is module.graph}
    for node in module.graph.find_nodes(op="get_attr"):
        value = operator.attrgetter(str(node.target))(module)
        if isinstance(value, torch.Tensor):
            sources[node] = value
    available = read_available_bytes() if available_bytes is None else available_bytes
    left = (available or 0) * _LARGEST_SHARE
    values: dict[Node, torch.Tensor] = {}
    with torch.no_grad():
        for node in module.graph.nodes:
            reads = node.all_input_nodes
            if not reads or not is_conversion(str(node.target)) or any(read not in sources for read in reads):
                continue
            described = node.meta.get("val")
            if isinstance(described, torch.Tensor) and described.nbytes <= left:
                args, kwargs = map_arg((node.args, node.kwargs), sources.__getitem__)
                assert callable(node.target)
                values[node] = node.target(*args, **kwargs)
                left -= described.nbytes
    return values
