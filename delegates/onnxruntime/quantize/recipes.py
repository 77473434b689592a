"""What ONNX Runtime makes of a quantization recipe: which it takes, how a graph is rewritten, what stays in float."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.provenance import module_path_of
from edgex.delegates.onnxruntime.graph.edits import GraphEditor
from edgex.delegates.onnxruntime.quantize import qdq
from edgex.delegates.onnxruntime.quantize.dynamic import CONTRIB, LinearRewriter
from edgex.delegates.onnxruntime.quantize.linears import Linear, Unfit, find_head, find_linears
from edgex.errors import QuantizationError
from edgex.runtime.engines.isa import saturates_bytes

if TYPE_CHECKING:
    from torch.fx import Node as FxNode

# Static first: it is the quickest wherever there is calibration data.
CPU_RECIPES = ("int8", "int8-dynamic", "8da8w", "8da4w", "int4-weight")
MIGRAPHX_RECIPES = ("int8",)

# The oldest ONNX Runtime whose MatMulNBits has a bias; tried.
MATMUL_NBITS_RUNTIME = "1.20"
# And that takes 8 bits; tried.
MATMUL_8BITS_RUNTIME = "1.22"
# Inputs that share a scale in a head of 8 bits: what MatMulNBits has in place of a whole row.
_HEAD_GROUP = 32

OLDEST_QUANTIZED_OPSET = 18

_ACCURACY_LEVELS = {"8da4w": 4, "int4-weight": 1}
_CONVOLUTIONS = ("Conv", "ConvTranspose")
_RECURRENT = ("LSTM", "GRU", "RNN")
_WHY_CONVOLUTION = {
    "int8-dynamic": "ONNX Runtime's integer convolution is five times slower than its float one",
    "8da8w": "the recipe is for linear layers",
    "8da4w": "the recipe is for linear layers",
    "int4-weight": "the recipe is for linear layers",
}
_NAMED = 8

# How static quantization is written: as ONNX Runtime's CPU provider fuses it; as QNN takes it, with every operator
# between DequantizeLinear and QuantizeLinear; or in PT2E's own signed form, which MIGraphX takes. See
# `edgex.delegates.onnxruntime.quantize.qdq`.
Form = Literal["cpu", "units", "signed"]
# Measured: with 16 rows 4-bit kernels are a little quicker than float32, with 128 they take 1.1 to 1.7 times as long.
_MANY_ROWS = 64


@dataclass(frozen=True)
class Quantized:
    """What became of a graph.

    Attributes:
        warnings: What stayed in float and why, a sentence each.
        minimum_runtime: Oldest ONNX Runtime that knows the operators, where the opset does not say it.
    """

    warnings: tuple[str, ...] = ()
    minimum_runtime: str | None = None


def cpu_refusal(recipe: str) -> str:
    """Why `onnx-cpu` refuses a recipe."""
    if recipe == "int8-weight":
        return (
            "ONNX Runtime's CPU provider multiplies float activations with 8-bit weights by turning every weight into "
            "float32 at every run, which is up to 20 times slower than float weights; use --quantize 8da8w"
        )
    return f"onnx-cpu does not take {recipe}; use one of {', '.join(CPU_RECIPES)}"


def migraphx_refusal(recipe: str) -> str:
    """Why `onnx-rocm` refuses a recipe."""
    return (
        f"MIGraphX takes int8 with ranges from calibration; {recipe} needs operators that only ONNX Runtime's CPU "
        "provider has; use --quantize int8"
    )


def check_quantizable(program: CapturedProgram, opset: int) -> None:
    """Refuse what no graph could change, before there is one.

    Raises:
        QuantizationError: The model is not float32, or the opset is too old.
    """
    recipe = program.recipe
    if recipe is None:
        return
    if program.precision != "fp32":
        raise QuantizationError(
            f"{recipe.name} is for float32 models, not {program.precision}",
            why="ONNX Runtime's integer kernels take and give float32",
            fix="--precision fp32",
        )
    if opset < OLDEST_QUANTIZED_OPSET:
        raise QuantizationError(
            f"{recipe.name} needs opset {OLDEST_QUANTIZED_OPSET} or newer, not {opset}",
            why="older ones are converted down, after which it is no longer known which node was which layer",
            fix=f"--option opset={OLDEST_QUANTIZED_OPSET}",
        )


def quantize_graph(model: Any, origins: dict[str, FxNode], program: CapturedProgram, form: Form) -> Quantized:
    """Rewrite a graph as the program's recipe asks; without a recipe nothing happens.

    Args:
        model: An `onnx_ir.Model`, changed in place; for static recipes it holds PT2E's operators.
        origins: ONNX node name -> operator; new nodes are entered.
        program: The captured program.
        form: How static recipes are written.

    Raises:
        QuantizationError: Nothing in it can be quantized.
    """
    recipe = program.recipe
    if recipe is None:
        return Quantized()
    editor = GraphEditor(model, origins)
    if recipe.activations == "static":
        return _static(editor, form)
    return _while_lowering(editor, program)


def _static(editor: GraphEditor, form: Form) -> Quantized:
    qdq.fold_weight_transposes(editor)
    spared = [] if form == "signed" else qdq.fuse_for_cpu(editor, as_units=form == "units")
    layers = [node for node in editor.graph if qdq.has_quantized_weight(node)]
    if not layers and not spared:
        raise _nothing("int8", "no layer of the program has quantized weights")
    unfused = (
        {} if form == "signed" else _group((reason, node) for node in layers if (reason := qdq.unfused_reason(node)))
    )
    texts = [
        f"{_listed(nodes, editor.origins)}: quantized, but computed in float: {reason}"
        for reason, nodes in unfused.items()
    ]
    if spared:
        texts.append(
            f"{_listed(spared, editor.origins)}: quantized, but computed in float: that is quicker in groups of so "
            "few channels"
        )
    return Quantized(tuple(texts))


def _while_lowering(editor: GraphEditor, program: CapturedProgram) -> Quantized:
    recipe = program.recipe
    assert recipe is not None
    rewriter = LinearRewriter(editor, 7 if saturates_bytes() else 8)
    left: list[tuple[str, Any]] = []
    count = 0
    crowded: list[Any] = []
    head = None if recipe.head == "recipe" else find_head(editor.graph)
    for found in find_linears(editor.graph, editor.origins):
        node = found.node if isinstance(found, Unfit) else found.last
        if _stays_float(node, editor.origins, program.float_modules):
            continue
        if isinstance(found, Unfit):
            left.append((found.reason, node))
            continue
        if node is head and recipe.head == "float":
            left.append(("--head none leaves it so", node))
            continue
        count += 1
        if node is head:
            _rewrite_head(rewriter, found, recipe)
            continue
        if recipe.name in _ACCURACY_LEVELS and _rows(found.activation) >= _MANY_ROWS:
            crowded.append(node)
        _rewrite(rewriter, found, recipe)
    editor.remove_unused()
    for node in editor.graph:
        if _stays_float(node, editor.origins, program.float_modules):
            continue
        if node.op_type in _CONVOLUTIONS:
            left.append((_WHY_CONVOLUTION[recipe.name], node))
        elif node.op_type in _RECURRENT:
            left.append(("recurrent layers are not quantized", node))
    grouped = _group(left)
    if not count:
        raise _nothing(recipe.name, "; ".join(grouped) or "it has no linear layer with a constant weight")
    texts = tuple(f"{_listed(nodes, editor.origins)}: in float32, {reason}" for reason, nodes in grouped.items())
    if recipe.name not in _ACCURACY_LEVELS:
        return Quantized(texts)
    if crowded:
        texts += (
            f"{_listed(crowded, editor.origins)}: {_MANY_ROWS} rows or more at once, where ONNX Runtime's 4-bit "
            "kernels are slower than float32; they are made for few, as in a decoder's step; --quantize 8da8w is "
            "quicker",
        )
    editor.graph.opset_imports[CONTRIB] = 1
    return Quantized(texts, MATMUL_8BITS_RUNTIME if recipe.head == "int8" else MATMUL_NBITS_RUNTIME)


def _rows(activation: Any) -> int:
    """How many rows a linear layer works on at once, as far as sizes are static."""
    sizes = [] if activation.shape is None else list(activation.shape)[:-1]
    return math.prod(size for size in sizes if isinstance(size, int))


def _rewrite(rewriter: LinearRewriter, linear: Linear, recipe: Any) -> None:
    if recipe.name == "int8-dynamic":
        rewriter.tensorwise(linear)
    elif recipe.name == "8da8w":
        rewriter.tokenwise(linear)
    else:
        rewriter.blocks(linear, 4, recipe.group_size, _ACCURACY_LEVELS[recipe.name])


def _rewrite_head(rewriter: LinearRewriter, linear: Linear, recipe: Any) -> None:
    """8 bits for the layer of the scores, whatever the others have."""
    if recipe.name == "8da8w":
        rewriter.tokenwise(linear)
    else:
        rewriter.blocks(linear, 8, _HEAD_GROUP, _ACCURACY_LEVELS[recipe.name])


def _nothing(recipe: str, why: str) -> QuantizationError:
    return QuantizationError(
        f"nothing in this model can be quantized with {recipe}", why=why, fix="--quantize int8, or no --quantize"
    )


def _stays_float(node: Any, origins: Mapping[str, FxNode], modules: frozenset[str]) -> bool:
    path = _path(node, origins)
    return any(path == module or path.startswith(f"{module}.") for module in modules)


def _path(node: Any, origins: Mapping[str, FxNode]) -> str:
    origin = origins.get(node.name)
    return "" if origin is None else module_path_of(origin) or ""


def _group(pairs: Iterable[tuple[str, Any]]) -> dict[str, list[Any]]:
    grouped: dict[str, list[Any]] = {}
    for reason, node in pairs:
        grouped.setdefault(reason, []).append(node)
    return grouped


def _listed(nodes: list[Any], origins: Mapping[str, FxNode]) -> str:
    names = list(dict.fromkeys(_path(node, origins) or node.name for node in nodes))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
