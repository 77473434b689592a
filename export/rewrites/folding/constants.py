"""Fold subgraphs that depend on nothing but weights: compute them once, here.

Delegates want constant weights; weight_norm, spectral scaling or a concatenation of weights give them computed ones.

```
before:  p_weight_g, p_weight_v, p_bias, x
         weight = aten._weight_norm.default(p_weight_v, p_weight_g)
         conv   = aten.conv1d.default(x, weight, p_bias)
after:   p__weight_norm, p_bias, x
         conv   = aten.conv1d.default(x, p__weight_norm, p_bias)
```

What is folded: deterministic `aten` and `prims` operators that write nothing and whose inputs are parameters, buffers
that never change, constants and literals, with static sizes. What is not: views and copies of a weight (they do no
work, but for the part of one or another form of it that multiplies something, `stacked[2]`: engines know no weight
behind it), what the program returns as an output, operators of other namespaces (a quantized weight's dequantize
stays), and whatever would make the artifact larger by more than `SIZE_ALLOWANCE_BYTES` (a table computed from a short
vector).
The weight of a convolution or linear layer may cost more, up to `_WEIGHTS_BYTES`: engines have slow kernels for one
that is computed, or none (filters of SincNet took 92 % of its time). So may what takes more to compute than to read:
the keys and queries of relative positions, layers of a table, took half the time of SEW-D.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.export.graph_signature import InputKind
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import is_tuple, leaves_of, operator_name, overload_of, schema_of
from edgex.delegates.graph.work import count_flops
from edgex.export.rewrites.base import Rewrite, locations_of
from edgex.export.rewrites.editing.editor import FakeMode, ProgramEditor, constant_tensors, placeholders
from edgex.export.rewrites.editing.mutation import DisjointNodes, mutated_nodes
from edgex.export.source.eager import reference_conditions

# By how much the constants of one subgraph may outgrow the weights that it makes superfluous.
SIZE_ALLOWANCE_BYTES = 64 * 1024

# The same for weights of convolutions and linear layers.
_WEIGHTS_BYTES = 64 * 1024 * 1024

# What a byte of a constant must spare at least: a product over 128 numbers has as many. Reading it from memory takes as
# long as some ten of them (10 GB/s, 100 GFLOP/s).
_FLOPS_PER_BYTE = 64

# The part of all weights' bytes that such constants may have.
_DEAR_PART = 1 / 8

_NAMESPACES = ("aten", "prims")

# Their result is whatever the memory held.
UNINITIALISED = frozenset(
    f"aten::{name}"
    for name in ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")
)

# They return their input or a copy of it; views are known by their schema, view copies by their tag.
_COPIES = frozenset(
    f"aten::{name}" for name in ("clone", "contiguous", "detach", "alias", "lift_fresh", "lift_fresh_copy")
)
_CONVERSIONS = frozenset(f"aten::{name}" for name in ("to", "_to_copy"))

# Of a matrix each of them is its transposition, where it changes the order at all.
TRANSPOSITIONS = frozenset(f"aten::{name}" for name in ("t", "numpy_T", "mT", "transpose", "permute"))

# What reads a weight that delegates look for.
_CONVOLUTIONS = frozenset(
    f"aten::{name}" for name in ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d")
) | {"aten::conv_transpose3d"}
_PRODUCTS = _CONVOLUTIONS | {
    f"aten::{name}" for name in ("matmul", "mm", "bmm", "addmm", "baddbmm", "linear", "einsum")
}


def fold_constants(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Fold every subgraph that depends on weights only; the same program comes back where there is none."""
    weights = constant_tensors(program)
    foldable = find_foldable(program, weights, SIZE_ALLOWANCE_BYTES)
    worked = find_worked(foldable, weights)
    folded = fold_nodes(program, worked, foldable, weights, SIZE_ALLOWANCE_BYTES)
    if folded is None:
        return program, None
    rewritten, operators, count = folded
    detail = f"{len(operators)} operator(s) that depend on weights only became {count} constant(s)"
    where = locations_of(operators, program.source_root)
    return rewritten, Rewrite("fold_constants", len(operators), detail, where)


def fold_nodes(
    program: CapturedProgram,
    worked: set[Node],
    foldable: dict[Node, None],
    weights: Mapping[Node, torch.Tensor],
    allowance_bytes: int,
) -> tuple[CapturedProgram, list[Node], int] | None:
    """Compute nodes here instead of in every run.

    Args:
        program: It is not changed.
        worked: The nodes that are worth it.
        foldable: All whose result is the same in every run, in program order.
        weights: The tensors that they may read.
        allowance_bytes: By how much the constants of one subgraph may outgrow the weights that it makes superfluous.

    Returns:
        The new program, the operators that went, and how many constants took their place; None where nothing fits.
    """
    if not worked:
        return None
    roots: dict[Node, None] = {}
    dear_bytes = int(sum(map(_bytes_of, weights)) * _DEAR_PART)
    for group in _connected_groups(worked, foldable):
        roots |= (chosen := _choose_roots(group, foldable, weights, allowance_bytes, dear_bytes))
        dear_bytes -= sum(_bytes_of(node) for node in chosen if _is_dear(node, foldable))
    if not roots:
        return None
    values = _evaluate(roots, foldable, weights)
    editor = ProgramEditor(program)
    parameters = {node for node, spec in placeholders(program.exported) if spec.kind is InputKind.PARAMETER}
    names = {node: str(spec.target) for node, spec in placeholders(program.exported)}
    dead = _dead_nodes(roots, foldable)
    removed = [node for node in foldable if node in dead]
    for root in roots:
        sources = [node for node in _ancestors([root]) if node in weights]
        constant = editor.add_constant(
            _constant_name(root, [names[node] for node in sources]),
            _own_storage(values[root]),
            _own_storage(root.meta["val"]),
            is_parameter=any(node in parameters for node in sources),
        )
        editor.node(root).replace_all_uses_with(constant)
    unused = [node for node in weights if node.users and dead.issuperset(_uses(node))]
    for check in (user for node in [*removed, *unused] if node not in roots for user in node.users if user not in dead):
        editor.graph.erase_node(editor.node(check))
    for node in reversed(removed):
        editor.graph.erase_node(editor.node(node))
    operators = [node for node in removed if node.target is not operator.getitem]
    # What depends on no weight, but on single numbers at most, was written in the code.
    of_weights = any(weight.numel() > 1 for weight in weights.values())
    made = {} if of_weights else {"literals": program.literals | editor.new_constants()}
    return editor.finish(**made), operators, len(roots)


def find_literals(program: CapturedProgram, allowance_bytes: int) -> dict[Node, None]:
    """The operators that depend on nothing at all, in program order."""
    return find_foldable(program, {}, allowance_bytes)


def find_values(program: CapturedProgram, nodes: Iterable[Node]) -> dict[Node, torch.Tensor]:
    """The values of those nodes that are the same in every run; fake ones where the program's weights are fake."""
    weights = constant_tensors(program)
    foldable = find_foldable(program, weights, SIZE_ALLOWANCE_BYTES)
    return _evaluate({node: None for node in nodes if node in weights or node in foldable}, foldable, weights)


def find_foldable(program: CapturedProgram, weights: Mapping[Node, Any], allowance_bytes: int) -> dict[Node, None]:
    """The operators whose result is the same in every run, in program order.

    Args:
        program: It is not changed.
        weights: The tensors that they may read.
        allowance_bytes: What a literal alone may have.
    """
    graph = program.exported.graph
    mutated = mutated_nodes(program.exported)
    output = graph.output_node()
    found: dict[Node, None] = {}
    for node in graph.nodes:
        if node.op != "call_function" or node in mutated or output in node.users:
            continue
        if not all(arg in weights or arg in found for arg in node.all_input_nodes):
            continue
        if (node.target is operator.getitem or _is_pure(node, allowance_bytes)) and _has_static_tensors(node):
            found[node] = None
    return found


def _is_pure(node: Node, allowance_bytes: int) -> bool:
    overload = overload_of(node)
    if overload is None or overload.namespace not in _NAMESPACES or operator_name(node) in UNINITIALISED:
        return False
    schema = schema_of(overload)
    if schema.is_mutable or not schema.returns or torch.Tag.nondeterministic_seeded in overload.tags:
        return False
    # A literal factory is worth a constant only where it is a small part of something that folds.
    return bool(node.all_input_nodes) or _bytes_of(node) <= allowance_bytes


def _has_static_tensors(node: Node) -> bool:
    leaves = leaves_of(node.meta.get("val"))
    return bool(leaves) and all(
        isinstance(leaf, torch.Tensor)
        and leaf.layout is torch.strided
        and all(isinstance(size, int) for size in leaf.shape)
        for leaf in leaves
    )


def find_worked(foldable: Iterable[Node], weights: Mapping[Node, Any]) -> set[Node]:
    """The foldable nodes that compute something from a weight, not just look at it, and its parts that multiply."""
    from_weight: set[Node] = set(weights)
    worked: set[Node] = set()
    for node in foldable:
        inputs = node.all_input_nodes
        if any(arg in from_weight for arg in inputs):
            from_weight.add(node)
            if any(arg in worked for arg in inputs) or not _is_view_or_copy(node) or _is_part(node):
                worked.add(node)
    return worked


def _is_part(node: Node) -> bool:
    """Whether a view shows a product less than what it looks at, or another form; matrices are turned elsewhere."""
    value, before = node.meta["val"], leaves_of(node.all_input_nodes[0].meta["val"])
    if not isinstance(value, torch.Tensor) or not _multiplies(node):
        return False
    if operator_name(node) in TRANSPOSITIONS:
        return value.dim() > 2
    if operator_name(node) == "aten::expand":
        # One filter for all channels: engines take weights of convolutions that have their memory.
        return any(operator_name(user) in _CONVOLUTIONS and user.args[1] is node for user in node.users)
    return len(before) > 1 or (value.shape != before[0].shape and value.numel() <= before[0].numel())


def _multiplies(node: Node) -> bool:
    return any(
        operator_name(user) in _PRODUCTS or (_is_view_or_copy(user) and _multiplies(user))
        for user in node.users
        if user.op == "call_function"
    )


def _is_seen(node: Node) -> bool:
    """Whether a value is a weight or a part of it, of which nothing was computed."""
    return node.op == "placeholder" or (_is_view_or_copy(node) and all(map(_is_seen, node.all_input_nodes)))


def _is_view_or_copy(node: Node) -> bool:
    overload, name = overload_of(node), operator_name(node)
    if overload is None:
        return node.target is operator.getitem
    if name in _CONVERSIONS:
        source = node.args[0]
        return isinstance(source, Node) and source.meta["val"].dtype == node.meta["val"].dtype
    return (
        name in _COPIES
        or torch.Tag.view_copy in overload.tags
        or any(result.alias_info is not None for result in schema_of(overload).returns)
    )


def _connected_groups(worked: set[Node], foldable: Mapping[Node, None]) -> list[list[Node]]:
    """Worked nodes in groups that share no ancestor, in program order: what a group costs and frees is its own."""
    sets = DisjointNodes()
    for node in foldable:
        for arg in node.all_input_nodes:
            sets.union(node, arg)
    groups: dict[Node, list[Node]] = {}
    for node in foldable:
        if node in worked:
            groups.setdefault(sets.find(node), []).append(node)
    return list(groups.values())


def _choose_roots(
    group: list[Node],
    foldable: dict[Node, None],
    weights: Mapping[Node, Any],
    allowance_bytes: int,
    dear_bytes: int,
) -> dict[Node, None]:
    """The nodes of a group to replace by constants: as late as possible, within the size allowances.

    While the constants would be too large, the largest one is computed at run time after all, and its inputs
    become the candidates.
    """
    # A tuple is only ever replaced through its elements.
    at_run_time = {
        node for node in group if is_tuple(node.meta["val"]) and any(user not in foldable for user in node.users)
    }
    while True:
        roots = {
            node: None
            for node in group
            if node not in at_run_time and any(user not in foldable or user in at_run_time for user in _uses(node))
        }
        dead = _dead_nodes(roots, foldable)
        freed_bytes = sum(_bytes_of(arg) for arg in _ancestors(group) if arg in weights and dead.issuperset(_uses(arg)))
        layers = [node for node in roots if any(_is_weight(node, user) for user in node.users) and not _is_seen(node)]
        spared = sum(map(_bytes_of, layers))
        spared, others = (spared, roots.keys() - layers) if spared <= _WEIGHTS_BYTES else (0, roots.keys())
        dear = [node for node in others if _is_dear(node, foldable)]
        if (bytes_of_dear := sum(map(_bytes_of, dear))) <= dear_bytes:
            spared, others = spared + bytes_of_dear, others - set(dear)
        if sum(map(_bytes_of, roots)) - spared <= freed_bytes + allowance_bytes:
            return roots
        allowed = freed_bytes + allowance_bytes
        too_large = [node for node in others if _bytes_of(node) > allowed]
        # What cannot fit at all, then parts that are only looked at, then what is computed.
        candidates = too_large or [node for node in others if _is_seen(node)] or others
        node = max((node for node in reversed(roots) if node in candidates), key=_bytes_of)
        at_run_time.add(node)
        while node.target is operator.getitem:
            node = node.all_input_nodes[0]
            at_run_time.add(node)


def _is_dear(node: Node, foldable: Mapping[Node, None]) -> bool:
    """Whether computing a value takes many times as long as reading it."""
    flops = sum(count_flops(each) or 0 for each in _ancestors([node]) if each in foldable)
    return flops >= _FLOPS_PER_BYTE * _bytes_of(node)


def _is_weight(node: Node, user: Node) -> bool:
    """Whether an operator is a convolution or linear layer with a value, or a view of it, as its weight."""
    name = str(operator_name(user)).removeprefix("aten::")
    if user.op == "call_function" and _is_view_or_copy(user):
        return any(_is_weight(user, reader) for reader in user.users)
    return name.startswith(("conv", "linear")) and len(user.args) > 1 and user.args[1] is node


def _uses(node: Node) -> list[Node]:
    """The users of a node, without the tracer's checks that a tensor has the dtype that it had."""
    return [user for user in node.users if operator_name(user) != "aten::_assert_tensor_metadata"]


def _dead_nodes(roots: Mapping[Node, Any], foldable: dict[Node, None]) -> set[Node]:
    """The operators that are superfluous once the roots are constants."""
    dead: set[Node] = set()
    for node in reversed(foldable):
        if node in roots or (_uses(node) and dead.issuperset(_uses(node))):
            dead.add(node)
    return dead


def _evaluate(
    roots: Mapping[Node, Any], foldable: Mapping[Node, None], weights: Mapping[Node, torch.Tensor]
) -> dict[Node, torch.Tensor]:
    """Run the subgraphs with eager kernels; intermediate results live only as long as they are needed."""
    ancestors = _ancestors(roots)
    needed = [node for node in foldable if node in ancestors]
    uses = Counter(arg for node in needed for arg in node.all_input_nodes)
    values: dict[Node, Any] = {node: weights[node] for node in ancestors if node in weights}
    # The last bit of a sum depends on the number of threads, and an artifact must not.
    with reference_conditions(), FakeMode(values.values()):
        for node in needed:
            args, kwargs = torch.fx.map_arg((node.args, node.kwargs), values.__getitem__)
            assert callable(node.target)
            values[node] = node.target(*args, **kwargs)
            for arg in node.all_input_nodes:
                uses[arg] -= 1
                if not uses[arg] and arg not in roots:
                    del values[arg]
    return {root: values[root] for root in roots}


def _ancestors(nodes: Iterable[Node]) -> dict[Node, None]:
    """The nodes themselves and everything that they are computed from."""
    found: dict[Node, None] = {}
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if node not in found:
            found[node] = None
            pending += node.all_input_nodes
    return found


def _bytes_of(node: Node) -> int:
    leaves = leaves_of(node.meta["val"])
    return sum(leaf.numel() * leaf.element_size() for leaf in leaves if isinstance(leaf, torch.Tensor))


def _own_storage(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, contiguous, and not a part of something larger.

    Contiguous to the letter: for a dimension of size 1 `is_contiguous` takes any stride, and ExecuTorch reads the order
    of dimensions from the strides.
    """
    whole = tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    plain = tensor.stride() == torch.empty(tensor.shape, device="meta").stride()
    return tensor if whole and plain else tensor.new_empty(tensor.shape).copy_(tensor)


def _constant_name(root: Node, sources: list[str]) -> str:
    """The module that holds the weights, and the operator: `conv._weight_norm`."""
    paths = [name.split(".")[:-1] for name in sources]
    common = [parts[0] for parts in zip(*paths, strict=False) if len(set(parts)) == 1]
    # torch.nn.utils.parametrize keeps the originals two levels below the module.
    if "parametrizations" in common:
        common = common[: common.index("parametrizations")]
    return ".".join([*common, root.name])
