"""Layers: convolutions, matrix products, attention, norms, pooling, resizing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from edgex.delegates.graph.schema import named_arguments
from edgex.delegates.onednn.layout.sizes import Permute, Reshape, Size, at_least_two, broadcasts, shape_of
from edgex.delegates.onednn.operators.attention import emit_attention
from edgex.delegates.onednn.operators.elementwise import binary
from edgex.delegates.onednn.operators.padding import padding_of
from edgex.delegates.onednn.plan.region import RegionBuilder
from edgex.delegates.onednn.plan.values import EMBEDDING, Refused, Value

if TYPE_CHECKING:
    from torch.fx import Node

# Dimensions of what oneDNN 3.2 has a kernel to normalise; it says so only when one is made.
_MOST_OF_NORM = 5


def _convolution(builder: RegionBuilder, node: Node) -> Value:
    given = named_arguments(node)
    padded = padding_of(node)
    x, weight = builder.value(padded[0] if padded else given["input"]), builder.value(given["weight"])
    spatial = len(weight.shape) - 2
    if spatial not in (1, 2) or len(x.shape) != spatial + 2:
        raise Refused("rank", f"oneDNN convolves batches over 1 or 2 dimensions, not {list(x.shape)} over {spatial}")
    padding = _per_dimension(given["padding"], spatial)
    begin, end = padded[1:] if padded else ([0] * spatial, [0] * spatial)
    attributes: dict[str, Any] = {
        "strides": _per_dimension(given["stride"], spatial),
        "pads_begin": [by + more for by, more in zip(padding, begin, strict=True)],
        "pads_end": [by + more for by, more in zip(padding, end, strict=True)],
        "dilations": _per_dimension(given["dilation"], spatial),
        "groups": given["groups"],
        "data_format": "NCX",
        "weights_format": "IOX" if given["transposed"] else "OIX",
    }
    if given["transposed"]:
        attributes["output_padding"] = _per_dimension(given["output_padding"], spatial)
    _require_ints(attributes)
    inputs = [x, weight]
    if given["bias"] is not None:
        inputs.append(builder.value(given["bias"]))
    _require_one_dtype(inputs)
    kind = "conv_transpose" if given["transposed"] else "convolution"
    return builder.op(kind, inputs, shape_of(node.meta["val"]), **attributes)


def _linear(builder: RegionBuilder, node: Node) -> Value:
    given = named_arguments(node)
    inputs = [builder.value(given[name]) for name in ("input", "weight", "bias") if given[name] is not None]
    if len(inputs[0].shape) < 2 or len(inputs[1].shape) != 2:
        raise Refused("rank", f"oneDNN multiplies matrices, not {list(inputs[0].shape)} by {list(inputs[1].shape)}")
    _require_one_dtype(inputs)
    return builder.op("matmul", inputs, shape_of(node.meta["val"]), transpose_b=True)


def _product(builder: RegionBuilder, node: Node) -> Value:
    """The operators matmul, mm and bmm: two operands, batches of the same size or none."""
    left, right = (builder.value(argument) for argument in node.args[:2])
    _require_one_dtype([left, right])
    if len(left.shape) < 2 or len(right.shape) < 2:
        raise Refused("rank", f"oneDNN multiplies matrices, not {list(left.shape)} by {list(right.shape)}")
    shape = shape_of(node.meta["val"])
    rank = len(shape)
    left, right = _with_rank(builder, left, rank), _with_rank(builder, right, rank)
    return builder.op("matmul", [left, right], shape)


def _addmm(builder: RegionBuilder, node: Node) -> Value:
    given = named_arguments(node)
    if given["alpha"] != 1 or given["beta"] != 1:
        raise Refused("attribute", f"oneDNN has no addmm with alpha={given['alpha']}, beta={given['beta']}")
    bias, left, right = (builder.value(given[name]) for name in ("self", "mat1", "mat2"))
    _require_one_dtype([bias, left, right])
    shape = shape_of(node.meta["val"])
    if bias.shape == shape[1:]:
        return builder.op("matmul", [left, right, bias], shape)
    return binary(builder, "add", builder.op("matmul", [left, right], shape), bias, shape)


def _layer_norm(builder: RegionBuilder, node: Node) -> tuple[Value | None, ...]:
    given = named_arguments(node)
    x, normalized = builder.value(given["input"]), given["normalized_shape"]
    if len(normalized) != 1:
        raise Refused("attribute", f"oneDNN normalises over the last dimension only, not over {list(normalized)}")
    if len(x.shape) < 2:
        raise Refused("rank", f"oneDNN normalises rows, not a single one of {list(x.shape)}")
    weight, bias = given["weight"], given["bias"]
    shape = x.shape
    if len(shape) > _MOST_OF_NORM:
        rows = math.prod(size if isinstance(size, int) else 0 for size in shape[:-1])
        if not rows:
            raise Refused("rank", f"oneDNN normalises tensors of {_MOST_OF_NORM} dimensions at most, not {list(shape)}")
        x = builder.view(x, Reshape((rows, shape[-1])), (rows, shape[-1]))
    inputs = [x]
    if weight is not None or bias is not None:
        size = x.shape[-1]
        if not isinstance(size, int):
            raise Refused("dynamic_shape", f"oneDNN normalises over a static size only, not {size}")
        scale = builder.value(weight) if weight is not None else builder.constant([1.0] * size, "f32")
        shift = builder.value(bias) if bias is not None else builder.constant([0.0] * size, "f32")
        inputs += [builder.constant_as(scale, "f32"), builder.constant_as(shift, "f32")]
    attributes: dict[str, Any] = {"keep_stats": False, "use_affine": len(inputs) > 1, "begin_norm_axis": -1}
    result = builder.op("layer_norm", inputs, x.shape, epsilon=float(given["eps"]), **attributes)
    _require_unused(node, 1, "the mean and the deviation of a layer norm")
    return result if result.shape == shape else builder.view(result, Reshape(shape), shape), None, None


def _batch_norm(builder: RegionBuilder, node: Node) -> tuple[Value | None, ...]:
    given = named_arguments(node)
    x = builder.value(given["input"])
    channels = x.shape[1]
    if not isinstance(channels, int):
        raise Refused("dynamic_shape", f"oneDNN normalises a static number of channels only, not {channels}")
    if len(x.shape) < 3:
        raise Refused("rank", f"oneDNN's batch norm takes images and sequences, not {list(x.shape)}")

    def parameter(name: str, default: float) -> Value:
        value = given[name]
        made = builder.constant([default] * channels, "f32") if value is None else builder.value(value)
        return builder.constant_as(made, "f32")

    inputs = [
        x,
        parameter("weight", 1.0),
        parameter("bias", 0.0),
        parameter("running_mean", 0.0),
        parameter("running_var", 1.0),
    ]
    _require_unused(node, 1, "the statistics of a batch norm")
    result = builder.op("batch_norm_inference", inputs, x.shape, epsilon=float(given["eps"]), data_format="NCX")
    return result, None, None


def _max_pool(builder: RegionBuilder, node: Node) -> tuple[Value | None, ...]:
    given = named_arguments(node)
    _require_unused(node, 1, "the indices of a max pooling")
    attributes = _window(given)
    attributes["dilations"] = _per_dimension(given["dilation"], 2)
    attributes["rounding_type"] = "ceil" if given["ceil_mode"] else "floor"
    return _pool(builder, "max_pool", given["self"], node.meta["val"][0], attributes), None


def _avg_pool(builder: RegionBuilder, node: Node) -> Value:
    given = named_arguments(node)
    if given["divisor_override"] is not None:
        raise Refused("attribute", f"oneDNN has no divisor_override={given['divisor_override']}")
    if given["ceil_mode"]:
        raise Refused("attribute", "oneDNN counts other elements than PyTorch with ceil_mode=True")
    attributes = {**_window(given), "exclude_pad": not given["count_include_pad"], "rounding_type": "floor"}
    return _pool(builder, "avg_pool", given["self"], node.meta["val"], attributes)


def _window(given: dict[str, Any]) -> dict[str, Any]:
    kernel = _per_dimension(given["kernel_size"], 2)
    padding = _per_dimension(given["padding"], 2)
    # PyTorch writes "as the kernel" as no stride.
    strides = _per_dimension(given["stride"], 2) if given["stride"] else kernel
    return {"kernel": kernel, "strides": strides, "pads_begin": padding, "pads_end": padding, "data_format": "NCX"}


def _pool(builder: RegionBuilder, kind: str, source: Any, result: Any, attributes: dict[str, Any]) -> Value:
    x = builder.value(source)
    if len(x.shape) != 4:
        raise Refused("rank", f"oneDNN pools batches of images, not {list(x.shape)}")
    _require_ints(attributes)
    return builder.op(kind, [x], shape_of(result), **attributes)


def _resize(mode: str) -> Callable[[RegionBuilder, Node], Value]:
    def emit(builder: RegionBuilder, node: Node) -> Value:
        given = named_arguments(node)
        x, shape = builder.value(given["input"]), shape_of(node.meta["val"])
        if given.get("align_corners"):
            raise Refused("attribute", "oneDNN does not resize with align_corners=True")
        old, new = x.shape[2:], shape[2:]
        if len(x.shape) != 4 or not all(isinstance(size, int) for size in (*old, *new)):
            raise Refused("dynamic_shape", f"oneDNN resizes static images only, not {list(x.shape)}")
        factors = given["scale_factors"] or [b / a for a, b in zip(old, new, strict=True)]
        if any(a * factor != b for a, b, factor in zip(old, new, factors, strict=True)):
            raise Refused("attribute", f"oneDNN resizes by the sizes alone; {factors} is not {list(new)}/{list(old)}")
        if mode == "nearest" and any(b % a for a, b in zip(old, new, strict=True)):
            raise Refused("attribute", f"oneDNN rounds to another neighbour where {list(new)} is no multiple")
        kinds: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": "half_pixel", "data_format": "NCX"}
        return builder.op("interpolate", [x], shape, sizes=list(new), **kinds)

    return emit


def _with_rank(builder: RegionBuilder, value: Value, rank: int) -> Value:
    if len(value.shape) == rank:
        return value
    shape: tuple[Size, ...] = (1,) * (rank - len(value.shape)) + value.shape
    return builder.view(value, Reshape(shape), shape)


def _per_dimension(values: Any, count: int) -> list[Any]:
    items: list[Any] = list(values) if isinstance(values, (list, tuple)) else [values]
    return items * count if len(items) == 1 else items


def _require_ints(attributes: dict[str, Any]) -> None:
    for name, value in attributes.items():
        for item in value if isinstance(value, list) else ():
            if not isinstance(item, int) or item < 0:
                raise Refused("attribute", f"oneDNN takes fixed sizes here, not {name}={value}")


def _require_one_dtype(values: Sequence[Value]) -> None:
    dtypes = sorted({value.dtype for value in values})
    if len(dtypes) > 1:
        raise Refused("dtype", f"oneDNN takes one dtype at a time, here {' and '.join(dtypes)}")


def _require_unused(node: Node, first: int, what: str) -> None:
    """Refuse where something reads the outputs from number `first` on."""
    if any(user.op == "call_function" and user.args[1:] and user.args[1] >= first for user in node.users):  # type: ignore[operator]
        raise Refused("attribute", f"oneDNN does not give {what}, and the model uses them")


def _attention(builder: RegionBuilder, node: Node) -> Value:
    given = named_arguments(node)
    if given["dropout_p"]:
        raise Refused("attribute", f"oneDNN's attention has no dropout: dropout_p={given['dropout_p']}")
    query, key, value = (builder.value(given[name]) for name in ("query", "key", "value"))
    _require_one_dtype([query, key, value])
    size = query.shape[-1]
    if given["scale"] is None and not isinstance(size, int):
        raise Refused("dynamic_shape", f"the scale of the attention depends on {size}, known only when it runs")
    batches = [one.shape[:-2] for one in (query, key, value)]
    grouped = bool(given["enable_gqa"]) and batches[0] != batches[1]
    fit = batches[1] == batches[2] and (grouped or all(broadcasts(batch, batches[0]) for batch in batches))
    if len(query.shape) < 3 or len(key.shape) != len(query.shape) or not fit:
        raise Refused("attribute", f"attention of {list(query.shape)} with {list(key.shape)} repeats what is looked up")
    scale = given["scale"] if given["scale"] is not None else 1 / math.sqrt(size)
    rank = len(key.shape)
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    key = builder.view(key, Permute(swapped), tuple(key.shape[dim] for dim in swapped))
    mask = None if given["attn_mask"] is None else builder.value(given["attn_mask"])
    reducible = mask is not None and at_least_two(given["attn_mask"].meta["val"].shape[-1])
    causal = bool(given["is_causal"])
    if not grouped:
        return emit_attention(builder, query, key, value, float(scale), mask, causal=causal, reducible=reducible)
    result = (*query.shape[:-1], value.shape[-1])
    query, key, value, mask = _by_groups(builder, query, key, value, mask)
    made = emit_attention(builder, query, key, value, float(scale), mask, causal=causal, reducible=reducible)
    return builder.view(made, Reshape(result), result)


def _by_groups(
    builder: RegionBuilder, query: Value, key: Value, value: Value, mask: Value | None
) -> tuple[Value, Value, Value, Value | None]:
    """The same with one more dimension: heads as groups that share a key, which is repeated along it.

    Raises:
        Refused: Heads are not shared out evenly, or not in numbers known at export.
    """
    heads, shared = query.shape[-3], key.shape[-3]
    if not isinstance(heads, int) or not isinstance(shared, int) or heads % shared:
        raise Refused("attribute", f"attention of {heads} heads that share {shared} keys")

    def split(one: Value, groups: int, each: int) -> Value:
        shape = (*one.shape[:-3], groups, each, *one.shape[-2:])
        return builder.view(one, Reshape(shape), shape)

    query, key, value = split(query, shared, heads // shared), split(key, shared, 1), split(value, shared, 1)
    if mask is not None and len(mask.shape) > 2:
        mask = split(mask, 1, 1) if mask.shape[-3] == 1 else split(mask, shared, heads // shared)
    return query, key, value, mask


def _embedding(builder: RegionBuilder, node: Node) -> Value:
    """Rows of a constant table: the backend's own, so that a last layer that multiplies by the table shares it."""
    given = named_arguments(node)
    if not builder.is_constant(given["weight"]):
        raise Refused("non_constant_weight", "rows are taken from a constant only, and this table is computed")
    table = builder.value(given["weight"])
    return builder.op(EMBEDDING, [table, builder.indices(given["indices"])], shape_of(node.meta["val"]))


NETWORK_OPERATORS: dict[str, Callable[[RegionBuilder, Node], Any]] = {
    "aten.convolution.default": _convolution,
    "aten.linear.default": _linear,
    "aten.matmul.default": _product,
    "aten.mm.default": _product,
    "aten.bmm.default": _product,
    "aten.addmm.default": _addmm,
    "aten.scaled_dot_product_attention.default": _attention,
    "aten.embedding.default": _embedding,
    "aten.native_layer_norm.default": _layer_norm,
    "aten._native_batch_norm_legit_no_training.default": _batch_norm,
    "aten.max_pool2d_with_indices.default": _max_pool,
    "aten.avg_pool2d.default": _avg_pool,
    "aten.upsample_nearest2d.vec": _resize("nearest"),
    "aten.upsample_bilinear2d.vec": _resize("bilinear"),
}
