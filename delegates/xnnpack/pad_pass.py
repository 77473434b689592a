"""ExecuTorch's pass that holds paddings of quantized values in 8 bits, kept to those whose input is held so too.

`InsertPadQDQPass` of ExecuTorch 1.5 marks what comes out of a padding with zeros behind every dequantize operator.
Where the padding was not taken together with a convolution that reads it, that operator is a conversion of its own and
float32 goes in: XNNPACK refuses such a padding (`xnn_status_invalid_parameter`) when the program is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from edgex.runtime.support.dependency_messages import quiet_import

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

_PAD = "aten.constant_pad_nd.default"


@contextmanager
def float_pads() -> Iterator[None]:
    """Within it, paddings of float values stay in float."""
    with quiet_import():
        from executorch.backends.xnnpack._passes.insert_pad_qdq import InsertPadQDQPass
        from executorch.backends.xnnpack.utils.quant_utils import is_dequant, is_tagged_as_implicit_q_dq

    def is_float(node: Node) -> bool:
        source = node.all_input_nodes[0]
        return is_dequant(source) and not is_tagged_as_implicit_q_dq(source)

    original = InsertPadQDQPass.call

    def call(self: Any, graph_module: GraphModule) -> Any:
        pads = [node for node in graph_module.graph.nodes if getattr(node.target, "__name__", "") == _PAD]
        hidden = {node: node.target for node in pads if is_float(node)}
        for node in hidden:
            node.target = _hidden_pad
        result = original(self, graph_module)
        for node, target in hidden.items():
            node.target = target
        graph_module.recompile()
        return result

    InsertPadQDQPass.call = call
    try:
        yield
    finally:
        InsertPadQDQPass.call = original


def _hidden_pad(*_: Any) -> None:
    raise AssertionError("a name in a graph, never called")
