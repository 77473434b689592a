"""What XNNPACK reports of its own operators, brought together with the nodes of the graph that it was given.

Its events carry a name, no identifier: `Convolution (NHWC, F32) IGEMM #1`. They come in the graph's order, without the
nodes that XNNPACK fused (activations, conversions) and with names of its own choice (a 1 x 1 convolution runs as
`Fully Connected`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from edgex.runtime.engines.trace.alignment import Match, align

# fmt: off
_UNARY = (
    "Abs", "Ceiling", "Clamp", "Convert", "Copy", "Cos", "ELU", "Exp", "Floor", "Gelu", "Hardswish", "LeakyReLU", "Log",
    "Negate", "ReciprocalSquareRoot", "Sigmoid", "Sin", "Square", "SquareRoot", "Tanh",
)
_BINARY = ("Add", "Div", "Maximum", "Minimum", "Multiply", "PReLU", "Subtract")
# fmt: on
_CONCATENATIONS = tuple(f"Concatenate{count}" for count in range(2, 6))

# Event -> kinds of node that it may be, the usual one first.
_KINDS: Mapping[str, Sequence[str]] = {
    "ApproxGELU": ("Gelu",),
    "ArgMax Pooling": ("ArgMaxPooling2d",),
    "Average Pooling": ("AvgPooling2d", "GlobalAvgPooling2d"),
    "Batch Matrix Multiply": ("BatchMatrixMultiply", "FullyConnected"),
    "Binary Elementwise": _BINARY,
    "Constant Pad": ("StaticConstantPad",),
    "Convolution": ("Conv2d", "DepthwiseConv2d"),
    "Copy": (*_CONCATENATIONS, "Copy", "StaticReshape", "StaticSlice"),
    "Cosine": ("Cos",),
    "Deconvolution": ("ConvTranspose2d",),
    "Divide": ("Div",),
    "Dynamic Fully Connected": ("FullyConnected", "BatchMatrixMultiply"),
    "Fully Connected": ("FullyConnected", "Conv2d"),
    "GELU": ("Gelu",),
    "Global Average Pooling": ("GlobalAvgPooling2d", "AvgPooling2d"),
    "HardSwish": ("Hardswish",),
    "Invalid Binary Op": _BINARY,
    "Invalid Unary Op": _UNARY,
    "Max Pooling": ("MaxPooling2d",),
    "Mean": ("GlobalAvgPooling2d", "AvgPooling2d"),
    "Reciprocal Square Root": ("ReciprocalSquareRoot",),
    "Resize Bilinear": ("StaticResizeBilinear2D",),
    "Sine": ("Sin",),
    "Slice": ("StaticSlice",),
    "Square Root": ("SquareRoot",),
    "Static Reshape": ("StaticReshape",),
    "Sum": ("GlobalAvgPooling2d",),
    "TanH": ("Tanh",),
    "Transpose": ("StaticTranspose",),
    "Unary Elementwise": _UNARY,
}

# XNNPACK folds these into their neighbours; every other node runs.
_OFTEN_FUSED = ("Clamp", "Convert", "Copy", "StaticReshape", "StaticTranspose")
_LEAVE_FUSED, _LEAVE_OTHER, _LEAVE_EVENT = 1.0, 4.0, 6.0
# Of two nodes that fit, the one of the usual kind.
_UNUSUAL = 0.5

_NUMBER = re.compile(r" #\d+$")


def event_type(name: str) -> str:
    """`Convolution (NHWC, F32) IGEMM` of `Convolution (NHWC, F32) IGEMM #1`."""
    return _NUMBER.sub("", name)


def match_events(names: Sequence[str], nodes: Sequence[Mapping[str, Any]]) -> list[tuple[Match, tuple[int, ...]]]:
    """The node of each event.

    Args:
        names: The events of one region, in order.
        nodes: The region's nodes as the source map has them.

    Returns:
        For each event its match, and the nodes that ran within it: its own first, then those that were fused into it.
    """
    slots = [index for index, node in enumerate(nodes) for _ in range(_events_of(node["kind"]))]
    known: dict[tuple[str, str], float | None] = {}

    def cost(event: int, slot: int) -> float | None:
        key = (event_type(names[event]), nodes[slots[slot]]["kind"])
        if key not in known:
            known[key] = _cost(*key)
        return known[key]

    leave = [_LEAVE_FUSED if nodes[index]["kind"] in _OFTEN_FUSED else _LEAVE_OTHER for index in slots]
    matches = [
        Match(None if match.node is None else slots[match.node], match.only_choice)
        for match in align(len(names), len(slots), cost, leave, _LEAVE_EVENT)
    ]
    taken = {match.node for match in matches if match.node is not None}
    # With an event that has no certain node, a node without an event may be just that: it is not fused for certain.
    certain = all(match.node is not None for match in matches)
    fused: dict[int, list[int]] = {}
    for index in range(len(nodes)) if certain else ():
        if index not in taken and (into := _fused_into(index, nodes, taken)) is not None:
            fused.setdefault(into, []).append(index)
    return [(match, () if match.node is None else (match.node, *fused.get(match.node, ()))) for match in matches]


def _cost(event: str, kind: str) -> float | None:
    """Cost of an event and a node of this kind that belong together; None where they cannot."""
    base = event.split(" (")[0]
    kinds = _KINDS.get(base, (base.replace(" ", ""),))
    if kind not in kinds:
        return None
    if base == "Convolution":
        return 0.0 if ("DWConv" in event) == (kind == "DepthwiseConv2d") else _UNUSUAL
    return 0.0 if kind == kinds[0] or len(kinds) > 3 else _UNUSUAL


def _events_of(kind: str) -> int:
    """A concatenation copies each of its inputs."""
    return int(kind[-1]) if kind in _CONCATENATIONS else 1


def _fused_into(index: int, nodes: Sequence[Mapping[str, Any]], taken: set[int]) -> int | None:
    """The node with an event that does the work of one without: an activation's producer, a conversion's consumer."""
    producers = list(nodes[index]["after"])
    consumers = [at for at, node in enumerate(nodes) if index in node["after"]]
    near: list[int] = [*consumers, *producers] if nodes[index]["kind"] == "Convert" else [*producers, *consumers]
    direct = next((at for at in near if at in taken), None)
    if direct is not None:
        return direct
    return next((at for start in near for at in nodes[start]["after"] if at in taken), None)
