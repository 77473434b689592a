"""ExecuTorch's pass that chooses the memory order inside XNNPACK's regions, with what it forgets.

Behind a convolution images stay channels-last until an operator needs them otherwise. XNNPACK's softmax works on the
innermost elements, and the pass of ExecuTorch 1.5 does not name it: behind a convolution it ran over the channels
instead of the last dimension. Here it is named while a program is lowered.

```
before   convolution -> softmax (over the channels, wrong)             -> convolution
after    convolution -> to NCHW -> softmax (over the last dimension)   -> to NHWC -> convolution
```

Where an image is quantized at every run, the pass looks for what was quantized, and goes on from there through the
first argument of everything to the input of the program: that was brought into another order, whatever its dimensions,
and the numbers of all that read it were others. Here it stops at what was quantized, and only that reading is changed.

```
before   x -> to NHWC -> linear (of the channels) -> permute -> quantize -> dequantize -> convolution
after    x -> linear -> permute -> to NHWC -> quantize -> dequantize -> convolution
```

Of each input with four dimensions the pass asks in which order it lies. Of sizes that only the run finds (scores over
the filled part of a cache, `[1, s, heads, u]`) PyTorch cannot tell, and the pass failed. The order is the same for
every size from 2 on, so the question is answered for such sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from edgex.delegates.executorch.edge_passes import order_of_dimensions
from edgex.runtime.support.dependency_messages import quiet_import

if TYPE_CHECKING:
    from torch import Tensor
    from torch.fx import GraphModule, Node

_LAST_CHANNELS = (0, 2, 3, 1)


@contextmanager
def softmax_in_order() -> Iterator[None]:
    """Within it, ExecuTorch lowers softmax to XNNPACK in the program's order of dimensions."""
    with quiet_import():
        from executorch.backends.xnnpack._passes.channels_last_tagged_reshape_pass import ChannelsLastTaggedReshapePass
        from executorch.exir.dialects._ops import ops

    known = ChannelsLastTaggedReshapePass.memory_sensitive_ops_nchw
    ChannelsLastTaggedReshapePass.memory_sensitive_ops_nchw = {*known, ops.edge.aten._softmax.default}
    try:
        yield
    finally:
        ChannelsLastTaggedReshapePass.memory_sensitive_ops_nchw = known


@contextmanager
def dynamic_inputs_in_order() -> Iterator[None]:
    """Within it, ExecuTorch brings what is quantized at every run into channels-last order, and nothing else."""
    with quiet_import():
        from executorch.backends.xnnpack._passes.channels_last_tagged_reshape_pass import ChannelsLastTaggedReshapePass
        from executorch.backends.xnnpack.utils.quant_utils import is_dequant, is_dynamic_qdq

    kind: Any = ChannelsLastTaggedReshapePass
    to_nhwc = kind.input_to_nhwc

    def input_to_nhwc(self: Any, graph_module: GraphModule, image: Node, target: Node) -> None:
        if not (is_dequant(image) and is_dynamic_qdq(image)) or kind.is_nhwc_node(image):
            to_nhwc(self, graph_module, image, target)
            return
        if not all(self.requires_nhwc_input(user) for user in image.users):
            image = _quantize_again(graph_module, image, target)
        quantize: Any = image.args[0]
        source, scale = quantize.args[0], quantize.args[1]
        # A node of the other order beside the source, which the pass makes and remembers.
        to_nhwc(self, graph_module, source, target)
        ordered = source.meta.get(kind.PARTNER_NODE, source)
        for reader in (quantize, scale.args[0]):
            reader.replace_input_with(source, ordered)

    kind.input_to_nhwc = input_to_nhwc
    try:
        yield
    finally:
        kind.input_to_nhwc = to_nhwc


@contextmanager
def sizes_of_run_time_in_order() -> Iterator[None]:
    """Within it, ExecuTorch's pass finds the order of tensors whose sizes only the run knows."""
    with quiet_import():
        from executorch.backends.xnnpack._passes.channels_last_tagged_reshape_pass import ChannelsLastTaggedReshapePass
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    kind: Any = ChannelsLastTaggedReshapePass
    asks = kind._is_nhwc_tensor

    def is_nhwc_tensor(tensor: Tensor) -> bool:
        try:
            return bool(asks(tensor))
        except GuardOnDataDependentSymNode:
            return order_of_dimensions(tensor.stride()) == _LAST_CHANNELS

    kind._is_nhwc_tensor = staticmethod(is_nhwc_tensor)
    try:
        yield
    finally:
        kind._is_nhwc_tensor = staticmethod(asks)


def _quantize_again(graph_module: GraphModule, image: Any, target: Node) -> Node:
    """Give one reader of an image a quantization of its own, at every run; others read it as it was."""
    quantize = image.args[0]
    scale, zero = quantize.args[1:3]
    copies: dict[Node, Node] = {}
    with graph_module.graph.inserting_before(target):
        for node in (scale.args[0], scale, zero, quantize, image):
            copies[node] = graph_module.graph.node_copy(node, lambda given: copies.get(given, given))
    target.replace_input_with(image, copies[image])
    return copies[image]
