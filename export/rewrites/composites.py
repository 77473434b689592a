"""Write operators that PyTorch itself has in terms of others as these, which the passes behind it and delegates know.

```
before:  y = aten.expand_as.default(gate, x)               # gate: [1, 64, 1, 1], x: [1, 64, 56, 56]
         z = aten.multiply.Tensor(x, y)
after:   y = aten.expand.default(gate, [1, 64, 56, 56])
         z = aten.mul.Tensor(x, y)
```

Lowering does it too, but behind the rewrites: the gate of a squeeze-and-excitation block would be repeated in memory
for every pixel because `expand_as` is not the `expand` that a rewrite leaves out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import operator_name, schema_of
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rule, Rules, substitute

# Other names, views by other arguments, joins and products of two: each is a few of PyTorch's own operators.
_NAMES = frozenset(
    f"aten::{name}"
    for name in (
        *("expand_as", "broadcast_to", "broadcast_tensors", "tile"),
        *("view_as", "reshape_as", "ravel", "narrow", "take_along_dim"),
        *("movedim", "moveaxis", "swapaxes", "swapdims", "numpy_T", "mT", "matrix_H", "mH", "adjoint"),
        *("hsplit", "vsplit", "dsplit", "unsafe_chunk", "hstack", "vstack", "dstack", "column_stack", "row_stack"),
        *("concat", "concatenate", "divide", "true_divide", "multiply", "subtract", "negative", "absolute", "clip"),
        *("outer", "inner", "ger", "tensordot", "kron", "chain_matmul", "pairwise_distance"),
        *("nanmean", "fliplr", "flipud", "greater", "greater_equal", "less", "less_equal", "not_equal"),
    )
)


def expand_composites(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Take every such operator apart; the same program comes back without one."""
    targets = {node.target for node in program.exported.graph.nodes if operator_name(node) in _NAMES}
    rules: Rules = {target: Rule(_by_name(target), apart=True) for target in targets}
    return substitute(program, "expand_composites", rules, "{count} operator(s) ({operators}) became their parts")


def _by_name(overload: Any) -> Callable[..., Any]:
    """The operator, called with all its arguments in order, of which some have to be named."""
    names = [argument.name for argument in schema_of(overload).arguments if argument.kwarg_only]

    def call(*values: Any) -> Any:
        positional = len(values) - len(names)
        return overload(*values[:positional], **dict(zip(names, values[positional:], strict=True)))

    return call
