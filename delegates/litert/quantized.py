"""Quantized weights in the form that litert-torch reads: in floating point, with their scales behind them.

```
before:  w: int8                                    after:  w: float32
         dq = dequantize_per_channel(w, s, z)               q  = quantize_per_channel(w, s, z)
         y  = conv2d(x, dq)                                 dq = dequantize_per_channel(q, s, z)
                                                            y  = conv2d(x, dq)
```

The converter stores `q` again; taking a byte times its scale by the scale gives that byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor
    from torch.export import ExportedProgram
    from torch.fx import Node


def unfold_weights(program: ExportedProgram) -> ExportedProgram:
    """The program with every 8-bit constant as above; its graph is edited, its weights are not.

    Args:
        program: Nobody else's.
    """
    import torch
    from torch.export import ExportedProgram

    operators = torch.ops.quantized_decomposed
    partners: dict[Any, Any] = {
        operators.dequantize_per_channel.default: operators.quantize_per_channel.default,
        operators.dequantize_per_tensor.default: operators.quantize_per_tensor.default,
    }
    signature = program.graph_signature
    kept = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    kept |= signature.inputs_to_lifted_tensor_constants
    weights, constants = dict(program.state_dict), dict(program.constants)

    def value_of(node: Node) -> Tensor:
        name = kept[node.name]
        found: Tensor = weights[name] if name in weights else constants[name]
        return found

    graph = program.graph
    for weight in graph.find_nodes(op="placeholder"):
        readers = [node for node in weight.users if node.target in partners and node.args[0] is weight]
        if weight.name not in kept or not readers or len(readers) != len(weight.users):
            continue
        first = readers[0]
        if any(node.args[1:] != first.args[1:] or node.target is not first.target for node in readers):
            continue
        stored: Any = first.target
        floats = stored(*(value_of(a) if hasattr(a, "users") else a for a in first.args), **first.kwargs)
        with graph.inserting_before(first):
            partner = graph.call_function(partners[first.target], first.args)
        partner.meta = {**first.meta, "val": weight.meta["val"]}
        weight.meta = {**weight.meta, "val": first.meta["val"]}
        for node in readers:
            node.args = (partner, *node.args[1:])
        for held in (weights, constants):
            if kept[weight.name] in held:
                held[kept[weight.name]] = floats
    program.graph_module.recompile()
    return ExportedProgram(
        program.graph_module,
        graph,
        signature,
        weights,
        program.range_constraints,
        program.module_call_graph,
        program.example_inputs,
        constants,
    )
