"""Attention that a program writes out, as one operator of the backend's own.

```
before:  scores = matmul(query, key); scores = scores * 0.125; scores = scores + bias; weights = softmax(scores)
         mixed = matmul(weights, value)
after:   mixed = softmax_attention(query, key, value, bias, alpha=0.125)
```

Between these there may be a second mask, for windows of an image say, and views that split or join leading dimensions
around it. A factor that is no single number (a temperature for each head) multiplies the query instead, and a query,
key or value that is the same for the whole batch is read again for each. Everything in between must be read once, and
all sizes be known.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgex.delegates.onednn.layout.sizes import Expand, Reshape, Size
from edgex.delegates.onednn.plan.values import SOFTMAX_ATTENTION, Operation, Value

if TYPE_CHECKING:
    from edgex.delegates.onednn.plan.region import RegionBuilder

_MOST_MASKS = 2
Shape = tuple[Size, ...]


def fuse_attention(builder: RegionBuilder) -> None:
    """Replace what is attention among the builder's steps; of float32, where it is quicker than oneDNN's operators."""
    kept = _leaving(builder)
    for step in list(builder.steps):
        if isinstance(step, Operation) and step.kind == "softmax":
            steps = _Steps(builder, kept)
            found = steps.match(step)
            if found is not None:
                steps.replace(found)


def _leaving(builder: RegionBuilder) -> set[Value]:
    """What nodes outside of the region may read: every value of a node with a reader that was not lowered."""
    leaving: set[Value] = set()
    for node, value in builder.values.items():
        if any(user.op == "output" for user in node.users):
            values = value if isinstance(value, tuple) else (value,)
            leaving.update(one for one in values if isinstance(one, Value))
    return leaving


@dataclass
class _Match:
    first: Operation  # the product of query and key
    last: Operation  # that of weights and value
    inside: list[Operation | Value]  # what goes away
    scale: float = 1.0
    factors: list[tuple[Value, Shape]] = field(default_factory=list)  # with the shape of what they multiply
    masks: list[tuple[Value, Shape]] = field(default_factory=list)


class _Steps:
    def __init__(self, builder: RegionBuilder, leaving: set[Value]) -> None:
        self._builder = builder
        self._leaving = leaving
        self._maker: dict[Value, Operation] = {}
        self._readers: dict[Value, list[Operation | Value]] = {}
        for step in builder.steps:
            if isinstance(step, Value):
                if step.parent is not None:
                    self._readers.setdefault(step.parent, []).append(step)
                continue
            self._maker[step.output] = step
            for value in step.inputs:
                self._readers.setdefault(value, []).append(step)

    def match(self, softmax: Operation) -> _Match | None:
        """The attention around a softmax, or None."""
        rank = len(softmax.output.shape)
        if softmax.output.dtype != "f32" or softmax.attributes["axis"] != rank - 1:
            return None
        last, after = self._follow(softmax.output)
        if last is None:
            return None
        found = _Match(last, last, [softmax, *after])
        if not self._climb(softmax.inputs[0], found):
            return None
        shapes = [found.first.output.shape, last.output.shape, *(shape for _, shape in (*found.masks, *found.factors))]
        known = all(isinstance(size, int) for shape in shapes for size in shape)
        return found if known and self._batch(found) is not None else None

    def _follow(self, weights: Value) -> tuple[Operation | None, list[Operation | Value]]:
        """The product that reads the weights, through views of the same matrices."""
        passed: list[Operation | Value] = []
        while True:
            readers = self._readers.get(weights, [])
            if len(readers) != 1 or weights in self._leaving:
                return None, passed
            reader = readers[0]
            if isinstance(reader, Operation):
                fits = reader.kind == "matmul" and reader.inputs[0] is weights and reader.inputs[1] is not weights
                plain = fits and len(reader.inputs) == 2 and not reader.attributes.get("transpose_b")
                same = plain and len(reader.inputs[1].shape) == len(reader.output.shape)
                return (reader if same else None), passed
            if not _keeps_matrices(reader):
                return None, passed
            passed.append(reader)
            weights = reader

    def _climb(self, scores: Value, found: _Match) -> bool:
        """From the softmax up to the first product."""
        while True:
            if len(self._readers.get(scores, [])) != 1 or scores in self._leaving:
                return False
            if scores.parent is not None:
                if not _keeps_matrices(scores):
                    return False
                found.inside.append(scores)
                scores = scores.parent
                continue
            step = self._maker.get(scores)
            if step is None:
                return False
            found.inside.append(step)
            if step.kind == "matmul":
                found.first = step
                right = step.inputs[1]
                return len(step.inputs) == 2 and len(right.shape) == len(scores.shape) and not step.attributes
            if step.kind not in ("add", "multiply", "divide") or len(step.inputs) != 2:
                return False
            left, other = step.inputs
            if left.shape != scores.shape:
                return False
            if step.kind == "add":
                # The sum of two that are both whole may be either way round.
                if other.shape == scores.shape and not self._is_scores(left):
                    left, other = other, left
                if len(found.masks) == _MOST_MASKS or found.factors or found.scale != 1.0:
                    return False
                found.masks.append((other, scores.shape))
            elif not self._take_factor(step, other, found):
                return False
            scores = left

    def _is_scores(self, value: Value) -> bool:
        """Whether a product made it, or what is made of one."""
        for _ in range(8):
            if value.parent is not None:
                value = value.parent
                continue
            step = self._maker.get(value)
            if step is None:
                return False
            if step.kind == "matmul":
                return len(step.inputs[1].shape) == len(step.output.shape)
            if step.kind not in ("add", "multiply", "divide"):
                return False
            value = step.inputs[0]
        return False

    def _take_factor(self, step: Operation, other: Value, found: _Match) -> bool:
        number = _number(other)
        if number is not None:
            found.scale *= 1 / number if step.kind == "divide" else number
            return True
        shape = step.output.shape
        padded = (1,) * (len(shape) - len(other.shape)) + other.shape
        if step.kind == "divide" or padded[-2:] != (1, 1):
            return False
        found.factors.append((other, shape))
        return True

    def _batch(self, found: _Match) -> Shape | None:
        """Leading dimensions that all shapes are views of, by splitting the first of them."""
        shapes = {found.first.output.shape[:-2], found.last.output.shape[:-2]}
        shapes |= {shape[:-2] for _, shape in (*found.masks, *found.factors)}
        longest = max(shapes, key=len)
        return longest if all(_split(shape, longest) for shape in shapes) else None

    def replace(self, found: _Match) -> None:
        """Put the one operator where the last product was."""
        batch = self._batch(found)
        assert batch is not None
        made: list[Operation | Value] = []

        def view(value: Value, shape: Shape) -> Value:
            if value.shape == shape:
                return value
            made.append(Value(value.dtype, shape, value, Reshape(shape), handle=value.handle))
            return made[-1]  # type: ignore[return-value]

        def widened(value: Value, shape: Shape) -> Value:
            """An operand that is repeated to `shape`, as one that is repeated to the batch."""
            padded = (1,) * (len(shape) - len(value.shape)) + value.shape
            extra = len(batch) + 2 - len(shape)
            if extra and padded[0] == shape[0] and padded[0] != 1:
                return view(value, (*batch[: extra + 1], *padded[1:]))
            return view(value, (*(1,) * extra, *padded))

        def in_batch(value: Value, product: Operation) -> Value:
            """An operand of a product, which may be one matrix for the whole batch: queries that are weights, say."""
            whole = (*product.output.shape[:-2], *value.shape[-2:])
            if value.shape != whole:
                value = Value(value.dtype, whole, value, Expand(whole), handle=value.handle)
                made.append(value)
            return view(value, (*batch, *value.shape[-2:]))

        first, last = found.first, found.last
        query, key = in_batch(first.inputs[0], first), in_batch(first.inputs[1], first)
        value = in_batch(last.inputs[1], last)
        for factor, shape in found.factors:
            scaled = Value(query.dtype, query.shape, handle=first.handle)
            made.append(Operation("multiply", [query, widened(factor, shape)], scaled, {}, "mul", first.handle))
            query = scaled
        masks = [widened(mask, shape) for mask, shape in reversed(found.masks)]
        output = last.output
        result: Shape = (*batch, *output.shape[-2:])
        whole = output if result == output.shape else Value(output.dtype, result, handle=last.handle)
        attributes = {"alpha": found.scale}
        made.append(
            Operation(SOFTMAX_ATTENTION, [query, key, value, *masks], whole, attributes, "attention", last.handle)
        )
        if whole is not output:
            output.parent, output.view = whole, Reshape(output.shape)
            made.append(output)
        gone = {id(step) for step in (*found.inside, last)}
        steps: list[Operation | Value] = []
        for step in self._builder.steps:
            if step is last:
                steps.extend(made)
            elif id(step) not in gone:
                steps.append(step)
        self._builder.steps[:] = steps


def _keeps_matrices(view: Value) -> bool:
    """Whether a view leaves the last two dimensions as they are."""
    assert view.parent is not None
    return isinstance(view.view, Reshape) and view.shape[-2:] == view.parent.shape[-2:]


def _split(shape: Shape, longest: Shape) -> bool:
    """Whether splitting the first dimension of `shape` gives `longest`."""
    extra = len(longest) - len(shape)
    if extra == 0:
        return shape == longest
    if not shape or shape[1:] != longest[extra + 1 :]:
        return False
    product = 1
    for size in longest[: extra + 1]:
        product *= size
    return bool(product == shape[0])


def _number(value: Value) -> float | None:
    """The content of a constant of one element, where it is known."""
    from edgex.delegates.graph.torch_internals import FakeTensor

    if value.tensor is None or any(size != 1 for size in value.shape):
        return None
    content = value.tensor()
    return None if isinstance(content, FakeTensor) else float(content.reshape(()))
