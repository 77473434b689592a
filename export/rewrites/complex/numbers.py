"""Write complex arithmetic and Fourier transforms with real tensors, for delegates that know no complex numbers.

```
before:  z  = aten.fft_fftn.default(x, None, [1, 2])      x: f32[1, 6, 8]
         y  = aten.real.default(z)
after:   re = aten.linear(x, cos)    im = aten.linear(x, -sin)          along the last dimension
         y  = aten.linear(reᵀ, cos)ᵀ + aten.linear(imᵀ, sin)ᵀ           along the other; the rest is not made
```

A complex value becomes its real and its imaginary part. A transform of length n is a product with an n x n matrix: more
work than a fast transform, and quick in every engine at the lengths for which it is taken; longer ones are two short
ones (`transforms`). All complex values of a program are replaced or none: inputs, outputs and state that are complex,
and operators that are not in the tables of `operators`, `moves`, `transforms` and `spectrograms`, leave the program as
it is.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments, operator_name
from edgex.export.rewrites.base import Rewrite, locations_of
from edgex.export.rewrites.complex.moves import ITEM, MOVES
from edgex.export.rewrites.complex.operators import OPERATORS
from edgex.export.rewrites.complex.parts import NotTaken, Pair, Step, Work, is_complex
from edgex.export.rewrites.complex.spectrograms import split_istft, split_stft
from edgex.export.rewrites.complex.transforms import TRANSFORMS
from edgex.export.rewrites.editing.building import Replacement
from edgex.export.rewrites.editing.editor import ProgramEditor, constant_tensors
from edgex.export.rewrites.folding.constants import find_values

_WINDOWED: dict[str, Callable[[Step, Node], Pair | Node]] = {"aten::stft": split_stft, "aten::istft": split_istft}
# What tracing notes beside `to(device)`: a dtype that the two parts do not have.
_CHECK = "aten::_assert_tensor_metadata"
RULES: dict[str, Callable[[Step, Node], Pair | Node]] = {**OPERATORS, **MOVES, **TRANSFORMS, **_WINDOWED}


def split_complex(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Replace all complex values by pairs of real ones; the same program comes back where that is not possible."""
    touching = [node for node in program.exported.graph.nodes if node.op == "call_function" and _touches(node)]
    found = [node for node in touching if _name(node) != _CHECK]
    constants = constant_tensors(program)
    if not found or not _all_taken(program, found, constants):
        return program, None
    editor = ProgramEditor(program)
    windows = [named_arguments(node).get("window") for node in found if operator_name(node) in _WINDOWED]
    work = Work({**constants, **find_values(program, [window for window in windows if isinstance(window, Node)])})
    for node in touching:
        if _name(node) == _CHECK:
            editor.graph.erase_node(editor.node(node))
    try:
        for node in found:
            result = RULES[_name(node)](Step(Replacement(editor, node), work), node)
            if isinstance(result, Pair):
                work.pairs[node] = result
            else:
                work.pairs[node] = Pair(result, None)
                editor.node(node).replace_all_uses_with(result)
    except NotTaken:
        return program, None
    # The old ones, and of the new ones those of which nothing came: an imaginary part that nobody reads.
    for node in [*(editor.node(node) for node in reversed(found)), *reversed(work.made)]:
        if not node.users:
            editor.graph.erase_node(node)
    detail = f"{len(found)} operator(s) on complex numbers became operators on their real and imaginary parts"
    return editor.finish(), Rewrite("split_complex", len(found), detail, locations_of(found, program.source_root))


def _name(node: Node) -> str:
    return ITEM if node.target is operator.getitem else str(operator_name(node))


def _touches(node: Node) -> bool:
    """Whether an operator reads or makes something complex."""
    return any(is_complex(value) for value in [node, *node.all_input_nodes])


def _all_taken(program: CapturedProgram, found: list[Node], constants: Any) -> bool:
    """Whether every complex value comes from an operator of the table or a constant, and none leaves the program."""
    graph = program.exported.graph
    inputs = [node for node in graph.find_nodes(op="placeholder") if is_complex(node)]
    outside = [node for node in graph.nodes if node.op != "call_function" and node.op != "placeholder" and _reads(node)]
    return not outside and all(node in constants for node in inputs) and all(_name(node) in RULES for node in found)


def _reads(node: Node) -> bool:
    return any(is_complex(value) for value in node.all_input_nodes)
