"""XNNPACK's serialized graph: the one adapter over its schema, which ExecuTorch ships without a reader.

`flatc`, which the exporter itself writes these graphs with, turns the bytes into JSON by the same schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from edgex.delegates.executorch.inner import InnerNode
from edgex.runtime.support.disk.scratch import scratch_folder

_NOT_JSON = re.compile(r"(?<=[\s:,\[-])(?:inf|nan)\b(?=[\s,\]}])")

# What the exporter gives to nodes that come from no operator.
_NO_HANDLE = 65535

# Operators that a kind of node implements, where its name does not say it.
_OPERATORS: Mapping[str, tuple[str, ...]] = {
    "FullyConnected": ("linear", "addmm", "mm"),
    "BatchMatrixMultiply": ("bmm", "matmul"),
    "Conv2d": ("convolution", "conv2d"),
    "DepthwiseConv2d": ("convolution", "conv2d"),
    "ConvTranspose2d": ("convolution", "conv_transpose2d"),
    "StaticTranspose": ("permute_copy", "permute", "transpose_copy"),
    "StaticReshape": ("view_copy", "view", "unsqueeze_copy", "squeeze_copy", "reshape", "_unsafe_view"),
    "StaticSlice": ("slice_copy", "slice"),
    "StaticConstantPad": ("constant_pad_nd",),
    "GlobalAvgPooling2d": ("mean",),
    "AvgPooling2d": ("avg_pool2d",),
    "MaxPooling2d": ("max_pool2d",),
    "Clamp": ("relu", "hardtanh", "clamp"),
    "Multiply": ("mul",),
    "Subtract": ("sub",),
    "Add": ("add",),
    "Div": ("div",),
    "SquareRoot": ("sqrt",),
    "ReciprocalSquareRoot": ("rsqrt",),
    "Softmax": ("_softmax", "softmax"),
    "Sigmoid": ("sigmoid",),
}


def read_nodes(processed: bytes) -> list[InnerNode]:
    """The nodes of one region, in XNNPACK's order.

    Raises:
        ValueError: The bytes are not what the installed exporter writes.
    """
    graph = _as_json(_flatbuffer(processed))
    return [_read_node(node) for node in graph["xnodes"]]


def _read_node(node: Mapping[str, Any]) -> InnerNode:
    kind = node["xnode_union_type"].removeprefix("XNN")
    ids = {name: value for name, value in node["xnode_union"].items() if name.endswith("_id")}
    return InnerNode(
        kind=kind,
        handle=None if node["debug_handle"] == _NO_HANDLE else node["debug_handle"],
        reads=tuple(value for name, value in ids.items() if not name.startswith("output")),
        writes=tuple(value for name, value in ids.items() if name.startswith("output")),
        converts=kind == "Convert",
        operators=_OPERATORS.get(kind, ()),
    )


def _flatbuffer(processed: bytes) -> bytes:
    """The graph's part of the bytes, which the header names."""
    from executorch.backends.xnnpack.serialization.xnnpack_graph_serialize import XNNHeader

    header = XNNHeader.from_bytes(processed[: XNNHeader.EXPECTED_LENGTH])
    if not header.is_valid():
        raise ValueError("the header of XNNPACK's graph has changed")
    return processed[header.flatbuffer_offset : header.flatbuffer_offset + header.flatbuffer_size]


def _as_json(flatbuffer: bytes) -> Any:
    from executorch.backends.xnnpack.serialization.xnnpack_graph_serialize import _get_schema_bytes
    from executorch.exir._serialize._flatbuffer import _flatc_decompile

    with scratch_folder("xnnpack") as folder:
        schema, binary = folder / "schema.fbs", folder / "graph.bin"
        schema.write_bytes(_get_schema_bytes())
        binary.write_bytes(flatbuffer)
        _flatc_decompile(str(folder), str(schema), str(binary), ["--raw-binary"])
        text = (folder / "graph.json").read_text(encoding="utf-8")
    # flatc writes what JSON has no word for: bounds of activations are often infinite.
    return json.loads(_NOT_JSON.sub(lambda found: "Infinity" if found[0] == "inf" else "NaN", text))
