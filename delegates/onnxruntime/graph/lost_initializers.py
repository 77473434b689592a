"""Give a graph the constants that its operators read and it does not have.

```
before:  initializers: x_min, x_max                     a = Clip(x, x_min, x_max); b = Clip(x, x_min_1, x_max_1)
after:   initializers: x_min, x_max, x_min_1, x_max_1   a and b unchanged
```

onnxscript's optimizer makes one Clip of `Min(Max(x, a), b)` and names its constants after x; of two that read the same
x the second pair gets other names later, but never a place in the graph (`_min_max_to_clip.py` and
`_fuse_relus_clips.py` among the rules of onnxscript 0.7). ONNX Runtime refuses to load such a file.
"""

from __future__ import annotations

from typing import Any


def register_lost_initializers(model: Any) -> int:
    """Add every constant without a place to the model's graph.

    Args:
        model: An `onnx_ir.Model` after it was optimized, changed in place.

    Returns:
        How many there were.
    """
    import onnx_ir

    graph = model.graph
    known = {id(value) for value in (*graph.initializers.values(), *graph.inputs)}
    found = 0
    for node in onnx_ir.traversal.RecursiveGraphIterator(graph):
        for at, value in enumerate(node.inputs):
            if value is None or value.producer() is not None or value.const_value is None or id(value) in known:
                continue
            if value.graph is not None and value.graph is not graph:
                continue  # a subgraph's own
            if value.name in graph.initializers:
                own = onnx_ir.Value(name=_free_name(graph, value.name), const_value=value.const_value)
                own.type, own.shape = value.type, value.shape
                node.replace_input_with(at, own)
                value = own
            graph.register_initializer(value)
            known.add(id(value))
            found += 1
    return found


def _free_name(graph: Any, name: str) -> str:
    number = 1
    while f"{name}_{number}" in graph.initializers:
        number += 1
    return f"{name}_{number}"
