"""The one adapter over oneDNN Graph's C interface at export: which operators it takes, and what it would fuse.

Numbers are those of `oneapi/dnnl/dnnl_graph_types.h`, where names are only added at the end. Nothing is compiled here
for a processor: plans are compiled where they are loaded.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from edgex.delegates.onednn.plan.values import (
    CACHED_ATTENTION,
    CACHED_ATTENTION_INT8,
    EMBEDDING,
    GATHER,
    GUARDED_ATTENTION,
    LOW_BIT_LINEAR,
    OWN_BINARY,
    OWN_CONCAT,
    OWN_UNARY,
    SCATTERS,
    SOFTMAX_ATTENTION,
    WHERE,
    Operation,
    Value,
)
from edgex.errors import LoweringError
from edgex.runtime.engines.onednn.library import find_library

DTYPES = {"bf16": 2, "f32": 3, "s8": 5, "u8": 6}
OP_KINDS = {
    "abs": 0,
    "add": 2,
    "avg_pool": 3,
    "batch_norm_inference": 7,
    "clamp": 10,
    "concat": 12,
    "convolution": 13,
    "conv_transpose": 16,
    "dequantize": 19,
    "divide": 20,
    "elu": 23,
    "end": 25,
    "exp": 26,
    "gelu": 27,
    "hard_swish": 29,
    "interpolate": 31,
    "layer_norm": 33,
    "leaky_relu": 35,
    "log": 36,
    "log_softmax": 37,
    "matmul": 39,
    "maximum": 40,
    "max_pool": 41,
    "minimum": 43,
    "mish": 44,
    "multiply": 46,
    "quantize": 49,
    "reduce_max": 53,
    "reduce_mean": 54,
    "reduce_min": 55,
    "reduce_prod": 56,
    "reduce_sum": 57,
    "relu": 58,
    "reorder": 60,
    "round": 61,
    "sigmoid": 62,
    "softmax": 64,
    "softplus": 66,
    "sqrt": 68,
    "square": 70,
    "subtract": 74,
    "tanh": 75,
    "type_cast": 77,
    "hard_sigmoid": 79,
}
# What the backend runs without oneDNN's graphs, under numbers that oneDNN does not have.
_FIRST_OWN = 1 << 16
OWN_KINDS = {
    EMBEDDING: _FIRST_OWN + 1,
    GUARDED_ATTENTION: _FIRST_OWN + 2,
    SOFTMAX_ATTENTION: _FIRST_OWN + 3,
    **{kind: _FIRST_OWN + 4 + number for number, kind in enumerate(OWN_BINARY.values())},
    WHERE: _FIRST_OWN + 10,
    GATHER: _FIRST_OWN + 11,
    CACHED_ATTENTION: _FIRST_OWN + 12,
    CACHED_ATTENTION_INT8: _FIRST_OWN + 16,
    OWN_CONCAT: _FIRST_OWN + 15,
    LOW_BIT_LINEAR[4]: _FIRST_OWN + 13,
    LOW_BIT_LINEAR[8]: _FIRST_OWN + 14,
    **{kind: _FIRST_OWN + 17 + number for number, kind in enumerate(OWN_UNARY.values())},
    **{kind: _FIRST_OWN + 19 + number for number, kind in enumerate(SCATTERS)},
}
ATTRIBUTES = {
    "alpha": 0x1,
    "beta": 0x2,
    "epsilon": 0x3,
    "max": 0x4,
    "min": 0x5,
    "scales": 0x20,
    "axis": 0x30,
    "begin_norm_axis": 0x31,
    "groups": 0x32,
    "axes": 0x40,
    "dilations": 0x41,
    "kernel": 0x43,
    "output_padding": 0x45,
    "pads_begin": 0x46,
    "pads_end": 0x47,
    "sizes": 0x49,
    "strides": 0x4B,
    "zps": 0x4D,
    "exclude_pad": 0x60,
    "keep_dims": 0x61,
    "keep_stats": 0x62,
    "transpose_b": 0x66,
    "use_affine": 0x67,
    "coordinate_transformation_mode": 0x82,
    "data_format": 0x83,
    "mode": 0x84,
    "qtype": 0x85,
    "rounding_type": 0x86,
    "weights_format": 0x87,
    # Of the backend's own operators.
    "window": 1 << 16,
}
_MAX_RANK = 12
_UNKNOWN_SIZE = -(1 << 63)
_CPU = 1
_FUSE = 1
_UNDEFINED_LAYOUT = 0
_VARIABLE, _CONSTANT = 1, 2


@dataclass(frozen=True)
class Partition:
    """What oneDNN made one call of: positions in the list of operators, and whether it runs them."""

    operators: tuple[int, ...]
    supported: bool


class _LogicalTensor(ctypes.Structure):
    _fields_ = (
        ("id", ctypes.c_size_t),
        ("rank", ctypes.c_int),
        ("dims", ctypes.c_int64 * _MAX_RANK),
        ("data_type", ctypes.c_int),
        ("property", ctypes.c_int),
        ("layout_type", ctypes.c_int),
        ("strides", ctypes.c_int64 * _MAX_RANK),
    )


def partition(operations: Sequence[Operation]) -> list[Partition]:
    """Ask oneDNN how it would fuse these operators.

    Values that views look at, or that leave the region, are protected from being fused away as they are at run time.
    What the backend runs by itself is a partition by itself.

    Raises:
        LoweringError: oneDNN does not accept an operator; a lowering is wrong, or the library is another.
    """
    own = [Partition((number,), True) for number, step in enumerate(operations) if step.kind in OWN_KINDS]
    if len(own) == len(operations):
        return own
    graph = _Graph()
    try:
        for number, operation in enumerate(operations):
            if operation.kind in OWN_KINDS:
                continue
            graph.add(number, operation.kind, operation.inputs, [operation.output], operation.attributes)
        read_through_views = {value.root for step in operations for value in step.inputs if value.parent is not None}
        outputs = [step.output for step in operations if step.output in read_through_views]
        outputs += [step.output for step in operations if step.output.argument is not None or step.alone]
        made_by_us = {step.output for step in operations if step.kind in OWN_KINDS}
        for number, value in enumerate(value for value in dict.fromkeys(outputs) if value not in made_by_us):
            graph.add(len(operations) + number, "end", [value], [], {})
        found = graph.partitions()
    finally:
        graph.close()
    inside = [Partition(tuple(i for i in p.operators if i < len(operations)), p.supported) for p in found]
    return own + [item for item in inside if item.operators]


class _Graph:
    """A graph under construction; `close` gives its memory back."""

    def __init__(self) -> None:
        self._library = _library()
        self._graph = ctypes.c_void_p()
        self._ids: dict[Value, int] = {}
        self._call("graph_create", ctypes.byref(self._graph), _CPU)

    def add(self, number: int, kind: str, inputs: Sequence[Value], outputs: Sequence[Value], attributes: Any) -> None:
        operator = ctypes.c_void_p()
        name = f"{kind}_{number}".encode()
        self._call("op_create", ctypes.byref(operator), ctypes.c_size_t(number), OP_KINDS[kind], name)
        try:
            for value in inputs:
                self._call("op_add_input", operator, ctypes.byref(self._describe(value)))
            for value in outputs:
                self._call("op_add_output", operator, ctypes.byref(self._describe(value)))
            for attribute, content in attributes.items():
                self._set(operator, ATTRIBUTES[attribute], content)
            self._call("add_op", self._graph, operator, doing=f"adding {kind} {dict(attributes)}")
        finally:
            self._call("op_destroy", operator)

    def partitions(self) -> list[Partition]:
        self._call("graph_finalize", self._graph)
        self._call("graph_filter", self._graph, _FUSE)
        count = ctypes.c_size_t()
        self._call("graph_get_partition_num", self._graph, ctypes.byref(count))
        handles = (ctypes.c_void_p * count.value)()
        self._call("graph_get_partitions", self._graph, count, handles)
        return [self._read(ctypes.c_void_p(handle)) for handle in handles]

    def close(self) -> None:
        self._call("graph_destroy", self._graph)

    def _read(self, handle: ctypes.c_void_p) -> Partition:
        size, supported = ctypes.c_size_t(), ctypes.c_uint8()
        try:
            self._call("partition_get_op_num", handle, ctypes.byref(size))
            numbers = (ctypes.c_size_t * size.value)()
            self._call("partition_get_ops", handle, size, numbers)
            self._call("partition_is_supported", handle, ctypes.byref(supported))
        finally:
            self._call("partition_destroy", handle)
        return Partition(tuple(sorted(numbers)), bool(supported.value))

    def _describe(self, value: Value) -> _LogicalTensor:
        tensor = _LogicalTensor()
        rank = len(value.shape)
        dims = (ctypes.c_int64 * _MAX_RANK)(*[s if isinstance(s, int) else _UNKNOWN_SIZE for s in value.shape])
        number = ctypes.c_size_t(self._ids.setdefault(value, len(self._ids)))
        kind = _CONSTANT if value.is_constant else _VARIABLE
        self._call(
            "logical_tensor_init_with_dims",
            *(ctypes.byref(tensor), number, DTYPES[value.dtype], rank, dims, _UNDEFINED_LAYOUT, kind),
        )
        return tensor

    def _set(self, operator: ctypes.c_void_p, code: int, content: Any) -> None:
        if isinstance(content, str):
            text = content.encode()
            self._call("op_set_attr_str", operator, code, text, ctypes.c_size_t(len(text)))
        elif isinstance(content, bool):
            self._call("op_set_attr_bool", operator, code, (ctypes.c_uint8 * 1)(content), ctypes.c_size_t(1))
        elif isinstance(content, float) or (isinstance(content, list) and isinstance(content[0], float)):
            floats = content if isinstance(content, list) else [content]
            array: Any = (ctypes.c_float * len(floats))(*floats)
            self._call("op_set_attr_f32", operator, code, array, ctypes.c_size_t(len(floats)))
        else:
            numbers = content if isinstance(content, list) else [content]
            array = (ctypes.c_int64 * len(numbers))(*numbers)
            self._call("op_set_attr_s64", operator, code, array, ctypes.c_size_t(len(numbers)))

    def _call(self, function: str, *arguments: Any, doing: str | None = None) -> None:
        name = f"dnnl_graph_{function}"
        status = getattr(self._library, name)(*arguments)
        if status:
            raise LoweringError(
                f"oneDNN refused a call: {doing or name} gave status {status}",
                fix="install the tested onednn-cpu-gomp, or unset EDGEX_ONEDNN_LIB",
            )


@cache
def _library() -> ctypes.CDLL:
    """The library.

    Raises:
        TargetUnavailable: It is not installed.
    """
    # torch first, where it is imported at all: its libgomp is then the one that both use.
    import torch  # noqa: F401

    return ctypes.CDLL(str(find_library()))
