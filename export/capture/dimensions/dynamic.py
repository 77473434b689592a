"""Dynamic dimensions: from what the user asks to torch.export's form, and from the program to named, bounded dims.

A dimension is named after the user's `Dim`; equal sizes share a name. A size that follows from another is named by
its expression (`2*batch`, `(length - 1)//2 + 1`), with the bounds that the expression takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from edgex.delegates.graph.torch_internals import pytree
from edgex.errors import CaptureError, UsageError, nearest_name
from edgex.export.capture.dimensions.request import DimRequest
from edgex.export.capture.torch_internals import bounds_of, guards_of, is_plain_symbol
from edgex.runtime.artifact.specs import Dim, TensorSpec

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from edgex.export.source.leaves import Leaf

Requests = Mapping[tuple[str, int], Dim]

# How many sizes are looked through for one in the range that the example does not have.
_FAR = 62


@dataclass(frozen=True)
class Asked:
    """What the user asked for one dimension of one input; `dim` is torch's Dim or hint."""

    input: str
    axis: int
    dim: Any

    @property
    def name(self) -> str:
        """The user's name for it, else `<input>_<axis>`."""
        return str(self.dim.__name__) if isinstance(self.dim, torch.export.Dim) else default_name(self.input, self.axis)


def default_name(leaf: str, axis: int) -> str:
    """The name of a dimension to which the user gave none."""
    return re.sub(r"\W", "_", f"{leaf}_{axis}")


def requests_to_dims(requests: Requests, leaves: Sequence[Leaf]) -> list[Asked]:
    """Check the command line's `--dynamic` against the inputs.

    Raises:
        UsageError: There is no such input or dimension.
    """
    tensors = {leaf.name: leaf.value for leaf in leaves if leaf.is_tensor}
    asked = []
    dims: dict[str, Any] = {}
    for (name, axis), dim in requests.items():
        if name not in tensors:
            raise UsageError(f"--dynamic {name}:{axis}: there is no input {name!r}", why=nearest_name(name, tensors))
        if not 0 <= axis < tensors[name].dim():
            raise UsageError(
                f"--dynamic {name}:{axis}: the input has {tensors[name].dim()} dimensions",
                why=f"its example has shape {tuple(tensors[name].shape)}",
            )
        if isinstance(dim, DimRequest) and dim.auto:
            asked.append(Asked(name, axis, torch.export.Dim.AUTO(min=dim.min, max=dim.max)))
            continue
        if dim.name not in dims:
            dims[dim.name] = torch.export.Dim(dim.name, min=dim.min, max=dim.max)
        found = dims[dim.name]
        if isinstance(dim, DimRequest) and (dim.factor, dim.offset) != (1, 0) and not is_plain_symbol(dim.name):
            raise UsageError(
                f"--dynamic {name}:{axis}: {dim.name} cannot name a dimension that others follow",
                why="in the expressions of torch.export the name stands for a constant or a function",
                fix=f"take another name, for example {dim.name.lower()}_size",
            )
        if isinstance(dim, DimRequest) and dim.factor != 1:
            found = dim.factor * found
        if isinstance(dim, DimRequest) and dim.offset != 0:
            found = found + dim.offset
        asked.append(Asked(name, axis, found))
    return asked


def read_dynamic_shapes(shapes: Any, parameters: Mapping[str, Any], leaves: Sequence[Leaf]) -> list[Asked]:
    """The dims and hints in torch's `dynamic_shapes`, one entry for each dimension.

    Args:
        shapes: A dict by parameter name, or a tuple or list; None for none.
        parameters: The call's arguments by parameter name.
        leaves: The call's leaves; the names in the answer are theirs.
    """
    if shapes is None:
        return []
    names = {id(leaf.value): leaf.name for leaf in reversed(leaves) if leaf.is_tensor}
    by_parameter = shapes if isinstance(shapes, Mapping) else dict(zip(parameters, shapes, strict=False))
    return [
        Asked(names[id(tensor)], axis, dim)
        for parameter, value in parameters.items()
        for tensor, spec in _pair(value, by_parameter.get(parameter))
        for axis, dim in (spec.items() if isinstance(spec, Mapping) else enumerate(spec))
        if dim is not None and not isinstance(dim, int)
    ]


def _pair(value: Any, spec: Any) -> Iterator[tuple[torch.Tensor, Any]]:
    """Walk a value and its shapes together; where they do not fit, torch.export says so later."""
    if spec is None:
        return
    if isinstance(value, torch.Tensor):
        yield value, spec
    elif isinstance(value, Mapping) and isinstance(spec, Mapping):
        for key in value:
            yield from _pair(value[key], spec.get(key))
    elif isinstance(value, (list, tuple)) and isinstance(spec, (list, tuple)):
        for item, part in zip(value, spec, strict=False):
            yield from _pair(item, part)
    elif type(value) in pytree.SUPPORTED_NODES:
        # A registered class: torch.export takes the list of its fields' shapes, or an instance that holds them.
        children = pytree.SUPPORTED_NODES[type(value)].flatten_fn(value)[0]
        parts = pytree.SUPPORTED_NODES[type(value)].flatten_fn(spec)[0] if type(spec) is type(value) else spec
        yield from _pair(list(children), list(parts) if isinstance(parts, (list, tuple)) else None)


def check_example_sizes(leaves: Sequence[Leaf], asked: Sequence[Asked]) -> None:
    """The example inputs must lie in the ranges that were asked for.

    Raises:
        CaptureError: One does not.
    """
    tensors = {leaf.name: leaf.value for leaf in leaves if leaf.is_tensor}
    for item in asked:
        shape = tensors[item.input].shape
        if not 0 <= item.axis < len(shape):
            raise CaptureError(
                f"dynamic_shapes names dimension {item.axis} of {item.input}, which has {len(shape)} dimensions",
                fix=f"its example has shape {tuple(shape)}",
            )
        size, low, high = shape[item.axis], getattr(item.dim, "min", None), getattr(item.dim, "max", None)
        if (low is not None and size < low) or (isinstance(high, int) and size > high):
            raise CaptureError(
                f"the example input {item.input} has size {size} in dimension {item.axis}, outside of {low}..{high}",
                fix="give an example inside the range, or change the range",
            )


def with_other_sizes(leaves: Sequence[Leaf], asked: Sequence[Asked]) -> list[Any]:
    """Values whose dynamic dimensions have other sizes in their ranges than the example's, where there are any."""
    tensors = {leaf.name: leaf.value for leaf in leaves if leaf.is_tensor}
    sizes: dict[tuple[str, int], int] = {}
    for items in _by_root(asked).values():
        root = getattr(items[0].dim, "root", items[0].dim)
        largest = root.max if isinstance(root.max, int) else root.min + _FAR
        for candidate in range(max(2, root.min), min(largest, max(2, root.min) + _FAR) + 1):
            found = {(i.input, i.axis): int(i.dim.fn(candidate)) if hasattr(i.dim, "fn") else candidate for i in items}
            if all(size > 1 and tensors[key[0]].shape[key[1]] != size for key, size in found.items()):
                sizes |= found
                break
    values = []
    for leaf in leaves:
        value = leaf.value
        for (name, axis), size in sizes.items():
            if leaf.is_tensor and leaf.name == name:
                value = resize(value, axis, size)
        values.append(value)
    return values


def _by_root(asked: Sequence[Asked]) -> dict[str, list[Asked]]:
    """What was asked for, by the dimension that decides the size."""
    groups: dict[str, list[Asked]] = {}
    for item in asked:
        if isinstance(item.dim, torch.export.Dim):
            groups.setdefault(getattr(item.dim, "root", item.dim).__name__, []).append(item)
    return groups


def enlarge_single_sizes(leaves: Sequence[Leaf], asked: Sequence[Asked]) -> list[torch.Tensor | Any]:
    """Values to trace with: torch.export takes a size of 0 or 1 for a constant, so such dims get another size.

    Returns:
        A value for each leaf; those that need no change are the same objects, except that a tensor given twice is
        copied, since torch.export tells inputs apart by identity.
    """
    sizes = _sizes_to_trace(leaves, asked)
    values: list[Any] = []
    seen: set[int] = set()
    for leaf in leaves:
        value = leaf.value
        if leaf.is_tensor:
            for item in asked:
                if item.input == leaf.name and (size := sizes.get((item.input, item.axis))) is not None:
                    value = resize(value, item.axis, size)
            if id(value) in seen:
                value = value.clone()
            seen.add(id(value))
        values.append(value)
    return values


def _sizes_to_trace(leaves: Sequence[Leaf], asked: Sequence[Asked]) -> dict[tuple[str, int], int]:
    """New sizes for all dims of each root whose example has a dimension of size 0 or 1."""
    tensors = {leaf.name: leaf.value for leaf in leaves if leaf.is_tensor}
    sizes: dict[tuple[str, int], int] = {}
    for items in _by_root(asked).values():
        if all(tensors[item.input].shape[item.axis] > 1 for item in items):
            continue
        root = getattr(items[0].dim, "root", items[0].dim)
        for candidate in range(max(2, root.min), min(root.max, max(2, root.min) + _FAR) + 1):
            # A derived dimension has the root's size under its function.
            found = {(i.input, i.axis): int(i.dim.fn(candidate)) if hasattr(i.dim, "fn") else candidate for i in items}
            if min(found.values()) > 1:
                sizes |= found
                break
    return sizes


def resize(tensor: torch.Tensor, axis: int, size: int) -> torch.Tensor:
    """The tensor with another size along one axis: its slices repeated, so that integers stay in their range."""
    if tensor.shape[axis] == 0:
        return tensor.new_zeros([size if at == axis else have for at, have in enumerate(tensor.shape)])
    index = torch.arange(size, device=tensor.device) % tensor.shape[axis]
    return tensor.index_select(axis, index)


class DimNames:
    """Names and bounds for the symbolic sizes of one program."""

    def __init__(self, range_constraints: Mapping[Any, Any]) -> None:
        self._ranges = range_constraints
        self._names: dict[Any, str] = {}

    def learn(self, shape: Sequence[Any], leaf: str, asked: Sequence[Asked]) -> None:
        """Take the names of the plain symbols in an input's shape; the first name for a symbol stays."""
        mine = {item.axis: item.name for item in asked if item.input == leaf}
        for axis, size in enumerate(shape):
            expression = size.node.expr if isinstance(size, torch.SymInt) else None
            if expression is not None and expression.is_Symbol:
                self._names.setdefault(expression, mine.get(axis) or default_name(leaf, axis))

    def describe(self, shape: Sequence[Any], word: str, leaf: str) -> tuple[int | Dim, ...]:
        """A shape as specs give it.

        Args:
            shape: Sizes of a fake tensor: ints and SymInts.
            word: `input` or `output`.
            leaf: Its name.

        Raises:
            CaptureError: A dimension has no upper bound.
        """
        return tuple(self._describe_one(size, axis, word, leaf) for axis, size in enumerate(shape))

    def _describe_one(self, size: Any, axis: int, word: str, leaf: str) -> int | Dim:
        if not isinstance(size, torch.SymInt) or size.node.expr.is_number:
            return int(size)
        expression = size.node.expr
        names = {s: self._names.get(s, str(s)) for s in expression.free_symbols}
        name = self._words_for(expression, names)
        # A size of 0 is never proved, and 0 is what torch.export assumes when the user gives no minimum.
        low, high = bounds_of(expression, self._ranges, dict.fromkeys(self._names, 1))
        if high is None:
            known = [self._names[symbol] for symbol in expression.free_symbols if symbol in self._names]
            given = f"Dim({known[0]!r}, min={max(low, 1)}, max=...)" if known else "torch._check(n <= ...) in forward"
            flag = f", or --dynamic {leaf}:{axis}={max(low, 1)}..N" if word == "input" else ""
            raise CaptureError(
                f"dimension {axis} of {word} {leaf} has no upper bound",
                why=f"{name} may be any size from {low} on; an artifact is proved at the smallest, a middle and the "
                "largest size",
                fix=f"give a bound: {given}{flag}",
            )
        return Dim(name, low, high)

    @staticmethod
    def _words_for(expression: Any, names: Mapping[Any, str]) -> str:
        if expression.is_Symbol:
            return names[expression]
        text = str(expression)
        for symbol, name in names.items():
            text = re.sub(rf"\b{re.escape(str(symbol))}\b", name, text)
        return text


def narrowed_ranges(inputs: Sequence[TensorSpec], asked: Sequence[Asked]) -> list[str]:
    """A notice for each dimension whose range, or being dynamic, is not what the user asked for."""
    specs = {spec.name: spec for spec in inputs}
    notices = []
    for item in asked:
        found = specs[item.input].shape[item.axis]
        kind = getattr(getattr(item.dim, "type", None), "name", "")
        if isinstance(found, int):
            if kind != "STATIC":
                notices.append(f"dimension {item.axis} of {item.input} is always {found}: the model needs that size")
            continue
        low, high = getattr(item.dim, "min", None), getattr(item.dim, "max", None)
        if (low and found.min > low) or (isinstance(high, int) and found.max < high):
            notices.append(
                f"dimension {item.axis} of {item.input} was asked to be {low}..{high} and is {found.min}..{found.max}: "
                "the model, or torch.export for a dimension without a name, allows no more"
            )
        elif low == 0:
            notices.append(f"dimension {item.axis} of {item.input} starts at {found.min}: size 0 is not proved")
    return notices


def unchecked_guards(program: ExportedProgram) -> list[str]:
    """A notice for what the program demands of sizes beyond a range, such as being even.

    torch.export refuses this for a named Dim; for Dim.DYNAMIC it assumes it.
    """
    demands = [
        re.sub(r"L\['([^']+)'\]\.size\(\)\[(\d+)\]", r"\1.shape[\2]", guard)
        for guard in guards_of(program)
        if "%" in guard
    ]
    return [f"the program works only for sizes with {demands[0]}, which is not checked"] if demands else []
