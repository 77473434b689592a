"""Small changes to an ONNX graph: new constants and nodes that keep the names of their origin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from torch.fx import Node as FxNode

# onnxscript's metadata that is copied to nodes made from another node; `namespace` is what viewers show.
_NAMESPACE = "namespace"


class GraphEditor:
    """Edits one graph. Every name that it gives follows from the graph alone, so equal programs give equal bytes."""

    def __init__(self, model: Any, origins: dict[str, FxNode]) -> None:
        """Begin to edit.

        Args:
            model: An `onnx_ir.Model`, changed in place.
            origins: ONNX node name -> operator; new nodes are entered.
        """
        import onnx_ir

        self.graph = model.graph
        self.origins = origins
        self._constants: dict[tuple[Any, ...], Any] = {}
        self._values = {value.name for value in (*self.graph.inputs, *self.graph.initializers.values())}
        self._nodes = set()
        for node in onnx_ir.traversal.RecursiveGraphIterator(self.graph):
            self._values.update(value.name for value in node.outputs)
            self._nodes.add(node.name)

    def constant(self, name: str, array: np.ndarray) -> Any:
        """A small constant; one of equal name and content is used again."""
        import onnx_ir

        key = (name, array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = self.weight(name, onnx_ir.Tensor(array))
        return self._constants[key]

    def weight(self, name: str, tensor: Any) -> Any:
        """A constant of any size.

        Args:
            name: Its name, if nothing else has it.
            tensor: An `onnx_ir` tensor; a lazy one is looked at when the model is written.
        """
        import onnx_ir

        value = onnx_ir.Value(
            name=self._unused(name, self._values),
            type=onnx_ir.TensorType(tensor.dtype),
            shape=onnx_ir.Shape(list(tensor.shape)),
            const_value=tensor,
        )
        tensor.name = value.name
        self.graph.register_initializer(value)
        return value

    def insert(
        self,
        op_type: str,
        inputs: Sequence[Any],
        name: str,
        *,
        at: Any,
        types: Sequence[tuple[Any, Any]],
        after: bool = False,
        attributes: Mapping[str, Any] | None = None,
        domain: str = "",
    ) -> tuple[Any, ...]:
        """Put a node in.

        Args:
            op_type: Its operator.
            inputs: Values, None for one left out.
            name: Its name, if no other has it; its outputs are named after it.
            at: The node before which it stands, and whose origin it shares.
            types: Dtype and shape (a sequence, or None where unknown) of each output.
            after: Stand after `at`.
            attributes: Python values.
            domain: The operator's domain.

        Returns:
            Its outputs.
        """
        import onnx_ir

        name = self._unused(name, self._nodes)
        node = onnx_ir.node(
            op_type, list(inputs), attributes=dict(attributes or {}), domain=domain, num_outputs=len(types), name=name
        )
        for index, (dtype, shape) in enumerate(types):
            output = node.outputs[index]
            output.name = self._unused(name if index == 0 else f"{name}_{index}", self._values)
            output.type = onnx_ir.TensorType(dtype)
            output.shape = None if shape is None else onnx_ir.Shape(list(shape))
        if _NAMESPACE in at.metadata_props:
            node.metadata_props[_NAMESPACE] = at.metadata_props[_NAMESPACE]
        if at.name in self.origins:
            self.origins[name] = self.origins[at.name]
        if after:
            self.graph.insert_after(at, node)
        else:
            self.graph.insert_before(at, node)
        return tuple(node.outputs)

    def replace(self, old: Any, new: Any, *, but: Any = None) -> None:
        """Let every user of a value use another, the graph's outputs too.

        Args:
            old: The value.
            new: What takes its place.
            but: A node that goes on using `old`.
        """
        for node, index in list(old.uses()):
            if node is not but:
                node.replace_input_with(index, new)
        for index, output in enumerate(self.graph.outputs):
            if output is old:
                self.graph.outputs[index] = new

    def remove_unused(self) -> None:
        """Remove nodes and constants that nothing uses any more."""
        for node in reversed(list(self.graph)):
            if not any(value.uses() or value.is_graph_output() for value in node.outputs):
                self.graph.remove(node, safe=True)
        for name, value in list(self.graph.initializers.items()):
            if not value.uses() and not value.is_graph_output():
                self.graph.initializers.pop(name)

    def _unused(self, name: str, taken: set[Any]) -> str:
        wanted, number = name, 0
        while wanted in taken:
            number += 1
            wanted = f"{name}_{number}"
        taken.add(wanted)
        return wanted


def only_user(value: Any) -> Any:
    """The one node that uses a value; None where there are several, or it leaves the graph."""
    uses = {id(node): node for node, _ in value.uses()}
    return next(iter(uses.values())) if len(uses) == 1 and not value.is_graph_output() else None


def made_by(value: Any, *op_types: str) -> Any:
    """The node that makes a value, if it is one of these standard operators, else None."""
    maker = None if value is None else value.producer()
    return maker if maker is not None and maker.op_type in op_types and maker.domain in ("", "ai.onnx") else None


def is_constant(value: Any) -> bool:
    """Whether a value is an initializer."""
    return value is not None and value.const_value is not None and value.producer() is None


def sizes_of(value: Any) -> tuple[int, ...] | None:
    """The sizes of a value; None where it has none, or a run knows one of them only."""
    if value is None or value.shape is None or not all(isinstance(size, int) for size in value.shape):
        return None
    return tuple(int(size) for size in value.shape)


def numbers_of(value: Any) -> np.ndarray | None:
    """The numbers of an initializer; None where it is none, or a plan is made without them."""
    from edgex.delegates.graph.torch_internals import FakeTensor

    if not is_constant(value) or isinstance(getattr(value.const_value, "raw", None), FakeTensor):
        return None
    numbers: np.ndarray = value.const_value.numpy()
    return numbers
