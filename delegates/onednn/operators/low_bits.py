"""Linear layers with weights in few bits: the backend's own, since oneDNN 3.2 unpacks such weights to float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from edgex.delegates.graph.schema import named_arguments
from edgex.delegates.onednn.layout.sizes import Layout, dense_strides, shape_of
from edgex.delegates.onednn.plan.region import RegionBuilder
from edgex.delegates.onednn.plan.values import LOW_BIT_LINEAR, Refused, Value
from edgex.delegates.onednn.quantized.packing import BLOCK, QUAD, pack_scales, pack_weights, packed_shape, sum_weights

if TYPE_CHECKING:
    import torch
    from torch.fx import Node

# Of 8-bit weights, inputs of a group whose products fit into 32 bits: 2^31 / (255 * 128).
_MOST_INPUTS = 1 << 16


def _dynamic_linear(builder: RegionBuilder, node: Node) -> Value:
    given = named_arguments(node)
    bits = int(given["bits"])
    if not all(builder.is_constant(given[name]) for name in ("weight", "scale")):
        raise Refused("non_constant_weight", "weights in few bits are packed at export, and these are computed")
    x = builder.value(given["x"])
    if x.dtype != "f32":
        raise Refused("dtype", f"activations are quantized from float32 here, not from {x.dtype}")
    outputs, inputs = given["weight"].meta["val"].shape
    groups = given["scale"].meta["val"].shape[1]
    group = inputs // groups
    if (bits == 4 and group % (2 * QUAD)) or (groups > 1 and group % QUAD) or group > _MOST_INPUTS:
        raise Refused("attribute", f"{bits}-bit weights have no kernel for {group} inputs that share a scale")
    weight, scale = (builder.constants[given[name].name] for name in ("weight", "scale"))

    def constant(dtype: str, shape: tuple[int, ...], read: Callable[[], torch.Tensor]) -> Value:
        return Value(dtype, shape, tensor=read, layout=Layout(shape, dense_strides(shape)))

    shape = packed_shape(outputs, inputs, groups, bits)
    packed = [
        constant("s8" if bits == 8 else "u8", shape, lambda: pack_weights(weight(), groups, bits)),
        constant("f32", (shape[0], groups, BLOCK), lambda: pack_scales(scale())),
        constant("f32", (shape[0], BLOCK), lambda: sum_weights(weight(), scale())),
    ]
    bias = [] if given["bias"] is None else [builder.value(given["bias"])]
    if bias and not bias[0].is_constant:
        raise Refused("non_constant_weight", "the bias of a layer in few bits is a constant, and this one is computed")
    kind = LOW_BIT_LINEAR[bits]
    return builder.op(kind, [x, *packed, *bias], shape_of(node.meta["val"]), dtype="f32")


LOW_BIT_OPERATORS: dict[str, Callable[[RegionBuilder, Node], Any]] = {
    "edgex.dynamic_linear.default": _dynamic_linear,
}
