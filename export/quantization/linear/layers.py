"""Recipes for linear layers alone: weights in 8 or 4 bits, activations token by token, written into the graph.

```
before  linear(x, weight, bias)
after   scale, zero = choose_qparams_affine(x)                  # 8da8w and 8da4w: at every run, for each token
        linear(dequantize(quantize(x, scale, zero)), dequantize(weight_quantized, weight_scale), bias)

before  embedding(table, ids)                               # a language model's, where the recipe says so
after   embedding(table_quantized, ids) * embedding(table_scale, ids)
```

The operators are torchao's, and numbers and form are those of its `quantize_`. Written here, every operator keeps its
source line, and a `.pt2` file, which has no modules to swap, is quantized as well.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.provenance import module_path_of
from edgex.delegates.recipes.pieces import fill_in_pieces
from edgex.delegates.recipes.recipes import Recipe, head_recipe
from edgex.errors import QuantizationError
from edgex.export.quantization.linear.head import find_head
from edgex.export.quantization.quantized import Quantized, is_inside, list_float
from edgex.export.rewrites.editing.building import KEEPS_FLOAT
from edgex.export.rewrites.editing.editor import FakeMode, ProgramEditor, constant_tensors
from edgex.runtime.support.dependency_messages import quiet_import

if TYPE_CHECKING:
    from torch.fx import Graph, Node

_RANGES = {8: (-128, 127), 7: (-64, 63), 4: (-8, 7)}


def quantize_linear(program: CapturedProgram, recipe: Recipe, keep_float: frozenset[str]) -> Quantized:
    """Quantize every linear layer with a constant weight.

    Args:
        program: In float32; it is not changed.
        recipe: `8da8w`, `8da4w`, `int8-weight` or `int4-weight`.
        keep_float: Paths of modules that stay in floating point.

    Raises:
        QuantizationError: There is no such layer.
    """
    with quiet_import():
        import torchao.quantization.quant_primitives  # noqa: F401  # torch.ops.torchao

    editor = ProgramEditor(program)
    constants = constant_tensors(program)
    excluded: dict[str, str] = {}
    weights = _Weights(editor, constants)
    head = None if recipe.head == "recipe" else require_head(program)
    count = 0
    for node in program.exported.graph.nodes:
        if node.op != "call_function" or node.target is not torch.ops.aten.linear.default or KEEPS_FLOAT in node.meta:
            continue
        own = head_recipe(recipe) if node is head else recipe
        if own is None:
            excluded[node.name] = "--head none leaves it in float32"
            continue
        refusal = _refusal(constants.get(node.args[1]), own)
        if refusal is not None:
            excluded[node.name] = refusal
        elif not is_inside(module_path_of(node), keep_float):
            _rewrite(editor, editor.node(node), weights.of(node.args[1], own), own)
            count += 1
    if recipe.embedding == "int8":
        _write_tables(editor, program, weights, recipe)
    if count == 0:
        raise QuantizationError(
            f"there is nothing in this model that {recipe.name} can quantize",
            why="; ".join(f"{name}: {why}" for name, why in excluded.items()) or "it has no linear layer",
            fix="leave --quantize out, or use --quantize int8",
        )
    quantized = editor.finish(recipe=recipe, float_modules=keep_float)
    return Quantized(quantized, list_float(quantized, keep_float, excluded))


def quantize_tables(program: CapturedProgram, recipe: Recipe) -> CapturedProgram:
    """The program with its tables of embeddings in 8 bits and its linear layers as they are.

    For delegates that quantize linear layers themselves while they lower.

    Raises:
        QuantizationError: It has no table.
    """
    with quiet_import():
        import torchao.quantization.quant_primitives  # noqa: F401  # torch.ops.torchao

    editor = ProgramEditor(program)
    _write_tables(editor, program, _Weights(editor, constant_tensors(program)), recipe)
    return editor.finish()


def require_head(program: CapturedProgram) -> Node:
    """The linear layer that gives a language model's scores.

    Raises:
        QuantizationError: No single linear layer does.
    """
    head = find_head(program.exported)
    if head is None:
        raise QuantizationError(
            "no linear layer gives the scores of this model, so that there is no head to treat apart",
            why="the scores are computed from more than one value",
            fix="leave --head out",
        )
    return head


def _write_tables(editor: ProgramEditor, program: CapturedProgram, weights: _Weights, recipe: Recipe) -> None:
    """Let every float table of embeddings be read in 8 bits.

    Raises:
        QuantizationError: There is none.
    """
    tables = [
        node
        for node in program.exported.graph.nodes
        if node.target is torch.ops.aten.embedding.default and weights.is_float_matrix(node.args[0])
    ]
    if not tables:
        raise QuantizationError(
            "there is no table of embeddings in this model",
            why="no operator looks rows up",
            fix="leave --embedding out",
        )
    for original in tables:
        node, table = (
            editor.node(original),
            weights.of(original.args[0], replace(recipe, weight_bits=8, group_size=None)),
        )
        with editor.graph.inserting_before(node):
            rows, scale = (
                _add(editor.graph, node, torch.ops.aten.embedding.default, part, node.args[1])
                for part in (table.values, table.scale)
            )
            wide = _add(editor.graph, node, torch.ops.aten.to.dtype, rows, torch.float32)
            value = _add(editor.graph, node, torch.ops.aten.mul.Tensor, wide, scale)
        node.replace_all_uses_with(value)
        editor.graph.erase_node(node)


def _refusal(weight: torch.Tensor | None, recipe: Recipe) -> str | None:
    if weight is None:
        return "its weight is computed when the model runs"
    if weight.dtype != torch.float32:
        return f"its weight is {str(weight.dtype).removeprefix('torch.')}"
    if recipe.group_size is not None and weight.shape[1] % recipe.group_size:
        return f"its {weight.shape[1]} inputs are no multiple of the group size {recipe.group_size}"
    return None


@dataclass(frozen=True)
class _Weight:
    """A quantized weight `[out, in]`, its scales and zero points `[out, in / group]`, as placeholders."""

    values: Node
    scale: Node
    zero_point: Node
    group: int


class _Weights:
    """The quantized weights of a program: what several operators read in the same bits is made once."""

    def __init__(self, editor: ProgramEditor, constants: Mapping[Node, torch.Tensor]) -> None:
        self._editor, self._constants = editor, constants
        self._made: dict[tuple[Node, int, int | None], _Weight] = {}

    def is_float_matrix(self, node: Any) -> bool:
        """Whether it is a constant float32 matrix of more than one column."""
        found = self._constants.get(node)
        return found is not None and found.dtype == torch.float32 and found.dim() == 2 and found.shape[1] > 1

    def of(self, node: Any, recipe: Recipe) -> _Weight:
        """A constant in the bits of a recipe."""
        key = (node, recipe.weight_bits, recipe.group_size)
        if key not in self._made:
            self._made[key] = _quantize_weight(self._editor, node, self._constants[node], recipe)
        return self._made[key]


def _quantize_weight(editor: ProgramEditor, node: Node, weight: torch.Tensor, recipe: Recipe) -> _Weight:
    low, high = _RANGES[recipe.weight_bits]
    group = recipe.group_size or int(weight.shape[1])
    tensor = weight.detach()

    def compute(rows: slice) -> tuple[torch.Tensor, ...]:
        some = tensor[rows]
        scale, zero_point = torch.ops.torchao.choose_qparams_affine(
            some, "SYMMETRIC", [1, group], torch.int8, low, high, None, None, torch.int8
        )
        values = torch.ops.torchao.quantize_affine(some, [1, group], scale, zero_point, torch.int8, low, high)
        return values, scale, zero_point

    values, scale, zero_point = fill_in_pieces(len(tensor), int(tensor.shape[1]), compute)
    name = str(editor.spec(editor.node(node)).target)
    mode = FakeMode([node.meta["val"]])

    def add(suffix: str, value: torch.Tensor) -> Node:
        value = value.reshape(weight.shape[0], -1)
        return editor.add_constant(f"{name}_{suffix}", value, mode.convert(value), is_parameter=True)

    return _Weight(add("quantized", values), add("scale", scale), add("zero_point", zero_point), group)


def _rewrite(editor: ProgramEditor, linear: Node, weight: _Weight, recipe: Recipe) -> None:
    """Let a linear layer read converted values."""
    graph, ops = editor.graph, torch.ops.torchao
    low, high = _RANGES[recipe.weight_bits]
    source = linear.args[0]
    assert isinstance(source, torch.fx.Node)
    with graph.inserting_before(linear):
        if recipe.activations == "dynamic":
            # One scale a token: all but the last dimension.
            size = [1] * (source.meta["val"].ndim - 1) + [int(weight.values.meta["val"].shape[1])]
            found = _add(
                graph, linear, ops.choose_qparams_affine.default,
                source, "ASYMMETRIC", size, torch.int8, -128, 127, None, None, torch.int8,
            )  # fmt: skip
            qparams = tuple(_add(graph, linear, operator.getitem, found, index) for index in (0, 1))
            low_bits = _add(graph, linear, ops.quantize_affine.default, source, size, *qparams, torch.int8, -128, 127)
            source = _add(graph, linear, ops.dequantize_affine.default, low_bits, size, *qparams, torch.int8, -128, 127)
        wide = _add(
            graph, linear, ops.dequantize_affine.default,
            weight.values, [1, weight.group], weight.scale, weight.zero_point, torch.int8, low, high,
        )  # fmt: skip
    linear.args = (source, wide, *linear.args[2:])


def _add(graph: Graph, like: Node, target: Any, *args: Any) -> Node:
    """An operator that counts as part of the source line of `like`."""
    node = graph.call_function(target, args)
    keys = ("stack_trace", "nn_module_stack", "torch_fn")
    node.meta = {key: like.meta[key] for key in keys if key in like.meta}
    values = torch.fx.map_arg(args, lambda arg: arg.meta["val"])
    with torch.no_grad(), FakeMode(v for v in values if isinstance(v, torch.Tensor)):
        node.meta["val"] = target(*values)
    return node
