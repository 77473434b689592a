"""Operators that work element by element, reductions, and what is made of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from edgex.delegates.graph.schema import named_arguments
from edgex.delegates.onednn.layout.orders import innermost, row_major
from edgex.delegates.onednn.layout.sizes import Expand, Permute, Reshape, Size, Slice, shape_of
from edgex.delegates.onednn.operators.padding import is_done_by_readers
from edgex.delegates.onednn.operators.views import identity
from edgex.delegates.onednn.plan.region import RegionBuilder, make_value
from edgex.delegates.onednn.plan.values import OWN_BINARY, OWN_CONCAT, OWN_UNARY, Refused, Value

if TYPE_CHECKING:
    from torch.fx import Node

Emit = Callable[[RegionBuilder, "Node"], Any]
# Numbers that one side of a padding puts into the file.
_MOST_FILLED = 64 << 10

Single = Callable[[RegionBuilder, "Node"], Value]


def _unary(kind: str, **constants: Any) -> Single:
    def emit(builder: RegionBuilder, node: Node) -> Value:
        value = builder.value(node.args[0])
        return builder.op(kind, [value], value.shape, **constants)

    return emit


def _gelu(builder: RegionBuilder, node: Node) -> Value:
    approximate = named_arguments(node)["approximate"]
    if approximate != "none":
        return _tanh_gelu(builder, builder.value(node.args[0]))
    return _unary("gelu")(builder, node)


def _tanh_gelu(builder: RegionBuilder, x: Value) -> Value:
    """0.5 x (1 + tanh(c (x + 0.044715 x^3))) = x sigmoid(2 c x (1 + 0.044715 x^2)), in five operators less."""

    def number(content: float) -> Value:
        return builder.constant(content, x.dtype)

    twice_c = 1.5957691216057308
    square = builder.op("square", [x], x.shape)
    factor = builder.op("multiply", [square, number(0.044715 * twice_c)], x.shape)
    factor = builder.op("add", [factor, number(twice_c)], x.shape)
    inner = builder.op("multiply", [factor, x], x.shape)
    gate = builder.op("sigmoid", [inner], x.shape)
    return builder.op("multiply", [gate, x], x.shape)


def _silu(builder: RegionBuilder, node: Node) -> Value:
    value = builder.value(node.args[0])
    gate = builder.op("sigmoid", [value], value.shape)
    return builder.op("multiply", [gate, value], value.shape)


def _elu(builder: RegionBuilder, node: Node) -> Value:
    given = named_arguments(node)
    if given["input_scale"] != 1:
        raise Refused("attribute", f"oneDNN has no elu with input_scale={given['input_scale']}")
    if given["alpha"] < 0:
        raise Refused("attribute", f"oneDNN's elu takes no negative alpha, here {given['alpha']}")
    value = _unary("elu", alpha=float(given["alpha"]))(builder, node)
    if given["scale"] == 1:
        return value
    return builder.op("multiply", [value, builder.constant(float(given["scale"]), value.dtype)], value.shape)


def _prelu(builder: RegionBuilder, node: Node) -> Value:
    """What is positive, and the slopes' product with what is not."""
    value, slopes = builder.value(node.args[0]), builder.value(node.args[1])
    if len(slopes.shape) == 1 and slopes.shape != (1,) and len(value.shape) > 1:
        shape = (*slopes.shape, *(1,) * (len(value.shape) - 2))
        slopes = builder.view(slopes, Reshape(shape), shape)
    negative = builder.op("clamp", [value], value.shape, min=-float("inf"), max=0.0)
    positive = builder.op("relu", [value], value.shape)
    return binary(builder, "add", positive, binary(builder, "multiply", negative, slopes, value.shape), value.shape)


def _leaky_relu(builder: RegionBuilder, node: Node) -> Value:
    return _unary("leaky_relu", alpha=float(named_arguments(node)["negative_slope"]))(builder, node)


def _softplus(builder: RegionBuilder, node: Node) -> Value:
    given = named_arguments(node)
    # oneDNN has no threshold. Above 20, PyTorch's default, the curve and the line differ by less than 3e-9.
    if given["beta"] <= 0 or given["threshold"] < 15:
        raise Refused("attribute", f"no softplus with beta={given['beta']}, threshold={given['threshold']}")
    return _unary("softplus", beta=float(given["beta"]))(builder, node)


def _clamp(builder: RegionBuilder, node: Node) -> Value:
    given = named_arguments(node)
    low = given.get("min", given.get("min_val"))
    high = given.get("max", given.get("max_val"))
    for bound in (low, high):
        if bound is not None and not isinstance(bound, (int, float)):
            raise Refused("attribute", f"oneDNN clamps between numbers, not with {bound}")
    limit = float("inf")
    low, high = -limit if low is None else float(low), limit if high is None else float(high)
    if low > high:
        raise Refused("attribute", f"oneDNN does not clamp between {low:g} and {high:g}")
    return _unary("clamp", min=low, max=high)(builder, node)


def _power(builder: RegionBuilder, node: Node) -> Value:
    """OneDNN has the square; the cube, which GELUs are written with, is its product with what it is of."""
    exponent = named_arguments(node)["exponent"]
    if exponent not in (2, 3):
        raise Refused("attribute", f"oneDNN raises to the powers 2 and 3 only, not {exponent}")
    value = builder.value(node.args[0])
    square = builder.op("square", [value], value.shape)
    return square if exponent == 2 else builder.op("multiply", [square, value], value.shape)


def _over_one(root: bool) -> Single:
    """1 / x or 1 / sqrt(x): what RMS norms are made of."""

    def emit(builder: RegionBuilder, node: Node) -> Value:
        value = builder.value(node.args[0])
        value = builder.op("sqrt", [value], value.shape) if root else value
        return builder.op(OWN_BINARY["divide"], [builder.constant(1.0, value.dtype), value], value.shape)

    return emit


def _round(builder: RegionBuilder, node: Node) -> Value:
    if builder.value(node.args[0]).dtype != "f32":
        raise Refused("dtype", "oneDNN rounds float32 only, not bfloat16")
    return _unary("round")(builder, node)


def _turn(kind: str) -> Single:
    """Sine or cosine, which oneDNN does not have: the backend computes them."""

    def emit(builder: RegionBuilder, node: Node) -> Value:
        value = builder.value(node.args[0])
        if value.dtype != "f32":
            raise Refused("dtype", "the backend takes sines and cosines of float32 only, not of bfloat16")
        return builder.op(OWN_UNARY[kind], [value], value.shape)

    return emit


def _negate(builder: RegionBuilder, node: Node) -> Value:
    value = builder.value(node.args[0])
    return builder.op("multiply", [value, builder.constant(-1.0, value.dtype)], value.shape)


def _binary(kind: str) -> Emit:
    def emit(builder: RegionBuilder, node: Node) -> Value:
        given = named_arguments(node)
        if given.get("rounding_mode") is not None:
            raise Refused("attribute", f"oneDNN does not round a quotient: rounding_mode={given['rounding_mode']!r}")
        left, right = builder.value(given["self"]), _operand(builder, given["other"], given["self"])
        if left.dtype != right.dtype:
            raise Refused("dtype", f"oneDNN takes one dtype at a time, here {left.dtype} and {right.dtype}")
        alpha = given.get("alpha", 1)
        if not isinstance(alpha, (int, float)):
            raise Refused("attribute", f"alpha is a size known only when the model runs: {alpha}")
        if alpha != 1:
            right = builder.op("multiply", [right, builder.constant(float(alpha), right.dtype)], right.shape)
        return binary(builder, kind, left, right, shape_of(node.meta["val"]))

    return emit


def binary(builder: RegionBuilder, kind: str, left: Value, right: Value, shape: tuple[Size, ...]) -> Value:
    """An operator of two values, which are repeated to the result's shape.

    oneDNN repeats the second one only; where both are, or what is divided is, the backend computes it.
    """
    # What the program repeats before, oneDNN repeats by itself.
    if left.shape == shape:
        right = _before_repeating(right)
    if right.shape == shape and kind != "divide":
        left = _before_repeating(left)
    if left.shape != shape and right.shape != shape:
        return builder.op(OWN_BINARY[kind], [left, right], shape)
    if left.shape == shape:
        return builder.op(kind, [left, _aligned(builder, right, len(shape))], shape)
    if kind == "subtract":
        negative = builder.op("multiply", [right, builder.constant(-1.0, right.dtype)], shape)
        return binary(builder, "add", negative, left, shape)
    if kind == "divide":
        return builder.op(OWN_BINARY[kind], [left, right], shape)
    return builder.op(kind, [right, _aligned(builder, left, len(shape))], shape)


def _before_repeating(value: Value) -> Value:
    return value.parent if value.parent is not None and isinstance(value.view, Expand) else value


def _aligned(builder: RegionBuilder, value: Value, rank: int) -> Value:
    """The same value with as many dimensions as the other operand has."""
    if len(value.shape) == rank:
        return value
    shape = (1,) * (rank - len(value.shape)) + value.shape
    return builder.view(value, Reshape(shape), shape)


def _operand(builder: RegionBuilder, other: Any, reference: Any) -> Value:
    if isinstance(other, bool) or not isinstance(other, (int, float)):
        return builder.value(other)
    return builder.constant(float(other), builder.value(reference).dtype)


def _softmax(kind: str) -> Emit:
    def emit(builder: RegionBuilder, node: Node) -> Value:
        value, dim = builder.value(node.args[0]), named_arguments(node)["dim"]
        return builder.op(kind, [value], value.shape, axis=dim % len(value.shape))

    return emit


# Rows as joined answers of a few branches have; 3 numbers of 7680 rows took 8.3 ms with the reference kernel.
_SHORT_ROW = 32
# What reduces two planes to one, and how many are reduced so.
_OF_PLANES = {"reduce_max": "maximum", "reduce_min": "minimum", "reduce_sum": "add", "reduce_mean": "add"}
_MOST_PLANES = 8
# Inputs of one `concat`, by its schema (oneDNN 3.2, `op_def.hpp`).
_MOST_CONCATENATED = 64
# Of one that the backend runs by itself.
_MOST_JOINED = 63


def _mean_of_image(builder: RegionBuilder, value: Value, shape: tuple[Size, ...]) -> Value:
    """As a pooling over the whole image: oneDNN 3.2 has a reference kernel only to reduce its own layouts."""
    size = list(value.shape[2:])
    none = [0, 0]
    attributes: dict[str, Any] = {
        "kernel": size,
        "strides": size,
        "pads_begin": none,
        "pads_end": none,
        "data_format": "NCX",
    }
    return builder.op("avg_pool", [value], shape, **attributes, exclude_pad=False, rounding_type="floor")


def _is_short(size: Size) -> bool:
    return isinstance(size, int) and size <= _SHORT_ROW


def _sum_of_rows(builder: RegionBuilder, value: Value, shape: tuple[Size, ...]) -> Value:
    """As a product with ones: a joined tensor may lie in another order, which oneDNN 3.2 has a reference kernel for."""
    ones = builder.constant([[1.0]] * int(value.shape[-1]), value.dtype)
    return builder.op("matmul", [value, ones], shape)


def _reduce_innermost(builder: RegionBuilder, kind: str, value: Value, axes: Sequence[int]) -> Value:
    """Reduced dimensions become the last ones: oneDNN 3.2 has only its reference kernel for others."""
    order = innermost(value, axes)
    if order != row_major(value):
        value = builder.view(value, Permute(order), [value.shape[dim] for dim in order])
    last = range(len(order) - len(axes), len(order))
    kept = tuple(1 if dim in last else size for dim, size in enumerate(value.shape))
    result = builder.op(kind, [value], kept, axes=list(last), keep_dims=True)
    if order == row_major(value):
        return result
    back = tuple(order.index(dim) for dim in range(len(order)))
    return builder.view(result, Permute(back), [kept[dim] for dim in back])


def _is_folded(kind: str, value: Value, axes: Sequence[int]) -> bool:
    """Whether few planes are reduced that lie one behind the other: as rows, they would be copied, and short."""
    if len(axes) != 1 or kind not in _OF_PLANES or (value.dtype != "f32" and _OF_PLANES[kind] == "add"):
        return False
    size, inside = value.shape[axes[0]], value.shape[axes[0] + 1 :]
    return isinstance(size, int) and size <= _MOST_PLANES and any(one != 1 for one in inside)


def _fold_planes(builder: RegionBuilder, kind: str, value: Value, axis: int) -> Value:
    """One plane after the other: four of 784 x 96 numbers took nine times as long as rows."""
    count, shape = int(value.shape[axis]), tuple(1 if dim == axis else size for dim, size in enumerate(value.shape))
    result, *others = (builder.view(value, Slice(axis, number, 1, 1), shape) for number in range(count))
    for other in others:
        result = builder.op(OWN_BINARY[_OF_PLANES[kind]], [result, other], shape)
    if kind == "reduce_mean":
        result = builder.op("multiply", [result, builder.constant(1 / count, value.dtype)], shape)
    return result


def _reduce(kind: str) -> Emit:
    def emit(builder: RegionBuilder, node: Node) -> Value:
        given = named_arguments(node)
        value = builder.value(given["self"])
        dtype = given.get("dtype")
        if dtype is not None and dtype != node.args[0].meta["val"].dtype:  # type: ignore[union-attr]
            raise Refused("dtype", f"oneDNN does not convert while it reduces: dtype={dtype}")
        rank = len(value.shape)
        dims = given.get("dim")
        dims = [dims] if isinstance(dims, int) else list(dims or range(rank))
        axes = sorted({dim % rank for dim in dims})
        kept = tuple(1 if i in axes else size for i, size in enumerate(value.shape))
        # oneDNN makes no kernel where nothing is reduced: a size of 1 is left out, an open one may turn out to be 1.
        axes = [axis for axis in axes if value.shape[axis] != 1]
        if axes and not any(isinstance(value.shape[axis], int) for axis in axes):
            raise Refused("dynamic_shape", f"oneDNN reduces no dimension that may be 1: {value.shape[axes[0]]}")
        if (
            kind in ("reduce_mean", "reduce_sum")
            and rank == 4
            and axes == [2, 3]
            and all(isinstance(size, int) for size in value.shape[2:])
        ):
            result = _mean_of_image(builder, value, kept)
            if kind == "reduce_sum":
                count = int(value.shape[2]) * int(value.shape[3])
                result = builder.op("multiply", [result, builder.constant(float(count), value.dtype)], kept)
        elif kind == "reduce_sum" and axes == [rank - 1] and rank > 1 and _is_short(value.shape[-1]):
            result = _sum_of_rows(builder, value, kept)
        elif _is_folded(kind, value, axes):
            result = _fold_planes(builder, kind, value, axes[0])
        else:
            result = _reduce_innermost(builder, kind, value, axes) if axes else value
        shape = shape_of(node.meta["val"])
        return result if kept == shape else builder.view(result, Reshape(shape), shape)

    return emit


def _concatenate(builder: RegionBuilder, node: Node) -> Value:
    given = named_arguments(node)
    values = [builder.value(item) for item in given["tensors"]]
    shape = shape_of(node.meta["val"])
    if any(len(value.shape) != len(shape) or value.dtype != values[0].dtype for value in values):
        raise Refused("dtype", "oneDNN concatenates tensors of one dtype and rank")
    axis = given["dim"] % len(shape)
    if any(not isinstance(size, int) for size in shape):
        # oneDNN takes static shapes only.
        if not all(isinstance(value.shape[axis], int) for value in values) or len(values) > _MOST_JOINED:
            raise Refused("dynamic_shape", f"what is joined has a size known only when it runs: {list(shape)}")
        return builder.op(OWN_CONCAT, values, shape, axis=axis)
    return _joined(builder, values, axis)


def _joined(builder: RegionBuilder, values: list[Value], axis: int) -> Value:
    """A concatenation of any number: parts of it first, where one operator takes no more."""
    while len(values) > _MOST_CONCATENATED:
        parts = [values[at : at + _MOST_CONCATENATED] for at in range(0, len(values), _MOST_CONCATENATED)]
        values = [_join(builder, part, axis) if len(part) > 1 else part[0] for part in parts]
    return _join(builder, values, axis)


def _join(builder: RegionBuilder, values: list[Value], axis: int) -> Value:
    first = values[0].shape
    shape = (*first[:axis], sum(int(value.shape[axis]) for value in values), *first[axis + 1 :])
    return builder.op("concat", values, shape, axis=axis)


def _pad(builder: RegionBuilder, node: Node) -> Value | None:
    """Padding with a number, as a constant beside the tensor; None where the convolutions behind it pad."""
    if is_done_by_readers(node):
        return None
    given = named_arguments(node)
    value, pad = builder.value(given["self"]), given["pad"]
    if any(not isinstance(size, int) for size in (*value.shape, *pad)):
        raise Refused("dynamic_shape", f"oneDNN pads static shapes only, not {list(value.shape)} by {pad}")
    if any(size < 0 for size in pad):
        raise Refused("attribute", f"oneDNN does not crop: pad={pad}")
    made = value
    for at in range(0, len(pad), 2):
        dim, sides = len(value.shape) - 1 - at // 2, (pad[at], pad[at + 1])
        pieces = [_filled(builder, made, dim, size, given["value"]) if size else None for size in sides]
        parts = [part for part in (pieces[0], made, pieces[1]) if part is not None]
        if len(parts) > 1:
            shape = (*made.shape[:dim], made.shape[dim] + sum(sides), *made.shape[dim + 1 :])
            made = builder.op("concat", parts, shape, axis=dim)
    return identity(builder, node) if made is value else made


def _filled(builder: RegionBuilder, like: Value, dim: int, size: int, number: Any) -> Value:
    """A constant with the sizes of another tensor but one.

    Raises:
        Refused: It would take much of the file, or its number is none.
    """
    import torch

    shape = [size if at == dim else one for at, one in enumerate(like.shape)]
    if math.prod(shape) > _MOST_FILLED or not isinstance(number, (int, float)):
        raise Refused("attribute", f"padding of {shape} with {number} stays with ExecuTorch's kernel")
    return builder.constant(torch.full(shape, float(number)), like.dtype)


def _cast(builder: RegionBuilder, node: Node) -> Value:
    result = make_value(node.meta["val"])
    if builder.is_constant(node.args[0]):
        return builder.converted_constant(node.args[0], result)
    value = builder.value(node.args[0])
    if value.dtype == result.dtype:
        return identity(builder, node)
    return builder.op("type_cast", [value], value.shape, dtype=result.dtype)


_UNARY = {
    "aten.relu.default": "relu",
    "aten.sigmoid.default": "sigmoid",
    "aten.tanh.default": "tanh",
    "aten.hardswish.default": "hard_swish",
    "aten.mish.default": "mish",
    "aten.abs.default": "abs",
    "aten.exp.default": "exp",
    "aten.log.default": "log",
    "aten.sqrt.default": "sqrt",
}
_BINARY = {"add": "add", "sub": "subtract", "mul": "multiply", "div": "divide"}

ELEMENTWISE_OPERATORS: dict[str, Emit] = {
    **{name: _unary(kind) for name, kind in _UNARY.items()},
    "aten.hardsigmoid.default": _unary("hard_sigmoid", alpha=1 / 6, beta=0.5),
    "aten.gelu.default": _gelu,
    "aten.silu.default": _silu,
    "aten.elu.default": _elu,
    "aten.prelu.default": _prelu,
    "aten.leaky_relu.default": _leaky_relu,
    "aten.softplus.default": _softplus,
    "aten.hardtanh.default": _clamp,
    "aten.clamp.default": _clamp,
    "aten.pow.Tensor_Scalar": _power,
    "aten.rsqrt.default": _over_one(root=True),
    "aten.reciprocal.default": _over_one(root=False),
    "aten.round.default": _round,
    "aten.neg.default": _negate,
    "aten.sin.default": _turn("sin"),
    "aten.cos.default": _turn("cos"),
    **{f"aten.{name}.{form}": _binary(kind) for name, kind in _BINARY.items() for form in ("Tensor", "Scalar")},
    "aten.div.Tensor_mode": _binary("divide"),
    "aten.maximum.default": _binary("maximum"),
    "aten.minimum.default": _binary("minimum"),
    "aten._softmax.default": _softmax("softmax"),
    "aten._log_softmax.default": _softmax("log_softmax"),
    "aten.mean.dim": _reduce("reduce_mean"),
    "aten.mean.default": _reduce("reduce_mean"),
    "aten.sum.default": _reduce("reduce_sum"),
    "aten.sum.dim_IntList": _reduce("reduce_sum"),
    "aten.amax.default": _reduce("reduce_max"),
    "aten.amin.default": _reduce("reduce_min"),
    "aten.prod.dim_int": _reduce("reduce_prod"),
    "aten.cat.default": _concatenate,
    "aten.constant_pad_nd.default": _pad,
    "aten._to_copy.default": _cast,
    "dim_order_ops._to_dim_order_copy.default": _cast,
}
