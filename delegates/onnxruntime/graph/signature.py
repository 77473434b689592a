"""Give an ONNX graph the names that the user knows, and take from it what would differ between machines."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from edgex.runtime.artifact.specs import Dim, TensorSpec

if TYPE_CHECKING:
    from torch.export import ExportedProgram

# How torch names the sizes it does not know: s for those of inputs, u for those that data decides.
_SYMBOL = re.compile(r"\b[su]\d+\b")


def name_signature(model: Any, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Name the graph's inputs and outputs; whatever else had one of these names gets another.

    An output with the name of an input (a dict that returns what it was given) becomes `NAME.out`: in ONNX a
    name means one value. The engine binds by position.

    Args:
        model: An `onnx_ir.Model`, changed in place.
        inputs: Names in order, those of carried state last.
        outputs: The same for outputs.
    """
    wanted_outputs: list[str] = []
    for name in outputs:
        wanted_outputs.append(_unused(name, ".out", {*inputs, *wanted_outputs}))
    signature = [*zip(model.graph.inputs, inputs, strict=True), *zip(model.graph.outputs, wanted_outputs, strict=True)]
    reserved = {name for _, name in signature}
    values = list(_values(model))
    taken = {value.name for value in values} | reserved
    for value in values:
        if value.name in reserved:
            value.name = _unused(value.name, "_", taken)
            taken.add(value.name)
    for value, name in signature:
        value.name = name


def name_axes(model: Any, translated: ExportedProgram, inputs: Sequence[TensorSpec]) -> None:
    """Replace torch's symbols (`s77`, `u3`) in every shape of the graph.

    A symbol of the user's dimensions gets the dimension's name; one that only the run decides (how many are
    nonzero) becomes `size_0`, `size_1`, …, because torch counts on from one lowering to the next.

    Args:
        model: An `onnx_ir.Model`, changed in place.
        translated: The program that it was made from.
        inputs: The user's inputs, which are the program's first.
    """
    import onnx_ir

    names: dict[str, str] = {}
    nodes = {node.name: node for node in translated.graph.nodes if node.op == "placeholder"}
    for name, spec in zip(translated.graph_signature.user_inputs, inputs, strict=False):
        for size, dim in zip(nodes[str(name)].meta["val"].shape, spec.shape, strict=True):
            if isinstance(dim, Dim) and not isinstance(size, int):
                names[str(size.node)] = dim.name
    unnamed = (f"size_{index}" for index in itertools.count())

    def rename(dim: Any) -> Any:
        if isinstance(dim, int) or not dim.value:
            return dim
        for symbol in _SYMBOL.findall(dim.value):
            if symbol not in names:
                names[symbol] = next(unnamed)
        return _SYMBOL.sub(lambda match: names[match[0]], dim.value)

    for value in _values(model):
        if value.shape is not None and any(isinstance(dim, onnx_ir.SymbolicDim) for dim in value.shape):
            value.shape = onnx_ir.Shape([rename(dim) for dim in value.shape])


def strip_metadata(model: Any) -> None:
    """Remove source paths and torch's bookkeeping, and put attributes in one order, whatever the hash seed.

    Each node keeps `namespace`, the path of modules that viewers show.
    """
    model.metadata_props.clear()
    model.doc_string = None
    for graph in [model.graph, *model.functions.values()]:
        graph.metadata_props.clear()
        graph.doc_string = None
        _sort(graph.opset_imports)
    for value in _values(model):
        value.metadata_props.clear()
        value.doc_string = None
    for node in _nodes(model):
        namespace = node.metadata_props.get("namespace")
        node.metadata_props.clear()
        if namespace:
            node.metadata_props["namespace"] = namespace
        node.doc_string = None
        _sort(node.attributes)


def _nodes(model: Any) -> Iterator[Any]:
    import onnx_ir

    for graph in [model.graph, *model.functions.values()]:
        yield from onnx_ir.traversal.RecursiveGraphIterator(graph)


def _values(model: Any) -> Iterator[Any]:
    """Every value once: inputs, initializers, what nodes make; those of subgraphs and functions too."""
    graphs = [model.graph, *model.functions.values()]
    for node in _nodes(model):
        for attribute in node.attributes.values():
            if attribute.type.name == "GRAPH":
                graphs.append(attribute.value)
            elif attribute.type.name == "GRAPHS":
                graphs.extend(attribute.value)
    seen: set[int] = set()
    for value in _with_duplicates(model, graphs):
        if id(value) not in seen:
            seen.add(id(value))
            yield value


def _with_duplicates(model: Any, graphs: Iterable[Any]) -> Iterator[Any]:
    for graph in graphs:
        yield from graph.inputs
        yield from getattr(graph, "initializers", {}).values()
    for node in _nodes(model):
        yield from node.outputs


def _unused(name: str, suffix: str, taken: set[Any]) -> str:
    while name in taken:
        name += suffix
    return name


def _sort(mapping: Any) -> None:
    items = sorted(mapping.items())
    mapping.clear()
    mapping.update(items)
