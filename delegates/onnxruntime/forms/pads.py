"""Padding with zeros before a maximum, in a form that ONNX Runtime's optimizer leaves alone.

```
before:  MaxPool(Pad(x, pads, 0))                      # becomes MaxPool(x, pads): its own padding counts as -inf
after:   MaxPool(Pad(x, pads, 0, axes=[0, 1, 2, 3]))
```

The fusion of paddings takes the zeros for the pooling's own padding, which is right where no value is negative only:
max(0, -1) became -1 (measured with ONNX Runtime 1.31.1, at every level of optimization that has the fusion). It
skips a Pad that names its axes.
"""

from __future__ import annotations

from edgex.delegates.onnxruntime.graph.edits import GraphEditor, made_by

_INPUTS = 4


def name_padded_axes(editor: GraphEditor) -> None:
    """Name the axes of every Pad that a MaxPool reads; all of them, so that `pads` stays as it is."""
    import numpy as np
    import onnx_ir

    for node in list(editor.graph):
        if node.op_type != "MaxPool" or node.domain not in ("", "ai.onnx"):
            continue
        pad = made_by(node.inputs[0], "Pad")
        if pad is None or len(pad.inputs) == _INPUTS or pad.inputs[0].shape is None:
            continue
        if pad.attributes.get("mode", onnx_ir.AttrString("mode", "constant")).as_string() != "constant":
            continue
        axes = editor.constant("padded_axes", np.arange(len(pad.inputs[0].shape), dtype=np.int64))
        pad.resize_inputs(_INPUTS)
        pad.replace_input_with(_INPUTS - 1, axes)
