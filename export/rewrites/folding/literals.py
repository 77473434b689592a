"""Fold subgraphs that depend on nothing but literals, for engines that would compute them in every run.

Attention masks and position tables are often made in forward. ONNX Runtime folds them when it loads a model, ExecuTorch
does not.

```
before:  ones = aten.ones.default([16, 16])
         tril = aten.tril.default(ones)
         mask = aten.eq.Scalar(tril, 0)
         y    = aten.masked_fill.Scalar(scores, mask, -1e9)
after:   y    = aten.masked_fill.Scalar(scores, c_eq, -1e9)
```

`fold_factories` folds the tables alone for which an engine has no operator. `fold_lookups` folds rows of a weight at
places that are literals or weights: relative positions (MViTv2, Swin), which are larger than their table, so that
`fold_constants` leaves them. ExecuTorch's `index` takes 6 ns a number: a tenth of MViTv2's time. `fold_tables` folds
what is computed of a few numbers and literals: a RetNet's decay, a power of four numbers for each of 160 x 160 places
in each layer, took 8 of its 18 ms on `xnnpack`; angles of rotary positions.

Not folded: random numbers, uninitialised memory, what the model writes to or returns, and what would become constants
of more than `ALLOWANCE_BYTES` for one subgraph.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import leaves_of, operator_name
from edgex.export.rewrites.base import Rewrite, locations_of
from edgex.export.rewrites.editing.editor import constant_tensors
from edgex.export.rewrites.folding.constants import find_foldable, find_literals, find_worked, fold_nodes

# A mask of 1024 x 1024 numbers.
ALLOWANCE_BYTES = 4 * 1024 * 1024

# Numbers of which tables are made: slopes of heads, frequencies of positions.
_FEW = 1024

# By how much what is read from one table may outgrow it: positions of 56 x 56 places, 96 numbers each.
LOOKUP_BYTES = 1280 * 1024

_LOOKUPS = frozenset(f"aten::{name}" for name in ("index", "index_select", "embedding", "gather"))

# Tables that PyTorch's ONNX exporter cannot write, triangles, which it writes in 30 operators, and windows, of which it
# keeps 69 dB (Blackman and Hamming of 8).
_FACTORIES = frozenset(
    f"aten::{name}"
    for name in (
        *("fft_fftfreq", "fft_rfftfreq", "logspace", "kaiser_window", "bartlett_window"),
        *("hann_window", "hamming_window", "blackman_window", "tril_indices", "triu_indices"),
    )
)


def fold_factories(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Fold tables for which an engine has no operator; the same program comes back where there is none."""
    literals = find_literals(program, ALLOWANCE_BYTES)
    # What is computed of a table stays: it is a constant's user then, which the engine folds when it loads the model.
    tables = {node: None for node in literals if operator_name(node) in _FACTORIES}
    return _fold(program, set(tables), tables, "fold_factories", "make a table")


def fold_literals(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Fold every subgraph that depends on literals only; the same program comes back where there is none."""
    literals, numbers = find_literals(program, ALLOWANCE_BYTES), _find_numbers(program)
    foldable = find_foldable(program, numbers, ALLOWANCE_BYTES) if numbers else literals
    # A copy of one number is as good as the number.
    wanted = {node for node in foldable if node in literals or _elements_of(node) > 1}
    return _fold(program, wanted, foldable, "fold_literals", "depend on no input", numbers)


def _find_numbers(program: CapturedProgram) -> dict[Node, torch.Tensor]:
    """The single numbers that capture made constants of: of `mask[-1, :8] = True`, the value that is written."""
    lifted = program.exported.graph_signature.inputs_to_lifted_tensor_constants
    known = constant_tensors(program)
    return {node: value for node, value in known.items() if node.name in lifted and value.numel() == 1}


def _elements_of(node: Node) -> int:
    return sum(leaf.numel() for leaf in leaves_of(node.meta.get("val")) if isinstance(leaf, torch.Tensor))


def fold_lookups(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Fold what is read from weights at constant places; the same program comes back where there is none."""
    weights = constant_tensors(program)
    foldable = find_foldable(program, weights, LOOKUP_BYTES)
    wanted = {node for node in foldable if operator_name(node) in _LOOKUPS and node.args[0] in weights}
    for node in foldable:  # and what is computed of them
        if any(arg in wanted for arg in node.all_input_nodes):
            wanted.add(node)
    return _fold(program, wanted, foldable, "fold_lookups", "read weights at constant places", weights, LOOKUP_BYTES)


def fold_tables(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Fold what is computed of a few numbers and literals; the same program comes back where there is none."""
    few = {node: value for node, value in constant_tensors(program).items() if value.numel() <= _FEW}
    foldable = find_foldable(program, few, ALLOWANCE_BYTES)
    wanted = find_worked(foldable, few)
    return _fold(program, wanted, foldable, "fold_tables", "depend on few numbers", few)


def _fold(
    program: CapturedProgram,
    wanted: set[Node],
    foldable: dict[Node, None],
    name: str,
    what: str,
    weights: Mapping[Node, torch.Tensor] = MappingProxyType({}),
    allowance_bytes: int = ALLOWANCE_BYTES,
) -> tuple[CapturedProgram, Rewrite | None]:
    """Fold ``wanted``, as the rewrite ``name``; ``what`` its operators have in common."""
    folded = fold_nodes(program, wanted, foldable, weights, allowance_bytes)
    if folded is None:
        return program, None
    rewritten, operators, count = folded
    detail = f"{len(operators)} operator(s) that {what} became {count} constant(s)"
    return rewritten, Rewrite(name, len(operators), detail, locations_of(operators, program.source_root))
