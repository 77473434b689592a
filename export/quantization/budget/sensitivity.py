"""How much each layer suffers from being quantized: the model's outputs with only that layer quantized.

```
quantized    conv1(dq(q(x)), dq(w1)) -> conv2(dq(q(.)), dq(w2))
conv1 alone  conv1(dq(q(x)), dq(w1)) -> conv2(.,        w2)
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.provenance import is_conversion, is_operator, module_path_of
from edgex.export.quantization.budget.search import Layer
from edgex.export.quantization.running import GraphRunner
from edgex.export.rewrites.editing.editor import ProgramEditor, constant_tensors
from edgex.runtime.session.numerics import EXACT_SQNR_DB, measure_sqnr_db

if TYPE_CHECKING:
    from edgex.export.source.eager import EagerModel


def rank_layers(
    quantized: CapturedProgram,
    original: CapturedProgram,
    eager: EagerModel,
    held_out: Sequence[Sequence[torch.Tensor]] = (),
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[Layer, ...]:
    """The quantized layers, most sensitive first.

    Args:
        quantized: Holds quantize and dequantize operators.
        original: The float program that it was made of: gives the weights.
        eager: Gives the example inputs.
        held_out: Inputs that were not calibrated on, used beside the example.
        progress: Called with each layer's path.
    """
    samples = [eager.example, *held_out]
    references = _answers(GraphRunner(original), samples)
    layers = []
    modules = quantized_modules(quantized)
    for number, module in enumerate(modules, 1):
        progress(f"{module}, layer {number} of {len(modules)}")
        alone = quantize_alone(quantized, original, module)
        layers.append(Layer(module, _worst_sqnr_db(references, _answers(GraphRunner(alone), samples))))
    return tuple(sorted(layers, key=lambda layer: layer.sqnr_db))


def quantized_modules(program: CapturedProgram) -> tuple[str, ...]:
    """Paths of the modules with an operator that reads a quantized constant, in program order."""
    constants = constant_tensors(program)
    found: dict[str, None] = {}
    for node in program.exported.graph.nodes:
        path = module_path_of(node)
        weighted = any(_origin(source) in constants for source in node.all_input_nodes if _is_dequantize(source))
        if path and not _is_conversion(node) and weighted:
            found[path] = None
    return tuple(found)


def quantize_alone(quantized: CapturedProgram, original: CapturedProgram, module: str) -> CapturedProgram:
    """The quantized program with every layer but one back in floating point; neither is changed."""
    editor = ProgramEditor(quantized)
    constants, weights = constant_tensors(quantized), _float_weights(original)
    for node in quantized.exported.graph.nodes:
        if not is_operator(node) or _is_conversion(node) or module_path_of(node) == module:
            continue
        copy = editor.node(node)
        for position, argument in enumerate(node.args):
            if not isinstance(argument, Node) or not _is_dequantize(argument):
                continue
            origin = _origin(argument)
            if origin not in constants:
                copy.update_arg(position, editor.node(origin))
            elif (tensor := weights.get((node.name, position))) is not None:
                val = argument.meta["val"]
                constant = editor.add_constant(f"{node.name}_{position}_float", tensor, val, is_parameter=True)
                copy.update_arg(position, constant)
    editor.graph.eliminate_dead_code()
    return editor.finish()


def _float_weights(original: CapturedProgram) -> Mapping[tuple[str, int], torch.Tensor]:
    """The constants that operators read, by the operator's name, which quantizing keeps, and the argument's place."""
    constants = constant_tensors(original)
    return {
        (node.name, position): constants[argument]
        for node in original.exported.graph.nodes
        for position, argument in enumerate(node.args)
        if isinstance(argument, Node) and argument in constants
    }


def _origin(dequantize: Node) -> Node:
    """What was quantized: the float value, or the constant that holds it in few bits."""
    node = dequantize
    while _is_conversion(node) and isinstance(node.args[0], Node):
        node = node.args[0]
    return node


def _is_conversion(node: Node) -> bool:
    return node.op == "call_function" and is_conversion(str(node.target))


def _is_dequantize(node: Node) -> bool:
    return _is_conversion(node) and ".dequantize" in str(node.target)


def _answers(runner: GraphRunner, samples: Sequence[Sequence[torch.Tensor]]) -> list[list[torch.Tensor]]:
    answers = []
    for sample in samples:
        runner.reset()
        answers.append(runner.run(sample))
    return answers


def _worst_sqnr_db(references: Sequence[Sequence[Any]], answers: Sequence[Sequence[Any]]) -> float:
    worst = EXACT_SQNR_DB
    for reference, answer in zip(references, answers, strict=True):
        for one, other in zip(reference, answer, strict=True):
            if one.is_floating_point():
                worst = min(worst, measure_sqnr_db(one.float().numpy(), other.float().numpy()))
    return worst
