"""Products with matrices of weights as linear layers, which are what recipes and quantizers know.

```
before:  y = aten.addmm.default(bias, x, weight)          # weight [in, out]: GPT-2 writes all its layers so
after:   y = aten.linear.default(x, weight_turned, bias)  # [out, in]

before:  y = aten.matmul.default(x, weight)
after:   y = aten.linear.default(x, weight_turned)

before:  y = aten.mm.default(x, aten.t.default(weight))
after:   y = aten.linear.default(x, weight)
```

Left alone: matrices that something else reads as well, which would lie in the file twice; and tables that are no
parameters, of a Fourier transform or a resize, say, whose digits are all needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.export.graph_signature import InputKind
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments, operator_name
from edgex.export.rewrites.base import Rewrite, locations_of
from edgex.export.rewrites.editing.building import KEEPS_FLOAT
from edgex.export.rewrites.editing.editor import FakeMode, ProgramEditor, constant_tensors, placeholders
from edgex.export.rewrites.folding.constants import TRANSPOSITIONS

aten = torch.ops.aten

_PRODUCTS = (aten.addmm.default, aten.matmul.default, aten.mm.default)


def write_layers(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every product of something computed with a parameter so; the same program comes back without one."""
    constants = constant_tensors(program)
    parameters = {node for node, spec in placeholders(program.exported) if spec.kind is InputKind.PARAMETER}
    found: dict[Node, Node] = {}
    for node in program.exported.graph.nodes:
        if node.target in _PRODUCTS and KEEPS_FLOAT not in node.meta and _is_layer(node, constants):
            weight = _weight_of(node.args[-1], constants)
            if weight in parameters and constants[weight].dtype == torch.float32 and constants[weight].dim() == 2:
                found[node] = weight
    layers = {node: weight for node, weight in found.items() if _reads_all(weight, found)}
    if not layers:
        return program, None
    editor = ProgramEditor(program)
    turned: dict[Node, Node] = {}
    for node, weight in layers.items():
        new = editor.node(node)
        if weight is node.args[-1] and weight not in turned:
            turned[weight] = _turn(editor, weight, constants[weight])
        before = [editor.node(arg) for arg in node.args[:-1] if isinstance(arg, Node)]
        new.args = (before[-1], turned[weight] if weight in turned else editor.node(weight), *before[:-1])
        new.kwargs = {}
        new.target = aten.linear.default
    detail = f"{len(layers)} product(s) with a matrix of weights became linear layers"
    return editor.finish(), Rewrite("write_layers", len(layers), detail, locations_of(layers, program.source_root))


def _is_layer(node: Node, constants: Mapping[Node, torch.Tensor]) -> bool:
    """Whether it multiplies something computed, of at least two dimensions, and adds a bias at most."""
    given = named_arguments(node)
    data = given["mat1"] if "mat1" in given else given["self"]
    if not isinstance(data, Node) or data in constants or data.meta["val"].dim() < 2:
        return False
    if node.target is not aten.addmm.default:
        return True
    bias, plain = given["self"], given["beta"] == given["alpha"] == 1
    return plain and bias in constants and constants[bias].shape == node.meta["val"].shape[1:]


def _weight_of(factor: Any, constants: Mapping[Node, torch.Tensor]) -> Any:
    """The factor, or the constant matrix that a transposition makes it of."""
    turns = isinstance(factor, Node) and factor.op == "call_function" and operator_name(factor) in TRANSPOSITIONS
    # Of others the sizes may be known to a run alone, and are not to be compared.
    if not turns or factor.args[0] not in constants or constants[factor.args[0]].dim() != 2:
        return factor
    weight = factor.args[0]
    rows, columns = constants[weight].stride()
    return weight if rows != columns and tuple(factor.meta["val"].stride()) == (columns, rows) else factor


def _reads_all(weight: Node, found: Mapping[Node, Node]) -> bool:
    """Whether such products alone read the weight, all of them as it is or all of them transposed."""
    readers = {node for node, read in found.items() if read is weight}
    plain = {node for node in readers if node.args[-1] is weight}
    return not plain or set(weight.users) == plain


def _turn(editor: ProgramEditor, weight: Node, tensor: torch.Tensor) -> Node:
    turned = tensor.detach().t().contiguous()
    name = f"{editor.spec(editor.node(weight)).target}_turned"
    return editor.add_constant(name, turned, FakeMode([weight.meta["val"]]).convert(turned), is_parameter=True)
