"""Where each value lies: memory for views is arranged so that as many of them as possible need no copy.

A value that nothing looks at through a view gets whatever layout oneDNN likes. For the others a few orders of
dimensions are tried, and the first is kept with which every view is one of strides. Heads of attention, for example,
are written by the product in the order in which the next layer reads them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from edgex.delegates.onednn.layout.orders import (
    channels_last,
    find_order,
    forgets_zero_points,
    innermost,
    order_of_strides,
    row_major,
    settle_order,
)
from edgex.delegates.onednn.layout.repetition import is_fast_alone, is_whole, kept_dims
from edgex.delegates.onednn.layout.sizes import Layout, Permute, dense_strides, same_layout
from edgex.delegates.onednn.layout.strides import is_interleaved, repeats, settle_ones
from edgex.delegates.onednn.plan.fusion import ACTIVATIONS, OF_TWO
from edgex.delegates.onednn.plan.graph_api import OWN_KINDS
from edgex.delegates.onednn.plan.region import RegionBuilder, same_size
from edgex.delegates.onednn.plan.values import INTEGERS, OWN_BINARY, PLAIN, Operation, Value

# What makes images: their channels belong innermost, where oneDNN's kernels read them.
_CONVOLUTIONS = ("convolution", "conv_transpose")
_IMAGE_KINDS = (*_CONVOLUTIONS, "quantize", "max_pool", "avg_pool", "interpolate", "batch_norm_inference")

# oneDNN 3.2 takes the rows of their input and result to lie side by side, whatever strides say, and computes nonsense.
_DENSE_KINDS = ("layer_norm",)
_CONVERSIONS = ("quantize", "dequantize")
# It has only its reference kernels for these where the input has gaps, or lies neither by rows nor by channels.
_WHOLE_KINDS = ("interpolate", "max_pool", "avg_pool", "batch_norm_inference")
# It pools by rows number by number on AVX2. Fewer channels do not fill a register there.
_POOLINGS = ("max_pool", "avg_pool")
_FEWEST_CHANNELS = 8
# Of a convolution of each channel that the backend does itself even where it has no holes.
_MANY_TAPS = 81
# Channels of a group from which on oneDNN has a kernel that is as fast as the backend's own.
_OF_A_KERNEL = 16
# It has only its reference kernels for these where the dimensions they run over are not innermost, in input and result.
_SOFTMAX = ("softmax", "log_softmax")
_REDUCTIONS = ("reduce_max", "reduce_mean", "reduce_min", "reduce_prod", "reduce_sum")
# And for these where there are gaps between elements, or where two operands lie in different orders.
_ELEMENTWISE = ACTIVATIONS | OF_TWO


def assign_layouts(
    builder: RegionBuilder, outputs: Sequence[tuple[Value, Layout]]
) -> tuple[list[Operation], list[Value]]:
    """Give every value its layout, and copy where a view has none.

    Args:
        builder: The region; inputs and constants have their layouts.
        outputs: What leaves the region, each with the layout that the program expects.

    Returns:
        The operators in order, copies among them; and for each output the value that is it. The roots of these values
        are all different and made by operators, so that each can lie in the memory of its output.
    """
    assignment = _Assignment(builder, outputs)
    return assignment.operations, assignment.results


class _Assignment:
    def __init__(self, builder: RegionBuilder, outputs: Sequence[tuple[Value, Layout]]) -> None:
        self._children: dict[Value, list[Value]] = {}
        self._outputs = outputs
        for step in builder.steps:
            if isinstance(step, Value) and step.parent is not None:
                self._children.setdefault(step.parent, []).append(step)
        own = [step for step in builder.steps if isinstance(step, Operation) and step.kind in OWN_KINDS]
        self._strided = {value for step in own for value in (*step.inputs, step.output)}
        self._images = _quantized_images([step for step in builder.steps if isinstance(step, Operation)])
        self._alone = _converted_alone([step for step in builder.steps if isinstance(step, Operation)])
        self._made_of_images: set[Value] = set()
        # What convolutions of bytes make, and what is computed of it: oneDNN always lays it by channels.
        self._of_bytes = _convolved_bytes([step for step in builder.steps if isinstance(step, Operation)])
        # What dequantizes a value that oneDNN lays, until what reads it settles the order.
        self._dequantizers: dict[Value, Operation] = {}
        self._bytes_of_images: set[Value] = set()
        # oneDNN may join what is opaque in another order than by rows, and keeps it in what is computed of it.
        self._joined: set[Value] = set()
        self.operations: list[Operation] = []
        self._copies: dict[tuple[Value, tuple[int, ...]], Value] = {}
        self._claimed: set[Value] = set()
        for step in builder.steps:
            if isinstance(step, Value):
                self._place_view(step)
            else:
                self._place_result(step)
        self.results = [self._own_output(value, layout) for value, layout in outputs]
        for step in self.operations:
            if step.kind not in _IMAGE_KINDS:
                for value in (*step.inputs, step.output):
                    settle_ones(value)

    def _place_result(self, step: Operation) -> None:
        if step.kind not in OWN_KINDS:
            unfit = [repeats(value) or is_interleaved(value) for value in step.inputs]
            pairs = zip(step.inputs, unfit, strict=True)
            step.inputs = [self._dense_copy(value, step.handle) if copied else value for value, copied in pairs]
        value = step.output
        order = row_major(value)
        if step.kind in _DENSE_KINDS:
            step.inputs[0] = self._dense_input(step.inputs[0], step.handle)
        elif step.kind in _WHOLE_KINDS:
            image = self._whole_input(step.inputs[0], step.handle)
            step.inputs[0] = self._pooled_input(image, step) if step.kind in _POOLINGS else image
        elif _is_own_convolution(step):
            step.inputs[0] = self._channels_inside(step.inputs[0], step.handle)
        elif step.kind in OF_TWO and self._is_slow(step):
            order = self._take_over(step)
        elif step.kind in _ELEMENTWISE:
            order = self._lay_operands(step)
        elif step.kind in _SOFTMAX:
            order = self._lay_inside(step, [step.attributes["axis"]])
        elif step.kind in _REDUCTIONS:
            self._lay_inside(step, step.attributes["axes"])
        if step.kind in _IMAGE_KINDS or (
            (step.kind in _ELEMENTWISE or step.kind in OWN_BINARY.values())
            and any(operand in self._made_of_images for operand in step.inputs)
        ):
            self._made_of_images.add(value)
        # Joined images are images: their channels are copied from where a convolution writes them.
        joins_images = step.kind == "concat" and all(one in self._made_of_images for one in step.inputs)
        if joins_images and len(value.shape) in (3, 4):
            self._made_of_images.add(value)
        if step.kind == "concat" or (step.kind in _ELEMENTWISE and any(one in self._joined for one in step.inputs)):
            self._joined.add(value)
        expected = [layout for output, layout in self._outputs if output is value]
        if (step.kind in _DENSE_KINDS or step.kind in _SOFTMAX) and (expected or value in self._children):
            value.layout = Layout(value.shape, dense_strides(value.shape, order))
        elif (expected or value in self._children) and _is_own_convolution(step):
            # As the backend convolves: what takes no channels inside gets a copy.
            value.layout = Layout(value.shape, dense_strides(value.shape, channels_last(value)))
        elif expected:
            value.layout = expected[0]
        elif value in self._children:
            value.layout = self._best_layout(value, step.kind, order)
        elif value in self._images:
            # What reads the caller's image writes it in the order that the convolution wants.
            value.layout = Layout(value.shape, dense_strides(value.shape, channels_last(value)))
        elif order != row_major(value):
            # Not opaque: oneDNN would keep the order, and what reads it would not be known to read another one.
            value.layout = Layout(value.shape, dense_strides(value.shape, order))
        elif value in self._strided:
            value.layout = Layout(value.shape, dense_strides(value.shape, order))
        else:
            value.opaque = True
            value.layout = _dense(value)
        if step.kind in _CONVERSIONS:
            self._keep_zero_points(step)
        if step.kind == "quantize" and step.inputs[0] in self._made_of_images:
            self._bytes_of_images.add(value)
        self.operations.append(step)
        if step.kind == "dequantize" and value in self._alone and any(step.attributes["zps"]):
            if value.opaque:
                self._dequantizers[value] = step
            else:
                self._keep_bytes_order(step)

    def _keep_zero_points(self, step: Operation) -> None:
        """Move numbers to another order before or after they are converted where oneDNN cannot do both at once."""
        source, made = step.inputs[0], step.output
        if made not in self._alone or not any(step.attributes["zps"]):
            return
        # What oneDNN lays itself it lays by rows, but for images, which take no conversion of their own.
        if source.opaque and source in self._made_of_images:
            return
        order = row_major(source) if source.opaque else order_of_strides(source)
        target = row_major(made) if made.opaque else order_of_strides(made)
        if target is None or (order is not None and not self._forgets(source, order, target)):
            return
        if order is None:
            step.inputs[0] = self._ordered_copy(source, target, step.handle)
            return
        if step.kind == "dequantize" or made.opaque:
            made.opaque = False
            made.layout = Layout(made.shape, dense_strides(made.shape, order))
            return
        if source.opaque:
            source.opaque, source.layout = False, Layout(source.shape, dense_strides(source.shape, order))
        step.inputs[0] = self._ordered_copy(source, target, step.handle)

    def _forgets(self, source: Value, order: tuple[int, ...], target: tuple[int, ...]) -> bool:
        strides = None if source.opaque or source.layout is None else source.layout.strides
        return forgets_zero_points(source.shape, order, target, strides)

    def _settle(self, value: Value, order: tuple[int, ...]) -> None:
        """Lay a value that oneDNN would have laid."""
        value.opaque = False
        value.layout = Layout(value.shape, dense_strides(value.shape, order))
        if (step := self._dequantizers.pop(value, None)) is not None:
            self._keep_bytes_order(step)

    def _keep_bytes_order(self, step: Operation) -> None:
        """Dequantize in the order of the bytes, and copy that, where oneDNN cannot do both at once."""
        source, made = step.inputs[0], step.output
        lies, order = self._order_of_bytes(source), order_of_strides(made)
        if lies is None or order is None or not self._forgets(source, lies, order):
            return
        if source.opaque:
            source.opaque, source.layout = False, Layout(source.shape, dense_strides(source.shape, lies))
        step.output = Value(made.dtype, made.shape, layout=Layout(made.shape, dense_strides(made.shape, lies)))
        copy = Operation("reorder", [step.output], made, {}, "copy", step.handle)
        self.operations.insert(self.operations.index(step) + 1, copy)

    def _order_of_bytes(self, source: Value) -> tuple[int, ...] | None:
        """The order of quantized numbers, None if they have none; oneDNN lays what convolutions make by channels."""
        if not source.opaque:
            return order_of_strides(source)
        return channels_last(source) if source in self._bytes_of_images else row_major(source)

    def _place_view(self, value: Value) -> None:
        """A view's strides; where there are none, those on a dense copy of what it looks at."""
        assert value.parent is not None and value.parent.layout is not None and value.view is not None
        value.layout = value.view.apply(value.parent.layout)
        if value.layout is None:
            value.parent = self._dense_copy(value.parent, value.handle)
            value.layout = value.view.apply(_dense(value.parent))

    def _is_slow(self, step: Operation) -> bool:
        """Whether oneDNN would compute it with its reference kernel, wherever its operands lie."""
        left, right = step.inputs
        shape = step.output.shape
        if is_whole(right.shape, shape):
            return False
        if not is_fast_alone(right.shape, shape):
            return True
        assert right.layout is not None
        kept = kept_dims(right.shape, shape)
        if not right.opaque and find_order(right) is None:
            return bool(kept)  # it has gaps
        # The channels of what a convolution makes lie innermost, those of the other operand do not.
        return left.opaque and left in self._made_of_images and 1 in kept and not kept <= {0, 1}

    def _take_over(self, step: Operation) -> tuple[int, ...]:
        """Let the backend compute it, which takes any strides; tells the order of the result."""
        step.kind = OWN_BINARY[step.kind]
        for value in step.inputs:
            if value.opaque:
                image = value in self._made_of_images and len(value.shape) in (3, 4)
                self._settle(value, channels_last(value) if image else row_major(value))
        self._strided.add(step.output)
        return find_order(step.inputs[0]) or row_major(step.output)

    def _dense_input(self, value: Value, handle: int) -> Value:
        """The value, or a copy where it lies with gaps between its rows."""
        assert value.layout is not None
        if value.opaque:  # or a concatenation may have its rows elsewhere
            self._settle(value, row_major(value))
        assert value.layout is not None
        dense = same_layout(value.shape, value.layout.strides, dense_strides(value.shape))
        return value if dense else self._dense_copy(value, handle)

    def _whole_input(self, image: Value, handle: int) -> Value:
        """The image, or a copy where it has gaps, or lies neither by rows nor by channels."""
        rows, channels = row_major(image), channels_last(image)
        if image.opaque or find_order(image, rows) == rows or find_order(image, channels) == channels:
            return image
        return self._ordered_copy(image, channels if order_of_strides(image) == channels else rows, handle)

    def _pooled_input(self, image: Value, pooling: Operation) -> Value:
        """The image, or a copy by channels where it lies by rows: oneDNN for AVX2 pools rows number by number."""
        whole = list(pooling.attributes["kernel"]) == list(image.shape[2:])
        few = not isinstance(image.shape[1], int) or image.shape[1] < _FEWEST_CHANNELS
        return image if whole or few else self._channels_inside(image, pooling.handle)

    def _channels_inside(self, image: Value, handle: int) -> Value:
        """The image, or a copy by channels where it lies otherwise."""
        channels = channels_last(image)
        by_channels = image in self._made_of_images if image.opaque else find_order(image, channels) == channels
        return image if by_channels else self._ordered_copy(image, channels, handle)

    def _lay_operands(self, step: Operation) -> tuple[int, ...]:
        """Bring the operands of the result's shape into one order without gaps, by copies if need be, and tell it."""
        operands = [value for value in step.inputs if value.shape == step.output.shape]
        if any(value.opaque and value in self._of_bytes for value in operands):
            # It joins them with the convolution, in its reference kernel if the other operand lies otherwise.
            for value in operands:
                if value.opaque and value not in self._made_of_images:
                    maker = self._dequantizers.get(value)
                    order = None if maker is None else self._order_of_bytes(maker.inputs[0])
                    self._settle(value, order or row_major(value))
            channels = channels_last(step.output)
            step.inputs = [self._in_order(value, channels, value in operands, step.handle) for value in step.inputs]
            return row_major(step.output)
        order = settle_order(operands, [value for value in step.inputs if value not in operands])
        if order is None:
            # oneDNN lays the operands itself, by rows, but not what is repeated along them: heads innermost, say.
            step.inputs = [
                value if value in operands else self._in_order(value, row_major(value), False, step.handle)
                for value in step.inputs
            ]
            return row_major(step.output)
        if any(value.opaque and value not in self._made_of_images for value in operands):
            # A product whose result is to lie by columns gave wrong numbers (oneDNN 3.2).
            order = row_major(step.output)
        for value in operands:
            if value.opaque and order != row_major(value):
                self._settle(value, order)
        step.inputs = [self._in_order(value, order, value in operands, step.handle) for value in step.inputs]
        return order

    def _in_order(self, value: Value, order: tuple[int, ...], whole: bool, handle: int) -> Value:
        """An operand that lies in the order, or row by row where it is repeated; a copy if need be."""
        wanted = order if whole else row_major(value)
        found = None if value.opaque else find_order(value, wanted)
        # Gaps in what is repeated are those of one number for all: `_is_slow` took the others over.
        if value.opaque or found == wanted or (found is None and not whole):
            return value
        return self._ordered_copy(value, wanted, handle)

    def _lay_inside(self, step: Operation, dims: Sequence[int]) -> tuple[int, ...]:
        """Bring what a softmax or a reduction runs over innermost, by a copy if need be, and tell the order."""
        value = step.inputs[0]
        order = innermost(value, dims)
        if value.opaque and (order != row_major(value) or value in self._made_of_images or value in self._joined):
            # A convolution can write its channels innermost; what else is made, only in rows without loss.
            written = order if value in self._made_of_images and order == channels_last(value) else row_major(value)
            self._settle(value, written)
        assert value.layout is not None
        if not value.opaque and not same_layout(value.shape, value.layout.strides, dense_strides(value.shape, order)):
            step.inputs[0] = self._ordered_copy(value, order, step.handle)
        return order

    def _dense_copy(self, value: Value, handle: int) -> Value:
        return self._ordered_copy(value, row_major(value), handle)

    def _ordered_copy(self, value: Value, order: tuple[int, ...], handle: int) -> Value:
        """A copy for the operator of that handle, and for all that need one after it."""
        if (value, order) not in self._copies:
            layout = Layout(value.shape, dense_strides(value.shape, order))
            self._copies[value, order] = self._copy(value, layout, handle)
        return self._copies[value, order]

    def _best_layout(self, value: Value, kind: str, preferred: tuple[int, ...]) -> Layout:
        """The first order of dimensions that every view below, and every output among them, can live with."""
        for order in self._orders(value, kind, preferred):
            layout = Layout(value.shape, dense_strides(value.shape, order))
            if self._suits(value, layout):
                return layout
        return _dense(value)

    def _orders(self, value: Value, kind: str, preferred: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        views = [child.view for child in self._children.get(value, ())]
        permuted = all(isinstance(view, Permute) for view in views)
        joined = kind == "concat" and value in self._made_of_images
        moved = value in self._made_of_images and permuted and preferred == row_major(value)
        if len(value.shape) in (3, 4) and (kind in _IMAGE_KINDS or joined or moved):
            yield channels_last(value)
        yield preferred
        yield row_major(value)
        for child in self._children.get(value, ()):
            if isinstance(child.view, Permute):
                # The order in which the permuted view is dense.
                yield child.view.dims

    def _suits(self, value: Value, layout: Layout) -> bool:
        for output, expected in self._outputs:
            if output is value and not same_layout(layout.shape, layout.strides, expected.strides):
                return False
        for child in self._children.get(value, ()):
            assert child.view is not None
            seen = child.view.apply(layout)
            if seen is None or not self._suits(child, seen):
                return False
        return True

    def _copy(self, value: Value, layout: Layout, handle: int) -> Value:
        copy = Value(value.dtype, value.shape, layout=layout)
        source, target = value, copy
        if value.dtype in INTEGERS:
            # oneDNN's graphs copy integers only as what they mean, and fuse all three.
            source, target = self._as_floats(value, handle), Value("f32", value.shape, opaque=True)
            target.layout = _dense(value)
        if is_interleaved(source) and source.dtype == "f32":
            # The larger of a number and itself: the backend's own operators take any strides, and choose none.
            target.opaque = False
            self.operations.append(Operation(OWN_BINARY["maximum"], [source, source], target, {}, "copy", handle))
        else:
            self.operations.append(Operation("reorder", [source], target, {}, "copy", handle))
        if value.dtype in INTEGERS:
            self.operations.append(Operation("quantize", [target], copy, PLAIN.attributes, "copy", handle))
        return copy

    def _as_floats(self, value: Value, handle: int) -> Value:
        """Integers as floats; of rows that oneDNN takes to overlap, seen in the floats of all that they lie in."""
        made = Value("f32", value.shape, opaque=True)
        if value.parent is None or not is_interleaved(value):
            made.layout = _dense(value)
            self.operations.append(Operation("dequantize", [value], made, PLAIN.attributes, "copy", handle))
            return made
        whole = self._as_floats(value.parent, handle)
        whole.opaque, made.opaque = False, False
        made.parent, made.view = whole, value.view
        self._place_view(made)
        return made

    def _own_output(self, value: Value, expected: Layout) -> Value:
        """The value itself if its root can lie in the output's memory, else a copy."""
        root, layout = value.root, value.layout
        assert layout is not None
        made_here = root.tensor is None and root.argument is None and root not in self._claimed
        fills = layout.offset == 0 and same_size(root.shape, value.shape)
        if not (made_here and fills and same_layout(layout.shape, layout.strides, expected.strides)):
            value = self._copy(value, expected, value.handle)
        self._claimed.add(value.root)
        return value


def _is_own_convolution(step: Operation) -> bool:
    """Whether the backend convolves small groups, or each channel by itself, where oneDNN has no good kernel.

    The native `prefers_channels` and `prefers_planes` say which of them these are on a processor.
    """
    if step.kind != "convolution" or any(value.dtype != "f32" for value in (*step.inputs, step.output)):
        return False
    # Weights that are computed, or dequantized, are oneDNN's.
    if not step.inputs[1].is_constant:
        return False
    groups, read, made = step.attributes["groups"], step.inputs[0].shape[1], step.output.shape[1]
    if groups == 1:
        return False
    if groups == read == made:
        many = math.prod(step.inputs[1].shape[2:]) >= _MANY_TAPS
        return len(step.output.shape) == 3 or many or any(hole > 1 for hole in step.attributes["dilations"])
    return not all(size // groups >= _OF_A_KERNEL and size // groups % _FEWEST_CHANNELS == 0 for size in (read, made))


def _quantized_images(operations: Sequence[Operation]) -> set[Value]:
    """What is quantized for a convolution."""
    read = {step.inputs[0] for step in operations if step.kind in _CONVOLUTIONS}
    decoded = {step.inputs[0] for step in operations if step.kind == "dequantize" and step.output in read}
    made = {step.output for step in operations if step.kind == "quantize"}
    return {value for value in made & decoded if len(value.shape) == 4}


def _convolved_bytes(operations: Sequence[Operation]) -> set[Value]:
    """What convolutions make of dequantized images, and what is computed element by element of that alone."""
    decoded = {step.output for step in operations if step.kind == "dequantize"}
    found: set[Value] = set()
    for step in operations:
        convolved = step.kind in _CONVOLUTIONS and step.inputs[0] in decoded and len(step.output.shape) == 4
        if convolved or (step.kind in _ELEMENTWISE and all(value in found for value in step.inputs)):
            found.add(step.output)
    return found


def _converted_alone(operations: Sequence[Operation]) -> set[Value]:
    """Results of conversions that oneDNN joins with no convolution or product, which would convert by itself."""
    weighs = [step for step in operations if step.kind in (*_CONVOLUTIONS, "matmul")]
    taken = {value for step in weighs for value in step.inputs}
    written = {step.output for step in weighs}
    return {
        step.output
        for step in operations
        if (step.kind == "dequantize" and step.output not in taken)
        or (step.kind == "quantize" and step.inputs[0] not in written)
    }


def _dense(value: Value) -> Layout:
    return Layout(value.shape, dense_strides(value.shape))
