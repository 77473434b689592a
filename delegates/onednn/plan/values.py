"""What a region is made of: tensors, what their integers mean, and operators of oneDNN Graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgex.delegates.onednn.layout.sizes import Layout, Size, View
from edgex.delegates.plan import ReasonCode

if TYPE_CHECKING:
    import torch

# Attribute values: float, int, bool, str, or a list of int.
Attributes = Mapping[str, Any]
DTYPES = {"torch.float32": "f32", "torch.bfloat16": "bf16"}
# Only between a quantize and a dequantize, and in constants; `u8` holds an s8 tensor whose values are 128 higher.
INTEGERS = ("s8", "u8")
MAX_RANK = 12
# What numbers of rows come in; oneDNN knows the first, and computes with neither.
INDICES = {"torch.int32": "s32", "torch.int64": "s64"}
# What chooses between two numbers; oneDNN does not know it.
MASKS = {"torch.bool": "bool"}
# The kinds of operator that the backend runs by itself: their layouts are plain strides.
EMBEDDING = "embedding"
# By a mask, and by numbers along one dimension.
WHERE, GATHER = "where", "gather"
# Elements, and rows, that are added at places by numbers along one dimension.
SCATTER_ADD, ADD_ROWS = SCATTERS = "scatter_add", "add_rows"
# A row that may look at nothing gives 0 in the first, as PyTorch's operator does, and NaN in the second, as a softmax
# does.
GUARDED_ATTENTION, SOFTMAX_ATTENTION = "guarded_attention", "softmax_attention"
# Tensors one behind the other, also of sizes that only a run knows.
OWN_CONCAT = "own_concat"
# With weights in so many bits, and activations that are quantized while it runs.
LOW_BIT_LINEAR = {4: "linear_4bit", 8: "linear_8bit"}
# Over the filled part of a cache, which it writes first, in the caller's memory.
CACHED_ATTENTION, CACHED_ATTENTION_INT8 = "cached_attention", "cached_attention_int8"
# Of two tensors, each repeated in any way, by the names of oneDNN's operators that do the same.
OWN_BINARY = {kind: f"own_{kind}" for kind in ("add", "subtract", "multiply", "divide", "maximum", "minimum")}
# Of each number.
OWN_UNARY = {kind: f"own_{kind}" for kind in ("sin", "cos")}


class Refused(Exception):
    """An operator is outside of what oneDNN runs; carries what a fallback needs."""

    def __init__(self, code: ReasonCode, reason: str) -> None:
        super().__init__(reason)
        self.code: ReasonCode = code
        self.reason = reason


@dataclass(frozen=True)
class Encoding:
    """What integers mean: (integer - zero point) * scale.

    Attributes:
        scales: One, or one for each place along `axis`.
        zero_points: As many.
        axis: None where there is one scale for all.
    """

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None = None

    @property
    def attributes(self) -> dict[str, Any]:
        """Those of oneDNN's Quantize and Dequantize."""
        shared = {"scales": list(self.scales), "zps": list(self.zero_points)}
        if self.axis is None:
            return {"qtype": "per_tensor", **shared}
        return {"qtype": "per_channel", "axis": self.axis, **shared}


# Integers that mean themselves.
PLAIN = Encoding((1.0,), (0,))


@dataclass(eq=False)
class Value:
    """A tensor of the region.

    Attributes:
        dtype: `f32` or `bf16`; `s8` or `u8` for what is quantized; `s32` or `s64` for numbers of rows;
            `bool` for masks.
        shape: Sizes; a scalar has the shape (1,).
        parent: What it is a view of, or None.
        view: How, where it has a parent.
        tensor: Gives a constant's content.
        argument: Position among the delegate's arguments, for inputs and outputs.
        layout: Where it lies in its memory; set for inputs and constants, by `assign_layouts` for the rest.
        opaque: oneDNN may choose the layout.
        integers: For a value that is dequantized where an operator reads it, what it is dequantized from.
        encoding: What those integers mean.
        handle: ExecuTorch's debug handle of the operator that makes it, or that dequantizes those integers; 0 where
            none does.
        bounds: The least and the largest number that it may hold, where an operator clips it.
    """

    dtype: str
    shape: tuple[Size, ...]
    parent: Value | None = None
    view: View | None = None
    tensor: Callable[[], torch.Tensor] | None = None
    argument: int | None = None
    layout: Layout | None = None
    opaque: bool = False
    integers: Value | None = None
    encoding: Encoding | None = None
    handle: int = 0
    bounds: tuple[float, float] | None = None

    @property
    def root(self) -> Value:
        """The value whose memory it shares: itself, unless it is a view."""
        return self if self.parent is None else self.parent.root

    @property
    def is_constant(self) -> bool:
        """Whether its content is known at export."""
        return self.root.tensor is not None


@dataclass(eq=False)
class Operation:
    """An operator of oneDNN Graph.

    Attributes:
        kind: Its name in `graph_api.OP_KINDS`.
        inputs: What it reads.
        output: What it makes.
        attributes: By names in `graph_api.ATTRIBUTES`.
        name: What the profiler shows.
        handle: ExecuTorch's debug handle of the operator it comes from.
        ends_partition: Whether oneDNN has no fast kernel for it with what comes after it.
    """

    kind: str
    inputs: list[Value]
    output: Value
    attributes: Attributes
    name: str
    handle: int
    ends_partition: bool = False

    @property
    def alone(self) -> bool:
        """Whether nothing after it may be fused into it.

        oneDNN 3.2 fuses a pooling with a following operator of two tensors, and then reads the second where it is not;
        and an interpolation with two sums, of which it computes something else.
        """
        return self.ends_partition or self.kind in ("max_pool", "avg_pool", "interpolate")
