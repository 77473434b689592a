"""Operators of two operands that repeat one of them every few numbers, over longer runs.

```
before:  Mul(x, y)                                     # x: [126000, 3], y: [3]
after:   Reshape(Mul(x', y'), [126000, 3])             # x': [750, 504], y': y 168 times; 1.86 -> 0.13 ms

before:  Sub(x, y)                                     # x: [500, 1, 3], y: [1, 500, 3]
after:   Reshape(Sub(x', y'), [500, 500, 3])           # x': [500, 1, 375], each row 125 times, y': [1, 4, 375]

before:  Mul(x, y)                                     # x: [126000, 3], y: [126000, 1]
after:   Mul(x, each of y three times)                 # 1.77 -> 0.35 ms
```

ONNX Runtime's CPU kernels go through both operands run by run, where the sizes say which operand is repeated in the
same way: 14 ns for each run, whatever its length (1.31, one thread of a Zen processor without AVX-512).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from edgex.delegates.onnxruntime.graph.edits import made_by, sizes_of

if TYPE_CHECKING:
    from edgex.delegates.onnxruntime.graph.edits import GraphEditor

BINARY = frozenset({"Add", "Sub", "Mul", "Div", "Max", "Min", "Pow"})

# Shorter runs are lengthened.
_SHORT_RUN = 8
# How long a run should become, in numbers.
_LONG_RUN = 512
# From so many runs on it is worth it: some nodes cost as much as a thousand runs.
_FEWEST_RUNS = 1024
# One copy for so many runs that are spared.
_LEAST_SPARED = 4


@dataclass(frozen=True)
class Group:
    """Neighbouring dimensions in which the same operands are repeated.

    Attributes:
        size: Their numbers together.
        repeated: Which operand is repeated, 0 or 1; None where neither is.
    """

    size: int
    repeated: int | None


def group_dimensions(left: tuple[int, ...], right: tuple[int, ...], out: tuple[int, ...]) -> list[Group]:
    """The groups from the outermost in; dimensions of one number belong to any."""
    padded = [(1,) * (len(out) - len(sizes)) + sizes for sizes in (left, right)]
    found: list[Group] = []
    for size, *operands in zip(out, *padded, strict=True):
        if size == 1:
            continue
        repeated = next((which for which, own in enumerate(operands) if own == 1), None)
        if found and found[-1].repeated == repeated:
            found[-1] = Group(found[-1].size * size, repeated)
        else:
            found.append(Group(size, repeated))
    return found


def innermost_span(left: tuple[int, ...], right: tuple[int, ...], out: tuple[int, ...]) -> int:
    """How many numbers ONNX Runtime computes at once."""
    groups = group_dimensions(left, right, out)
    return groups[-1].size if groups else 1


def lengthen_runs(editor: GraphEditor) -> None:
    """Write every such operator over longer runs."""
    for node in list(editor.graph):
        # Of maxima and minima there may be one operand, or several.
        binary = node.op_type in BINARY and node.domain in ("", "ai.onnx") and len(node.inputs) == 2
        if binary and not _is_bias(node):
            _lengthen(editor, node)
    editor.remove_unused()


def _is_bias(node: Any) -> bool:
    """Whether it becomes part of the product before it when the model is loaded."""
    return node.op_type == "Add" and any(made_by(value, "MatMul") is not None for value in node.inputs)


def _lengthen(editor: GraphEditor, node: Any) -> None:
    left, right, out = (sizes_of(value) for value in (*node.inputs, node.outputs[0]))
    if left is None or right is None or out is None or 0 in out:
        return
    groups = group_dimensions(left, right, out)
    if len(groups) < 2 or groups[-1].size >= _SHORT_RUN or prod(out) // groups[-1].size < _FEWEST_RUNS:
        return
    if groups[-1].repeated is not None:
        _repeat_each(editor, node, out, groups[-1])
    elif groups[-2].repeated is not None:
        _repeat_runs(editor, node, out, groups)


def _repeat_each(editor: GraphEditor, node: Any, out: tuple[int, ...], last: Group) -> None:
    """Repeat the numbers of one operand that the last dimensions repeat."""
    assert last.repeated is not None
    operand = node.inputs[last.repeated]
    own = sizes_of(operand) or ()
    padded = (1,) * (len(out) - len(own)) + own
    # The dimensions of the last group, from its first one that has more than one number.
    inner, start = 1, len(out)
    while inner < last.size:
        start -= 1
        inner *= out[start]
    node.replace_input_with(
        last.repeated, repeat_each(editor, operand, last.size, (*padded[:start], *out[start:]), at=node)
    )


def _repeat_runs(editor: GraphEditor, node: Any, out: tuple[int, ...], groups: list[Group]) -> None:
    """Repeat the runs of one operand so often that they are long, and read the other one in as long runs."""
    import numpy as np

    *outer, before, run = groups
    which = before.repeated
    assert which is not None
    own, runs = prod(sizes_of(node.inputs[which]) or ()) // run.size, prod(out) // run.size
    # Each copy is a run, too.
    fitting = [
        times
        for times in range(-(-_SHORT_RUN // run.size), _LONG_RUN // run.size + 1)
        if before.size % times == 0 and own * times * _LEAST_SPARED <= runs
    ]
    if not fitting:
        return
    times = max(fitting)
    sizes = [group.size for group in outer]
    dtype = node.outputs[0].dtype
    operands = []
    for index, value in enumerate(node.inputs):
        kept = [1 if group.repeated == index else group.size for group in outer]
        if index == which:
            short = [*kept, 1, 1, run.size]
            (rows,) = _reshape(editor, node, value, short, f"runs_{index}")
            repeated = editor.constant("repeated", np.array([*kept, 1, times, run.size], dtype=np.int64))
            types = [(value.dtype, [*kept, 1, times, run.size])]
            (rows,) = editor.insert("Expand", [rows, repeated], f"{node.name}_copies_{index}", at=node, types=types)
            (rows,) = _reshape(editor, node, rows, [*kept, 1, times * run.size], f"long_runs_{index}")
        else:
            (rows,) = _reshape(
                editor, node, value, [*kept, before.size // times, times * run.size], f"long_runs_{index}"
            )
        operands.append(rows)
    made = [*sizes, before.size // times, times * run.size]
    (y,) = editor.insert(node.op_type, operands, f"{node.name}_in_long_runs", at=node, types=[(dtype, made)])
    (y,) = _reshape(editor, node, y, list(out), "result")
    editor.replace(node.outputs[0], y)


def repeat_each(editor: GraphEditor, x: Any, copies: int, out: tuple[int, ...], *, at: Any) -> Any:
    """Each number so many times, one after the other: whole copies, and then a transposition.

    Args:
        editor: Edits the graph.
        x: A value of static sizes.
        copies: How often each of its numbers comes.
        out: The sizes of the result.
        at: The node before which the new ones stand.
    """
    import numpy as np

    count = prod(sizes_of(x) or ())
    name, dtype = at.name, x.dtype
    (row,) = editor.insert(
        "Reshape",
        [x, editor.constant("one_row", np.array([1, count], dtype=np.int64))],
        f"{name}_row",
        at=at,
        types=[(dtype, [1, count])],
    )
    (rows,) = editor.insert(
        "Concat", [row] * copies, f"{name}_rows", at=at, types=[(dtype, [copies, count])], attributes={"axis": 0}
    )
    (columns,) = editor.insert(
        "Transpose", [rows], f"{name}_columns", at=at, types=[(dtype, [count, copies])], attributes={"perm": [1, 0]}
    )
    sizes = editor.constant("repeated", np.array(out, dtype=np.int64))
    (y,) = editor.insert("Reshape", [columns, sizes], f"{name}_repeated", at=at, types=[(dtype, out)])
    return y


def _reshape(editor: GraphEditor, node: Any, value: Any, sizes: list[int], name: str) -> tuple[Any, ...]:
    import numpy as np

    constant = editor.constant("long_runs", np.array(sizes, dtype=np.int64))
    return editor.insert("Reshape", [value, constant], f"{node.name}_{name}", at=node, types=[(value.dtype, sizes)])
