"""Write `flex_attention` as plain attention: its functions of scores and positions become a mask, a bias, or operators.

```
before:  y = flex_attention(q, k, v, score_mod, (…, mask_mod), 0.125, …)[0]       # score_mod: the score itself
after:   mask = aten.ge.Tensor(rows, columns)                                     # mask_mod of all positions
         y = aten.scaled_dot_product_attention.default(q, k, v, mask, scale=0.125)
```

A `score_mod` that adds what does not depend on the score (ALiBi, a table of relative positions) becomes a mask of
floats, -inf where `mask_mod` says no. Any other (a soft cap), and the logarithms that `return_lse` asks for, take the
scores:

```
after:   scores = score_mod(aten.matmul.default(q, k^T) * 0.125)
         shares = aten.softmax.int(aten.where.self(mask, scores, -inf), -1)
         y = aten.where.self(seen, aten.matmul.default(shares, v), 0)             # seen: rows with any key
```

What does not depend on the batch or the head is computed once for all of them. The blocks of a mask say which parts a
GPU leaves out, not what the answer is: they are dropped.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node
from torch.fx.experimental.proxy_tensor import make_fx

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import higher_order_name, leaves_of, operator_name
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import FakeMode, ProgramEditor
from edgex.export.rewrites.editing.substitution import Rule, substitute, used_results

_INDICES = 4  # batch, head, query, key
# Reading an element of a captured tensor, as torch.export writes it inside these functions.
_READ = "torch._dynamo._trace_wrapped_higher_order_op.ModIndex"
_SELECTS = ("aten.where", "aten.masked_fill", "aten.log", "aten.reciprocal", "aten.pow")
_aten = torch.ops.aten
_CHECK = "aten::_assert_tensor_metadata"


@dataclass(frozen=True, eq=False)
class _Functions:
    """What an operator's `score_mod` and `mask_mod` compute of all positions, each called with indices and tensors.

    Attributes:
        score: Of the scores too, float[batch, heads, queries, keys]; None where it gives them as they are.
        bias: What it adds, where that is all it does.
        mask: None where every query sees every key.
        batched: Whether `bias` and `mask` depend on the batch and the head, in this order.
        hides: Whether `score` and `bias` may be -inf too.
        lse: Whether a result besides the attention is used.
    """

    score: GraphModule | None
    bias: GraphModule | None
    mask: GraphModule | None
    batched: tuple[bool, bool]
    hides: bool
    lse: bool


def write_flex_attention(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such operator; the same program comes back without one."""
    found = [node for node in program.exported.graph.nodes if higher_order_name(node) == "flex_attention"]
    if not found:
        return program, None
    module = program.exported.graph_module
    functions = {node.name: made for node in found if (made := _functions(node, module)) is not None}
    rule = Rule(
        _attention,
        where=lambda node: node.name in functions,
        operands=lambda node: (*node.args[:3], node.args[5], *map(list, node.args[7:9]), functions[node.name]),  # type: ignore[arg-type]
    )
    detail = "{count} flex_attention operator(s) became plain attention"
    program, rewrite = substitute(program, "write_flex_attention", {found[0].target: rule}, detail)
    return program if rewrite is None else _without_checks(program), rewrite


def _functions(node: Node, program: GraphModule) -> _Functions | None:
    """The functions of an operator for all positions; None where they hold something unknown."""
    query, key = (argument.meta["val"] for argument in node.args[:2])  # type: ignore[union-attr]
    block_mask: Any = node.args[4]
    score_mod, mask_mod = (getattr(program, str(function.target)) for function in (node.args[3], block_mask[-1]))  # type: ignore[union-attr]
    if not (_is_known(score_mod) and _is_known(mask_mod)):
        return None
    score, *indices = _inputs(score_mod)
    identity, adds, sees_all = _result(score_mod) is score, _adds(score_mod), _is_true(_result(mask_mod))
    given = (indices, () if sees_all else _inputs(mask_mod))
    batched = tuple(any(index.users for index in (part[at] for part in given if part)) for at in range(2))
    others, mask_others = ([_value(other) for other in given] for given in node.args[7:9])  # type: ignore[union-attr]
    with torch.no_grad(), FakeMode(leaves_of(node.meta["val"])):
        sizes = (*query.shape[:3], key.shape[2])
        few = _positions(sizes, batched)
        scores = query.new_empty(sizes)
        return _Functions(
            score=None if identity or adds else _traced(score_mod, [scores, *_positions(sizes), *others], scores=True),
            bias=_traced(_without_score(score_mod), [*few, *others]) if adds and not identity else None,
            mask=None if sees_all else _traced(mask_mod, [*few, *mask_others]),
            batched=batched,  # type: ignore[arg-type]
            hides=not identity and _may_hide(score_mod),
            lse=bool(used_results(node) - {0}),
        )


def _without_checks(program: CapturedProgram) -> CapturedProgram:
    """Drop what checks the dtypes of values that nothing else reads: the blocks of masks that `forward` makes."""
    nodes = program.exported.graph.nodes
    read: set[Node] = set()
    for node in reversed(nodes):
        if operator_name(node) != _CHECK and (node in read or node.is_impure()):
            read.update(node.all_input_nodes)
    checks = [node for node in nodes if operator_name(node) == _CHECK and not read.issuperset(node.all_input_nodes)]
    if not checks:
        return program
    editor = ProgramEditor(program)
    for check in checks:
        editor.graph.erase_node(editor.node(check))
    return editor.finish()


def _attention(query: Any, key: Any, value: Any, scale: Any, others: Any, mask_others: Any, functions: Any) -> Any:
    """The rule: all results where one besides the attention is used."""
    few = _positions((*query.shape[:3], key.shape[2]), functions.batched)
    mask = None if functions.mask is None else functions.mask(*few, *mask_others)
    bias = None if functions.bias is None else functions.bias(*few, *others)
    if functions.score is None and not functions.lse:
        if bias is not None:
            bias = _as(query.dtype, bias)
            mask = bias if mask is None else torch.where(mask, bias, -math.inf)
        if isinstance(key.shape[0], int) and key.shape[0] == 1:  # of all batches
            key, value = (operand.expand(query.shape[0], -1, -1, -1) for operand in (key, value))
        grouped = key.shape[1] != query.shape[1]
        found = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, scale=scale, enable_gqa=grouped
        )
        return found, None, None
    inner = torch.float64 if query.dtype == torch.float64 else torch.float32
    scores = _per_group(_as(inner, query), _as(inner, key).transpose(-2, -1)) * scale
    if functions.score is not None:
        scores = functions.score(scores, *_positions(scores.shape), *others)
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = torch.where(mask, scores, -math.inf)
    if functions.hides:
        seen = (scores != -math.inf).any(-1, keepdim=True)
    else:
        seen = None if mask is None else mask.any(-1, keepdim=True)
    found = _per_group(_as(query.dtype, torch.softmax(scores, -1)), value)
    if seen is not None:
        found = torch.where(seen, found, 0.0)
    if not functions.lse:
        return found, None, None
    sums = torch.logsumexp(scores, -1)
    if seen is not None:
        sums = torch.where(seen.squeeze(-1), sums, -math.inf)
    # The operator counts in powers of 2.
    return found, sums / math.log(2), scores.amax(-1) / math.log(2)


def _as(dtype: torch.dtype, tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.dtype == dtype else tensor.to(dtype)


def _per_group(rows: torch.Tensor, matrices: torch.Tensor) -> torch.Tensor:
    """Products of [batch, heads, n, a] and [batch, groups, a, b], where heads in a row share a group's matrix."""
    groups = matrices.shape[1]
    if rows.shape[1] == groups:
        return rows @ matrices
    batch, heads, count, depth = rows.shape
    product = rows.reshape(batch, groups, heads // groups * count, depth) @ matrices
    return product.reshape(batch, heads, count, matrices.shape[3])


def _positions(sizes: Any, batched: Any = (True, True)) -> list[torch.Tensor]:
    """The indices of batch, head, query and key: int64[size] each, of one where nothing depends on them."""
    wanted = (*batched, True, True)
    return [torch.arange(size if asked else 1) for size, asked in zip(sizes, wanted, strict=True)]


def _traced(module: GraphModule, values: list[Any], *, scores: bool = False) -> GraphModule:
    """A function of one position for all of them: a graph without `vmap`."""
    function: Callable[..., Any] = functools.partial(_call, module)
    others = (None,) * (len(values) - _INDICES - scores)
    for at in reversed(range(_INDICES)):
        own = tuple(0 if index == at else None for index in range(_INDICES))
        function = torch.vmap(function, in_dims=((0,) if scores else ()) + own + others)
    return make_fx(function)(*values)


def _call(module: GraphModule, *values: Any) -> Any:
    return _Call(module).run(*values)


class _Call(Interpreter):
    """Calls a function of one position, reading captured tensors as `vmap` can."""

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if str(target) == "flat_apply":
            return _aten.index.Tensor(args[3], list(args[4:]))
        return super().call_function(target, args, kwargs)


def _is_known(module: GraphModule) -> bool:
    """Whether the only functions that a function calls read elements."""
    calls = [node for node in module.graph.nodes if higher_order_name(node)]
    return all(higher_order_name(call) == "flat_apply" and call.args[2] == _READ for call in calls)


def _inputs(module: GraphModule) -> list[Node]:
    return module.graph.find_nodes(op="placeholder")


def _result(module: GraphModule) -> Any:
    return module.graph.output_node().args[0]


def _value(other: Any) -> Any:
    return other.meta["val"] if isinstance(other, Node) else other


def _is_true(result: Any) -> bool:
    """Whether a mask is the one that PyTorch puts where there is none."""
    return isinstance(result, Node) and result.target == _aten.new_ones.default


def _may_hide(module: GraphModule) -> bool:
    """Whether a function may give -inf for a finite score: it selects, or reads numbers that nobody knows here."""
    reads = any(_is_float(node) and node.users for node in _inputs(module)[1 + _INDICES :])
    return reads or any(str(node.target).startswith(_SELECTS) or _divides(node) for node in module.graph.nodes)


def _divides(node: Node) -> bool:
    """Whether an operator divides by a number that may be 0."""
    return str(node.target).startswith("aten.div") and isinstance(node.args[1], Node)


def _is_float(node: Node) -> bool:
    value = node.meta["val"]
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _adds(module: GraphModule) -> bool:
    """Whether all that a function does with the score is adding to it, and -inf in its place."""
    score = _inputs(module)[0]
    dependent = {score}
    for node in module.graph.nodes:
        if dependent.intersection(node.all_input_nodes):
            dependent.add(node)
    value = _result(module)
    while value is not score:
        operands = [argument for argument in value.args if isinstance(argument, Node) and argument in dependent]
        if len(operands) != 1 or value.kwargs or not _keeps_score(value, value.args.index(operands[0])):
            return False
        value = operands[0]
    return True


def _keeps_score(node: Node, at: int) -> bool:
    """Whether an operator gives its argument `at`, with something added or -inf in its place."""
    if node.target == _aten.where.ScalarOther:
        return at == 1 and bool(node.args[2] == -math.inf)
    if node.target == _aten.masked_fill.Scalar:
        return at == 0 and bool(node.args[2] == -math.inf)
    if node.target in (_aten.sub.Tensor, _aten.sub.Scalar, _aten.add.Scalar):
        return at == 0
    return bool(node.target == _aten.add.Tensor)


def _without_score(module: GraphModule) -> GraphModule:
    """The function of a score of 0, which is no argument any more."""
    graph = torch.fx.Graph()
    copies: dict[Node, Any] = {}
    for node in module.graph.nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    score = graph.find_nodes(op="placeholder")[0]
    with graph.inserting_after(score):
        zero = graph.call_function(_aten.scalar_tensor.default, (0.0,), {"dtype": score.meta["val"].dtype})
    score.replace_all_uses_with(zero)
    graph.erase_node(score)
    return GraphModule(module, graph)
