"""Values that a program makes and then writes to, as new values; and values of a known size, as literals.

```
before:  grid   = aten.zeros.default([6, 2])
         column = aten.select.int(grid, 1, 0)
         aten.fill_.Scalar(column, 7)
         y      = aten.add.Tensor(x, grid)
after:   grid   = aten.zeros.default([6, 2])
         column = aten.select.int(grid, 1, 0)
         filled = aten.fill.Scalar(column, 7)
         grid_2 = aten.select_scatter.default(grid, filled, 1, 0)
         y      = aten.add.Tensor(x, grid_2)

before:  y      = aten.zeros_like.default(x)        # or empty_like: uninitialised memory has no kernel, nor a meaning
after:   y      = aten.full.default([6, 2], 0)
```

Every delegate lets operators return while it lowers. Done before the other rewrites, tables of anchors that forward
fills become constants, and those that leave alone what is written to later have nothing to fear.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.retracing import retry_stale_symbols
from edgex.delegates.graph.schema import operator_name, overload_of, schema_of
from edgex.export.rewrites.base import Rewrite, locations_of
from edgex.export.rewrites.editing.substitution import Rules, static, substitute
from edgex.export.rewrites.folding.constants import fold_constants

aten = torch.ops.aten
_VIEWS = ("aten::view", "aten::_unsafe_view")


def return_writes(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Let operators return what they would write; the same program comes back where none writes, and with state."""
    writers = [node for node in program.exported.graph.nodes if _writes(node)]
    if not writers or program.state:
        return program, None
    with torch.no_grad():  # some of these have no derivative for complex numbers
        exported = retry_stale_symbols(lambda: program.exported.run_decompositions({}))
    for node in exported.graph.nodes:  # kernels lay out their results otherwise than the tracer believes
        if operator_name(node) in _VIEWS and node.target is not aten.view.dtype:
            node.target = aten.reshape.default
    exported.graph_module.recompile()
    detail = f"{len(writers)} operator(s) that wrote to values of the program's own return new ones"
    where = locations_of(writers, program.source_root)
    folded, _ = fold_constants(replace(program, exported=exported))  # numbers that are written are constants too
    return folded, Rewrite("return_writes", len(writers), detail, where)


def _writes(node: torch.fx.Node) -> bool:
    overload = overload_of(node)
    return overload is not None and bool(schema_of(overload).is_mutable)


def fill_memory(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Fill with zeros what a program takes uninitialised, and make of `zeros_like` and its kin what reads no tensor."""
    rules: Rules = {
        aten.empty.memory_format: lambda size, dtype, *_options: _full(size, 0, dtype),
        aten.empty_permuted.default: _permuted,
        aten.empty_like.default: lambda x, dtype, *_options: _full(x.shape, 0, dtype or x.dtype),
        aten.zeros_like.default: lambda x, dtype, *_options: _full(x.shape, 0, dtype or x.dtype),
        aten.ones_like.default: lambda x, dtype, *_options: _full(x.shape, 1, dtype or x.dtype),
        aten.full_like.default: lambda x, value, dtype, *_options: _full(x.shape, value, dtype or x.dtype),
        aten.new_empty.default: lambda x, size, dtype, *_options: _full(size, 0, dtype or x.dtype),
        aten.new_zeros.default: lambda x, size, dtype, *_options: _full(size, 0, dtype or x.dtype),
        aten.new_ones.default: lambda x, size, dtype, *_options: _full(size, 1, dtype or x.dtype),
        aten.arange.start: lambda start, end, dtype, *_options: _range(start, end, 1, dtype),
        aten.arange.start_step: lambda start, end, step, dtype, *_options: _range(start, end, step, dtype),
        aten.new_full.default: lambda x, size, value, dtype, *_options: _full(size, value, dtype or x.dtype),
    }
    return substitute(program, "fill_memory", rules, "{count} value(s) ({operators}) are filled and read no tensor")


def _full(size: Any, value: Any, dtype: torch.dtype | None) -> Any:
    if not static(*size) or not isinstance(value, bool | int | float):
        return NotImplemented
    return torch.full(tuple(size), value, dtype=dtype or torch.get_default_dtype())


def _range(start: Any, end: Any, step: Any, dtype: torch.dtype | None) -> Any:
    """Of whole numbers and others: engines take the type of the first, PyTorch a floating one."""
    kinds = {type(number) for number in (start, end, step)}
    if dtype is not None or kinds != {int, float} or (isinstance(start, float) and isinstance(end, float)):
        return NotImplemented
    return torch.arange(float(start), float(end), float(step), dtype=torch.get_default_dtype())


def _permuted(size: Any, order: list[int], dtype: torch.dtype | None, *_options: Any) -> Any:
    filled = _full([size[axis] for axis in order], 0, dtype)
    return filled if filled is NotImplemented else filled.permute([order.index(axis) for axis in range(len(order))])
