"""`edgex::cached_attention` in ONNX Runtime's GroupQueryAttention, and the caches that it may keep in one place.

```
GroupQueryAttention(query, key, value, past_key, past_value, seqlens_k, total) -> output, present_key, present_value
```

Where past and present are the same memory, its kernel writes the new tokens there and copies nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from edgex.delegates.graph.attention.cached import attention_operator
from edgex.delegates.onnxruntime.quantize.dynamic import CONTRIB

OPERATOR = "GroupQueryAttention"
_PAST, _PRESENT = (3, 4), (1, 2)


def attention_translation() -> dict[Any, Callable[..., Any]]:
    """What `torch.onnx.export` takes as its own table of translations."""
    return {attention_operator(): _translate}


def _translate(
    query: Any,
    keys: Any,
    values: Any,
    key_cache: Any,
    value_cache: Any,
    end: Any,
    scale: float,
    window: int,
) -> Any:
    import onnxscript

    op = onnxscript.opset18
    attend = onnxscript.values.Op(onnxscript.values.Opset(CONTRIB, 1), OPERATOR, _schema())
    heads, shared = int(query.shape[1]), int(keys.shape[1])

    def packed(tensor: Any) -> Any:
        """`[1, heads, n, size]` as `[1, n, heads * size]`."""
        width = int(tensor.shape[1]) * int(tensor.shape[3])
        turned = op.Transpose(tensor, perm=[0, 2, 1, 3])
        return op.Reshape(turned, op.Constant(value_ints=[1, -1, width]))

    total = op.Cast(end, to=onnxscript.INT32.dtype)
    last = op.Sub(total, op.Cast(op.Constant(value_ints=[1]), to=onnxscript.INT32.dtype))
    attributes = {"num_heads": heads, "kv_num_heads": shared, "scale": scale, "local_window_size": window or -1}
    output, present_key, present_value = attend(
        packed(query),
        packed(keys),
        packed(values),
        key_cache,
        value_cache,
        last,
        op.Squeeze(total, op.Constant(value_ints=[0])),
        **attributes,
        _outputs=3,
    )
    size = int(value_cache.shape[3])
    apart = op.Reshape(output, op.Constant(value_ints=[1, -1, heads, size]))
    return op.Transpose(apart, perm=[0, 2, 1, 3]), present_key, present_value


def _schema() -> Any:
    """As much of the operator as is used: the exporter asks for one, and ONNX has none of ONNX Runtime's own."""
    from onnx.defs import OpSchema

    kind, whole = OpSchema.FormalParameter, "tensor(int32)"
    inputs = [kind(name, "T") for name in ("query", "key", "value", "past_key", "past_value")]
    inputs += [kind(name, whole) for name in ("seqlens_k", "total_sequence_length")]
    outputs = [kind(name, "T") for name in ("output", "present_key", "present_value")]
    numbers = ("num_heads", "kv_num_heads", "local_window_size")
    attributes = [OpSchema.Attribute(name, OpSchema.AttrType.INT) for name in numbers]
    attributes.append(OpSchema.Attribute("scale", OpSchema.AttrType.FLOAT))
    return OpSchema(
        OPERATOR,
        CONTRIB,
        1,
        inputs=inputs,
        outputs=outputs,
        type_constraints=[("T", ["tensor(float)", "tensor(float16)"], "")],
        attributes=attributes,
    )


def states_in_place(model: Any, inputs: Collection[str]) -> frozenset[str]:
    """The graph inputs among these that only an attention reads, whose new value that very attention gives.

    Args:
        model: An `onnx_ir.Model`.
        inputs: Names of carried state.
    """
    found = set()
    outputs = list(model.graph.outputs)
    for value in model.graph.inputs:
        uses = list(value.uses())
        if value.name not in inputs or len(uses) != 1:
            continue
        node, index = uses[0]
        if node.op_type == OPERATOR and index in _PAST and node.outputs[_PRESENT[_PAST.index(index)]] in outputs:
            found.add(str(value.name))
    return frozenset(found)
