"""A part of a program as a Python file that `edgex export` takes: a module whose forward calls the same operators.

```python
class Repro(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.p_one_weight = torch.nn.Parameter(DATA["weight/p_one_weight"], requires_grad=False)

    def forward(self, linear):
        gelu = torch.ops.aten.gelu.default(linear, approximate='tanh')
        return (gelu,)
```
"""

from __future__ import annotations

import keyword
import math
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.export.graph_signature import InputKind
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import overload_of
from edgex.export.rewrites.editing.editor import placeholders, tensor_of

_HEAD = '''\
"""{title}

{lines}
"""

from pathlib import Path

import torch
from safetensors.torch import load_file
{imports}
DATA = load_file(Path(__file__).with_suffix(".safetensors"))


class Repro(torch.nn.Module):
    def __init__(self):
        super().__init__()
{weights}

    def forward(self, {inputs}):
{body}
        return ({results},)


def get_model():
    return Repro().eval()


def get_args():
    return ({args},)
'''
# Whose import registers the operators of quantized programs.
_REGISTER = {
    "quantized_decomposed": "import torch.ao.quantization.fx._decomposed  # registers torch.ops.quantized_decomposed",
    "torchao": "import torchao.quantization  # registers torch.ops.torchao",
}


class NotPython(Exception):
    """The part calls what has no name in Python; the text says what."""


def write_python(program: CapturedProgram, title: str, lines: Sequence[str]) -> tuple[str, dict[str, torch.Tensor]]:
    """The file's text, and the weights that it loads.

    Args:
        program: Of one part: static sizes, no state.
        title: The first line of its docstring.
        lines: The others.

    Raises:
        NotPython: It holds control flow.
    """
    exported = program.exported
    names: dict[Node, str] = {}
    weights, data, body = [], {}, []
    inputs: list[str] = []
    for node, spec in placeholders(exported):
        if spec.kind == InputKind.USER_INPUT:
            names[node] = _identifier(node.name)
            inputs.append(names[node])
            continue
        attribute = _identifier(node.name)
        names[node] = f"self.{attribute}"
        data[f"weight/{attribute}"] = tensor_of(exported, spec).detach().clone().contiguous()
        value = f'DATA["weight/{attribute}"]'
        if spec.kind == InputKind.PARAMETER:
            weights.append(f"        self.{attribute} = torch.nn.Parameter({value}, requires_grad=False)")
        else:
            weights.append(f'        self.register_buffer("{attribute}", {value})')
    for node in exported.graph.nodes:
        if node.op == "call_function":
            names[node] = _identifier(node.name)
            body.append(f"        {names[node]} = {_call(node, names)}")
        elif node.op == "get_attr":
            raise NotPython(f"{node.target}, a branch of control flow")
    results = ", ".join(names[node] for node in exported.graph.output_node().all_input_nodes)
    text = _HEAD.format(
        title=title,
        lines="\n".join(lines),
        imports="".join(f"{line}\n" for line in _imports(exported.graph.nodes)),
        weights="\n".join(weights) or "        pass",
        inputs=", ".join(inputs),
        body="\n".join(body),
        results=results,
        args=", ".join(f'DATA["input/{name}"]' for name in inputs),
    )
    return text, data


def input_keys(program: CapturedProgram) -> list[str]:
    """The keys under which the file looks for its inputs, in their order."""
    return [
        f"input/{_identifier(node.name)}"
        for node, spec in placeholders(program.exported)
        if spec.kind == InputKind.USER_INPUT
    ]


def _imports(nodes: Any) -> list[str]:
    spaces = {str(node.target).partition(".")[0] for node in nodes if node.op == "call_function"}
    return [line for space, line in _REGISTER.items() if space in spaces]


def _call(node: Node, names: dict[Node, str]) -> str:
    def text(value: Any) -> str:
        if isinstance(value, Node):
            return names[value]
        if isinstance(value, list | tuple):
            inner = ", ".join(text(part) for part in value)
            return f"[{inner}]"
        if isinstance(value, float) and not math.isfinite(value):
            return f'float("{value}")'
        if isinstance(value, torch.device):
            return f'torch.device("{value}")'
        return repr(value)

    if node.target is operator.getitem:
        return f"{text(node.args[0])}[{text(node.args[1])}]"
    if overload_of(node) is None:
        raise NotPython(str(node.target))
    arguments = [*map(text, node.args), *(f"{name}={text(value)}" for name, value in node.kwargs.items())]
    return f"torch.ops.{node.target}({', '.join(arguments)})"


def _identifier(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) or name in ("torch", "self") else name
