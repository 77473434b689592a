"""Copies of single numbers as copies of rows: ONNX Runtime's CPU kernels take 8 to 25 ns for each of the former.

```
before:  Gather(x, indices, axis=1)                          # x: [2000, 64], indices: [256]
after:   Transpose(Gather(Transpose(x), indices, axis=0))    # 4.2 -> 0.25 ms

before:  Expand(x, [2000, 64, 4])                            # x: [2000, 64, 1]
after:   Reshape(Transpose(Concat(x', x', x', x')), [2000, 64, 4])      # x': [1, 128000]; 3.1 -> 0.28 ms

before:  Mul(Expand(x, [500, 8, 64]), y)                     # x: [500, 1, 64]
after:   Mul(x, y)
```

Measured with ONNX Runtime 1.31 on one thread of a Zen processor without AVX-512. Left alone: sizes that only a run
knows, and indices of rows of more than two numbers, which a copy of the whole would not make quicker.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from edgex.delegates.onnxruntime.forms.broadcasting import BINARY, innermost_span, repeat_each
from edgex.delegates.onnxruntime.graph.edits import sizes_of

if TYPE_CHECKING:
    from edgex.delegates.onnxruntime.graph.edits import GraphEditor

# Fewer numbers are not worth three nodes instead of one.
_FEWEST = 512
# Numbers of a row from which on its copy is as quick as that of the whole.
_SHORT = 2
# How many numbers may be copied into another order for each one that is read.
_MOST_MOVED = 8
# From so many copies of a number on, ONNX Runtime writes them as one.
_MANY_COPIES = 16
# From such a span on, an operator is as quick with an operand that is repeated as with its copies.
_LONG_SPAN = 16


def read_rows(editor: GraphEditor) -> None:
    """Write every such read of columns."""
    for node in list(editor.graph):
        if node.op_type == "Gather" and node.domain in ("", "ai.onnx"):
            _read_rows(editor, node)
    editor.remove_unused()


def _read_rows(editor: GraphEditor, node: Any) -> None:
    x, indices = node.inputs
    sizes, places, out = sizes_of(x), sizes_of(indices), sizes_of(node.outputs[0])
    if sizes is None or not places or out is None:
        return
    attribute = node.attributes.get("axis")
    axis = (attribute.as_int() if attribute is not None else 0) % len(sizes)
    moved, made = prod(sizes), prod(out)
    if axis == 0 or prod(sizes[axis + 1 :]) > _SHORT or made < _FEWEST or moved > _MOST_MOVED * made:
        return
    others = [at for at in range(len(sizes)) if at != axis]
    first = [axis, *others]
    dtype = x.dtype
    (columns,) = editor.insert(
        "Transpose",
        [x],
        f"{node.name}_columns",
        at=node,
        types=[(dtype, [sizes[at] for at in first])],
        attributes={"perm": first},
    )
    rest = [sizes[at] for at in others]
    (rows,) = editor.insert(
        "Gather",
        [columns, indices],
        f"{node.name}_rows",
        at=node,
        types=[(dtype, [*places, *rest])],
        attributes={"axis": 0},
    )
    # Those before the axis, the indices' own, those behind it.
    count = len(places)
    back = [*range(count, count + axis), *range(count), *range(count + axis, count + len(rest))]
    (y,) = editor.insert(
        "Transpose", [rows], f"{node.name}_back", at=node, types=[(dtype, out)], attributes={"perm": back}
    )
    editor.replace(node.outputs[0], y)


def repeat_rows(editor: GraphEditor) -> None:
    """Write every such repetition, or leave it to the operators that read it."""
    for node in list(editor.graph):
        if node.op_type == "Expand" and node.domain in ("", "ai.onnx"):
            _let_operators_repeat(node)
            if node.outputs[0].uses() or node.outputs[0].is_graph_output():
                _repeat_rows(editor, node)
    editor.remove_unused()


def _let_operators_repeat(node: Any) -> None:
    """Give what is not yet repeated to those operators that repeat it as well."""
    x, repeated = node.inputs[0], node.outputs[0]
    sizes, out = sizes_of(x), sizes_of(repeated)
    if sizes is None or out is None:
        return
    for user, index in list(repeated.uses()):
        if user.op_type not in BINARY or user.domain not in ("", "ai.onnx") or len(user.inputs) != 2:
            continue
        other = sizes_of(user.inputs[1 - index])
        if other is None or user.inputs[0] is user.inputs[1] or sizes_of(user.outputs[0]) != other:
            continue
        if innermost_span(sizes, other, other) >= _LONG_SPAN:
            user.replace_input_with(index, x)


def _repeat_rows(editor: GraphEditor, node: Any) -> None:
    x, repeated = node.inputs[0], node.outputs[0]
    sizes, out = sizes_of(x), sizes_of(repeated)
    if not sizes or out is None or len(sizes) != len(out) or sizes[-1] != 1 or sizes[:-1] != out[:-1]:
        return
    copies, count = out[-1], prod(sizes)
    if 1 < copies < _MANY_COPIES and count * copies >= _FEWEST:
        editor.replace(repeated, repeat_each(editor, x, copies, out, at=node))
