"""The builder that operators' lowerings write to, and what they ask about their arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from edgex.delegates.executorch.exir import debug_handle_of, operator_name
from edgex.delegates.onednn.layout.sizes import Layout, Permute, Size, View, dense_strides, product, shape_of
from edgex.delegates.onednn.plan.values import DTYPES, INDICES, MASKS, MAX_RANK, Encoding, Operation, Refused, Value

if TYPE_CHECKING:
    import torch
    from torch.fx import Node


# What makes no number that it does not read.
_KEEPS_BOUNDS = ("concat", "max_pool")


@dataclass
class RegionBuilder:
    """Collects a region's operators in program order.

    Attributes:
        values: What each node is; a tuple for nodes with several outputs, None for outputs nothing may use.
        steps: Operators, and views as they came: a view that needs a copy gets it at its place.
        constants: Placeholders that are constants, with their tensor.
        free_input: Makes the value of a node that is not known: when only one operator is looked at.
        prepared_masks: What attention made of each mask for results of a width, which layers share.
    """

    values: dict[Node, Any] = field(default_factory=dict)
    steps: list[Operation | Value] = field(default_factory=list)
    constants: Mapping[str, Callable[[], torch.Tensor]] = field(default_factory=dict)
    free_input: Callable[[RegionBuilder, Node], Value] | None = None
    prepared_masks: dict[tuple[Value, int], tuple[Value, Value | None]] = field(default_factory=dict)
    _node: Node | None = None

    def lower(self, node: Node, emit: Callable[[RegionBuilder, Node], Any]) -> None:
        """Lower one node.

        Raises:
            Refused: It is outside of what oneDNN runs.
        """
        self._node = node
        result = emit(self, node)
        self.values[node] = result
        if isinstance(result, Value):
            self._check_result(node.meta["val"], result)

    def value(self, node: Any) -> Value:
        """The value of a node that is an argument.

        Raises:
            Refused: It is no tensor of a dtype and shape that oneDNN takes.
        """
        import torch
        from torch.fx import Node

        if not isinstance(node, Node):
            raise Refused("attribute", f"a tensor is wanted where the argument is {node}")
        if node not in self.values:
            tensor = node.meta.get("val")
            if not isinstance(tensor, torch.Tensor):
                raise Refused("attribute", f"its argument {node.name} is no tensor")
            if node.name in self.constants:
                self.values[node] = self._make_constant(tensor, self.constants[node.name])
            elif self.free_input is not None:
                self.values[node] = self.free_input(self, node)
        found = self.values[node]
        assert isinstance(found, Value)
        return found

    def integers(self, node: Node) -> Value:
        """The value of a node that holds 8-bit integers, or what a quantize that was left out would have read."""
        return self._read(node, lambda: Value("s8", shape_of(node.meta["val"])))

    def indices(self, node: Node) -> Value:
        """The value of a node that holds numbers of rows.

        Raises:
            Refused: It is none, or of another dtype.
        """
        return self._read(node, lambda: make_value(node.meta["val"], INDICES))

    def mask(self, node: Node) -> Value:
        """The value of a node that holds truth values.

        Raises:
            Refused: It is none.
        """
        return self._read(node, lambda: make_value(node.meta["val"], MASKS))

    def result(self, node: Node) -> Value:
        """The value of a node that leaves the region."""
        return self.computed(self.values[node]) if node in self.values else self.value(node)

    def numbers(self, node: Node, count: int, default: float) -> list[float]:
        """A constant of `count` numbers; `default` for each where there are no weights to look at."""
        from edgex.delegates.graph.torch_internals import FakeTensor

        tensor = self.constants[node.name]()
        return [default] * count if isinstance(tensor, FakeTensor) else [float(item) for item in tensor.flatten()]

    def op(
        self,
        kind: str,
        inputs: Sequence[Value],
        shape: Sequence[Size],
        *,
        dtype: str | None = None,
        name: str | None = None,
        **attributes: Any,
    ) -> Value:
        """Add an operator; its output has the dtype of its first input unless `dtype` says otherwise.

        Profiles call it by the program's operator, unless `name` says otherwise.

        What is quantized is dequantized for this operator alone: oneDNN takes a Dequantize into a partition only where
        nothing else reads it.
        """
        assert self._node is not None
        handle = debug_handle_of(self._node) or 0
        output = Value(dtype or inputs[0].dtype, tuple(shape), handle=handle)
        if kind in _KEEPS_BOUNDS and all(value.bounds == inputs[0].bounds for value in inputs):
            output.bounds = inputs[0].bounds
        name = name or operator_name(self._node).split(".")[1].removesuffix("_per_tensor")
        read = [self.computed(value) for value in inputs]
        self.steps.append(Operation(kind, read, output, attributes, name, handle))
        return output

    def computed(self, value: Value) -> Value:
        """The value as an operator's result: dequantized, where it is only known as integers."""
        if value.integers is None or value.encoding is None:
            return value
        output = Value(value.dtype, value.shape, handle=value.handle)
        attributes = value.encoding.attributes
        self.steps.append(Operation("dequantize", [value.integers], output, attributes, "dequantize", value.handle))
        return output

    def view(self, parent: Value, view: View, shape: Sequence[Size]) -> Value:
        """Add a view; one of what is dequantized is one of the integers."""
        if parent.integers is not None and parent.encoding is not None:
            encoding = _seen_through(parent.encoding, view)
            if encoding is not None:
                integers = self.view(parent.integers, view, shape)
                return replace(parent, shape=tuple(shape), integers=integers, encoding=encoding)
            parent = self.computed(parent)
        assert self._node is not None
        handle = debug_handle_of(self._node) or 0
        value = Value(parent.dtype, tuple(shape), parent, view, handle=handle, bounds=parent.bounds)
        self.steps.append(value)
        return value

    def constant(self, content: Any, dtype: str) -> Value:
        """Add a constant given as numbers or as a tensor; a number has the shape (1,)."""
        import torch

        torch_dtype = torch.float32 if dtype == "f32" else torch.bfloat16
        tensor = torch.as_tensor(content).to(torch_dtype)
        return self._make_constant(tensor, lambda: tensor)

    def is_constant(self, node: Any) -> bool:
        """Whether an argument is a constant of the program, of whatever dtype."""
        return getattr(node, "name", None) in self.constants

    def converted_constant(self, node: Any, result: Value) -> Value:
        """A constant of the program, converted at export to the dtype of `result`."""
        import torch

        read, dtype = self.constants[node.name], torch.float32 if result.dtype == "f32" else torch.bfloat16
        return _hold(result, lambda: read().to(dtype))

    def constant_as(self, value: Value, dtype: str) -> Value:
        """A constant in another dtype.

        Raises:
            Refused: The value is no constant.
        """
        if value.dtype == dtype:
            return value
        if value.tensor is None:
            raise Refused("non_constant_weight", f"oneDNN wants this weight in {dtype}, and it is no constant")
        import torch

        read, torch_dtype = value.tensor, torch.float32 if dtype == "f32" else torch.bfloat16
        return Value(dtype, value.shape, tensor=lambda: read().to(torch_dtype), layout=value.layout)

    def derived_constant(self, value: Value, read: Callable[[], torch.Tensor], shape: Sequence[Size]) -> Value:
        """A constant computed at export from others; of the dtype of `value`."""
        return Value(value.dtype, tuple(shape), tensor=read, layout=Layout(tuple(shape), dense_strides(shape)))

    def _read(self, node: Node, make: Callable[[], Value]) -> Value:
        """The value of a node; where it is seen for the first time, what `make` gives, with a constant's tensor."""
        if node not in self.values:
            value = make()
            self.values[node] = _hold(value, self.constants[node.name]) if node.name in self.constants else value
        found = self.values[node]
        assert isinstance(found, Value)
        return found

    def _make_constant(self, described: Any, read: Callable[[], torch.Tensor]) -> Value:
        return _hold(make_value(described), read)

    def _check_result(self, expected: Any, value: Value) -> None:
        """The lowering's own idea of shape and dtype against the program's: a mistake here would be a wrong result."""
        assert value.shape == shape_of(expected), f"{self._node}: {value.shape} instead of {tuple(expected.shape)}"
        # What is int8 in the program may be u8 here, or may not have been quantized at all.
        wanted = DTYPES.get(str(expected.dtype), value.dtype)
        assert value.dtype == wanted, f"{self._node}: {value.dtype}, not {expected.dtype}"


def _seen_through(encoding: Encoding, view: View) -> Encoding | None:
    """What the integers mean in a view of them, or None where only a copy could tell."""
    if encoding.axis is None:
        return encoding
    return replace(encoding, axis=view.dims.index(encoding.axis)) if isinstance(view, Permute) else None


def make_value(tensor: Any, dtypes: Mapping[str, str] = DTYPES) -> Value:
    """The value of a (fake) tensor.

    Raises:
        Refused: Its dtype is none of these, or its shape none that oneDNN takes.
    """
    dtype = dtypes.get(str(tensor.dtype))
    if dtype is None:
        name = str(tensor.dtype).removeprefix("torch.")
        wanted = " and ".join(known.removeprefix("torch.") for known in dtypes)
        raise Refused("dtype", f"oneDNN takes {wanted} here, not {name}")
    shape = shape_of(tensor)
    if 0 in shape:
        raise Refused("attribute", f"oneDNN takes no empty tensor, and this one is {list(tensor.shape)}")
    if len(shape) > MAX_RANK:
        raise Refused("rank", f"oneDNN takes {MAX_RANK} dimensions at most, not {len(shape)}")
    return Value(dtype, shape)


def _hold(value: Value, read: Callable[[], torch.Tensor]) -> Value:
    """The value as a constant, which lies in the file without gaps."""
    value.tensor = read
    value.layout = Layout(value.shape, dense_strides(value.shape))
    return value


def is_indices(tensor: Any) -> bool:
    """Whether a (fake) tensor holds integers that only choose what is read."""
    return str(tensor.dtype) in INDICES


def is_mask(tensor: Any) -> bool:
    """Whether a (fake) tensor holds truth values."""
    return str(tensor.dtype) in MASKS


def is_int8(tensor: Any) -> bool:
    """Whether a (fake) tensor is one that only a dequantize may read."""
    return str(tensor.dtype) == "torch.int8"


def same_size(one: Sequence[Size], other: Sequence[Size]) -> bool:
    """Whether two shapes hold the same number of elements."""
    return bool(product(one) == product(other))
