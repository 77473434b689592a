"""Check an ONNX graph against what MIGraphX takes, node by node, with a reason for each that it does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from edgex.delegates.onnxruntime.kernels import MissingKernel
from edgex.delegates.onnxruntime.migraphx.operators import (
    ATTRIBUTE_VALUES,
    CONSTANT_INPUTS,
    DATA_SIZED,
    DTYPES,
    OPERATORS,
    TABLE_VERSION,
)
from edgex.delegates.plan import ReasonCode


def migraphx_refusals(model: Any, *, fatal: bool) -> tuple[MissingKernel, ...]:
    """The nodes that MIGraphX would leave to the CPU, in graph order.

    Args:
        model: An `onnx_ir.Model`.
        fatal: Whether that is in the way of the export.
    """
    import onnx_ir

    workaround = "--option allow_fallback=true leaves it to the CPU" if fatal else None
    refused = []
    for node in onnx_ir.traversal.RecursiveGraphIterator(model.graph):
        for code, reason in _reasons(node, model):
            # One size at a time is quicker than the CPU: the usual workaround of this code.
            known = None if code == "dynamic_shape" else workaround
            refused.append(MissingKernel(node.name, code, reason, fatal, known))
            break
    return tuple(refused)


def _reasons(node: Any, model: Any) -> Iterator[tuple[ReasonCode, str]]:
    """Everything that MIGraphX has against a node; the first is what the user is told."""
    name = node.op_type
    if node.domain not in ("", "ai.onnx"):
        if node.op_identifier() not in model.functions:
            yield "not_in_delegate", f"MIGraphX does not know {node.domain}.{name}"
        return
    if name not in OPERATORS:
        yield "not_in_delegate", f"{name} is not among the operators that MIGraphX parses ({TABLE_VERSION})"
        return
    yield from _dtypes(node)
    yield from _attributes(node)
    # A dynamic input makes arguments computed and outputs dynamic, a computed argument makes outputs dynamic: the
    # cause is told, not what follows from it.
    yield from _dynamic_sizes(node, node.inputs)
    yield from _constants(node)
    yield from _dynamic_sizes(node, node.outputs)
    if name in DATA_SIZED:
        yield "dynamic_shape", f"the size of {name}'s result depends on the data; MIGraphX gives it the largest size"


def _dtypes(node: Any) -> Iterator[tuple[ReasonCode, str]]:
    for value in (*node.inputs, *node.outputs):
        if value is not None and value.dtype is not None and value.dtype.name not in DTYPES:
            yield "dtype", f"MIGraphX takes no {value.dtype.name.lower()}, which {node.op_type} has here"


def _dynamic_sizes(node: Any, values: Sequence[Any]) -> Iterator[tuple[ReasonCode, str]]:
    for value in values:
        if value is None or value.shape is None:
            continue
        for size in value.shape:
            if not isinstance(size, int):
                text = f"{node.op_type} works on the dynamic size {size}; MIGraphX compiles for one size"
                yield "dynamic_shape", text


def _attributes(node: Any) -> Iterator[tuple[ReasonCode, str]]:
    for (operator, attribute), taken in ATTRIBUTE_VALUES.items():
        if node.op_type == operator and attribute in node.attributes:
            value = node.attributes[attribute].value
            if value not in taken:
                yield "attribute", f"MIGraphX takes {operator} with {attribute} {_listed(taken)} only, not {value}"
    if node.op_type == "MaxPool":
        dilations = node.attributes["dilations"].value if "dilations" in node.attributes else ()
        if any(step != 1 for step in dilations):
            yield "attribute", f"MIGraphX takes MaxPool without dilation only, not {list(dilations)}"
        if len([out for out in node.outputs if out.uses() or out.is_graph_output()]) > 1:
            yield "attribute", "MIGraphX's MaxPool gives no indices"


def _listed(values: tuple[object, ...]) -> str:
    return " or ".join(str(value) for value in values)


def _constants(node: Any) -> Iterator[tuple[ReasonCode, str]]:
    for position in CONSTANT_INPUTS.get(node.op_type, ()):
        value = node.inputs[position] if position < len(node.inputs) else None
        if value is not None and not _is_known(value):
            text = f"MIGraphX needs input {position} of {node.op_type} as a constant; the model computes it"
            yield "non_constant_weight", text


def _is_known(value: Any) -> bool:
    """Whether a value follows from constants and static sizes alone, so that the provider can compute it."""
    if value.const_value is not None:
        return True
    maker = value.producer()
    if maker is None:
        return False
    if maker.op_type in ("Shape", "Size"):
        shape = maker.inputs[0].shape
        return shape is not None and all(isinstance(size, int) for size in shape)
    if maker.op_type == "Constant":
        return True
    inputs = [given for given in maker.inputs if given is not None]
    return bool(inputs) and all(_is_known(given) for given in inputs)
