"""Poolings in the forms for which ONNX Runtime's CPU provider has quick kernels: over images, eight channels at once.

```
before:  AveragePool(x)                             # x: [16, 64, 125], kernel 25; 6.8 ms
after:   Reshape(AveragePool(x'), [16, 64, 125])    # x': [1, 1024, 1, 125], kernel 1 x 25; 0.2 ms

before:  AveragePool(x)                             # x: [1, 3, 256, 256], kernel 7 x 7; 25 ms
after:   Conv(x, 1 / 49)                            # a group for each channel; 1.6 ms
```

From opset 19 on averages have a kernel that finds the place of each number by itself, unless channels are in blocks of
eight. Where padding does not count, the sums near the edges are of fewer numbers: a constant factor for each place.
Measured with ONNX Runtime 1.31 on one thread of a Zen processor without AVX-512. Left alone: numbers of channels and
padded sizes that only a run knows, ceilings that matter, and maxima whose places are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from edgex.delegates.onnxruntime.graph.edits import sizes_of

if TYPE_CHECKING:
    import numpy as np

    from edgex.delegates.onnxruntime.graph.edits import GraphEditor

_SIGNAL, _IMAGE = 3, 4
# Channels of a block.
_BLOCK = 8


@dataclass(frozen=True)
class Windows:
    """The windows of a pooling of images.

    Attributes:
        kernel: Their sizes.
        strides: How far they lie apart.
        dilations: How far their numbers lie apart.
        pads: What is added before each dimension, and then behind each.
        ceil: Whether the last window may be cut.
        padding_counts: Whether what was added is part of an average.
    """

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    pads: list[int]
    ceil: bool
    padding_counts: bool

    def sizes_for(self, sizes: list[int]) -> list[int]:
        """How many whole windows there are."""
        before, behind = self.pads[:2], self.pads[2:]
        spans = [d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]
        return [
            (size + first + last - span) // stride + 1
            for size, first, last, span, stride in zip(sizes, before, behind, spans, self.strides, strict=True)
        ]

    def counts_for(self, sizes: list[int]) -> np.ndarray:
        """How many numbers of an image are in each window, float32[1, 1, rows, columns]."""
        import numpy as np

        inside = []
        for at, (size, windows) in enumerate(zip(sizes, self.sizes_for(sizes), strict=True)):
            first = np.arange(windows)[:, None] * self.strides[at] - self.pads[at]
            places = first + np.arange(self.kernel[at]) * self.dilations[at]
            inside.append(((places >= 0) & (places < size)).sum(1))
        counts: np.ndarray = (inside[0][:, None] * inside[1]).astype(np.float32)[None, None]
        return counts


def pool_blocks(editor: GraphEditor) -> None:
    """Write every pooling of float32 signals or images so."""
    import onnx_ir

    for node in list(editor.graph):
        if node.op_type not in ("AveragePool", "MaxPool") or node.domain not in ("", "ai.onnx"):
            continue
        x, padded = node.inputs[0], node.attributes.get("auto_pad")
        fits = x.shape is not None and len(x.shape) in (_SIGNAL, _IMAGE) and x.dtype == onnx_ir.DataType.FLOAT
        if fits and len(node.outputs) == 1 and (padded is None or padded.as_string() == "NOTSET"):
            _pool(editor, node)
    editor.remove_unused()


def _pool(editor: GraphEditor, node: Any) -> None:
    import numpy as np

    x, y = node.inputs[0], node.outputs[0]
    sizes, out, channels = sizes_of(x), sizes_of(y), x.shape[1]
    if not isinstance(channels, int):
        return
    windows = _read_windows(node, signal=len(x.shape) == _SIGNAL)
    if len(x.shape) == _IMAGE and (node.op_type == "MaxPool" or channels % _BLOCK == 0):
        return
    if sizes is None or out is None or (node.op_type == "AveragePool" and prod(sizes[:2]) % _BLOCK):
        if node.op_type == "AveragePool":
            _convolve(editor, node, windows, sizes)
        return
    inner = [*([1] if len(sizes) == _SIGNAL else []), *sizes[2:]]
    made = [*([1] if len(sizes) == _SIGNAL else []), *out[2:]]
    rows = prod(sizes[:2])
    blocks = editor.constant("blocks", np.array([1, rows, *inner], dtype=np.int64))
    pooled = editor.constant("pooled", np.array(out, dtype=np.int64))
    (z,) = editor.insert("Reshape", [x, blocks], f"{node.name}_rows", at=node, types=[(x.dtype, [1, rows, *inner])])
    attributes = {
        "kernel_shape": windows.kernel,
        "strides": windows.strides,
        **({"dilations": windows.dilations} if windows.dilations != [1, 1] else {}),  # averages have them since 19
        "pads": windows.pads,
        "ceil_mode": int(windows.ceil),
        **({"count_include_pad": int(windows.padding_counts)} if node.op_type == "AveragePool" else {}),
    }
    types = [(y.dtype, [1, rows, *made])]
    (z,) = editor.insert(node.op_type, [z], f"{node.name}_of_rows", at=node, types=types, attributes=attributes)
    (z,) = editor.insert("Reshape", [z, pooled], f"{node.name}_back", at=node, types=[(y.dtype, out)])
    editor.replace(y, z)


def _read_windows(node: Any, *, signal: bool) -> Windows:
    """Those of a pooling, of a signal as of an image of one row."""
    dims = 1 if signal else 2

    def read(name: str, default: list[int]) -> list[int]:
        attribute = node.attributes.get(name)
        return default if attribute is None else list(attribute.as_ints())

    def flag(name: str) -> bool:
        attribute = node.attributes.get(name)
        return attribute is not None and bool(attribute.as_int())

    first = [1] if signal else []
    pads = read("pads", [0] * (2 * dims))
    none = [0] if signal else []
    return Windows(
        kernel=first + read("kernel_shape", []),
        strides=first + read("strides", [1] * dims),
        dilations=first + read("dilations", [1] * dims),
        pads=none + pads[:dims] + none + pads[dims:],
        ceil=flag("ceil_mode"),
        padding_counts=flag("count_include_pad") or not any(pads),
    )


def _convolve(editor: GraphEditor, node: Any, windows: Windows, sizes: tuple[int, ...] | None) -> None:
    """Write an average as a convolution with a group for each channel."""
    import numpy as np

    x, y = node.inputs[0], node.outputs[0]
    signal, channels = len(x.shape) == _SIGNAL, int(x.shape[1])
    inner = None if sizes is None else [*([1] if signal else []), *sizes[2:]]
    if inner is None and (windows.ceil or not windows.padding_counts):
        return
    made = None if inner is None else windows.sizes_for(inner)
    if made is not None and windows.ceil and made[-len(y.shape) + 2 :] != list(y.shape[2:]):
        return
    unknown: list[Any] = [None, None]
    shape = [x.shape[0], channels, *(made or unknown)]
    axis = editor.constant("image_axis", np.array([2], dtype=np.int64))
    z = x
    if signal:
        image = [*list(x.shape)[:2], 1, x.shape[2]]
        (z,) = editor.insert("Unsqueeze", [z, axis], f"{node.name}_image", at=node, types=[(x.dtype, image)])
    share = np.full((channels, 1, *windows.kernel), 1 / prod(windows.kernel), dtype=np.float32)
    attributes = {
        "kernel_shape": windows.kernel,
        "strides": windows.strides,
        "dilations": windows.dilations,
        "pads": windows.pads,
        "group": channels,
    }
    weight = editor.constant("share", share)
    types = [(y.dtype, shape)]
    (z,) = editor.insert("Conv", [z, weight], f"{node.name}_sums", at=node, types=types, attributes=attributes)
    if not windows.padding_counts and inner is not None:
        factors = (prod(windows.kernel) / windows.counts_for(inner)).astype(np.float32)
        (z,) = editor.insert(
            "Mul", [z, editor.constant("factors", factors)], f"{node.name}_means", at=node, types=types
        )
    if signal:
        (z,) = editor.insert("Squeeze", [z, axis], f"{node.name}_signal", at=node, types=[(y.dtype, y.shape)])
    editor.replace(y, z)
