"""Convert a program's float32 computation to float16 or bfloat16; its inputs and outputs stay float32.

```
before:  p_weight: f32, b_cache: f32, x: f32
         zeros  = aten.zeros.default([4])                                 # f32
         linear = aten.linear.default(x, p_weight, zeros)                 # f32, the output
after:   p_weight: f16, b_cache: f16, x: f32
         zeros  = aten.zeros.default([4], dtype=torch.float16)
         to     = aten.to.dtype(x, torch.float16)
         linear = aten.linear.default(to, p_weight, zeros)                # f16
         to_1   = aten.to.dtype(linear, torch.float32)                    # the output
```

- float64, complex, integer and boolean tensors keep their dtype. State (mutated buffers) is converted.
- Layer norm, softmax and batch norm run in the low precision; eager's kernels accumulate in float32 inside.
- What `decisive_nodes` finds stays float32 (positions -> rotary angles), with a cast behind it.
- Literals beyond the dtype's range (a mask's -3.4e38) become its largest finite value, and so do one-element constants,
  which is how a literal tensor is captured. Any other weight out of range is an error: it would silently become Inf.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import (
    arguments_of,
    given_arguments,
    is_tuple,
    leaves_of,
    operator_name,
    overload_of,
)
from edgex.delegates.graph.torch_internals import OpOverload
from edgex.errors import LoweringError, UsageError, nearest_name
from edgex.export.rewrites.base import location_of
from edgex.export.rewrites.decisive import decisive_nodes, is_float32
from edgex.export.rewrites.editing.editor import FakeMode, ProgramEditor, placeholders, tensor_of

_DTYPES: Mapping[str, torch.dtype] = {"fp16": torch.float16, "bf16": torch.bfloat16}

# A literal of theirs is (or is added to) an element of the result: beyond the range it can only overflow.
_TAKES_ELEMENT = frozenset(
    f"aten::{base}{suffix}"
    for base in (
        *("full", "full_like", "new_full", "fill", "scalar_tensor", "masked_fill", "index_fill", "where"),
        *("constant_pad_nd", "pad", "clamp", "clamp_min", "clamp_max", "add", "sub", "rsub"),
    )
    for suffix in ("", "_")
)
# The end of float32, which additive masks are made of: a table that was computed from one holds it, and no weight does.
_LEAST_OF_MASKS = 1e38
_MULTIPLIES = frozenset({"aten::mul", "aten::mul_"})


def convert_precision(program: CapturedProgram, precision: str) -> CapturedProgram:
    """Convert the float32 computation of a program; names, dtypes and shapes of its inputs and outputs stay.

    Args:
        program: A program in fp32, after `apply_rewrites`; it is not changed.
        precision: `fp32` (returns the program as it is), `fp16` or `bf16`.

    Raises:
        UsageError: Another precision.
        LoweringError: Weights are out of the dtype's range, or an operator does not work in it.
    """
    if precision == program.precision:
        return program
    if precision not in _DTYPES:
        raise UsageError(f"unknown precision {precision!r}", why=nearest_name(precision, ["fp32", *_DTYPES]))
    if program.precision != "fp32":
        raise ValueError(f"the program was converted to {program.precision} already")
    return _Converter(program, precision).convert()


class _Converter:
    """One conversion: a walk over a copy of the graph, in program order, that keeps `meta["val"]` true.

    Nodes in `_float32` hold float32 after the conversion too; a converted operator reads them through a cast.
    """

    def __init__(self, program: CapturedProgram, precision: str) -> None:
        self._program = program
        self._precision = precision
        self._dtype = _DTYPES[precision]
        self._editor = ProgramEditor(program)
        self._kept = {self._editor.node(node) for node in decisive_nodes(program)}
        self._float32: set[Node] = set()
        self._casts: dict[Node, Node] = {}
        self._before = {node: node.meta.get("val") for node in self._editor.graph.nodes}
        self._fake_mode = FakeMode(leaves_of(list(self._before.values())))

    def convert(self) -> CapturedProgram:
        self._convert_placeholders()
        for node in list(self._editor.graph.nodes):
            if node.op == "call_function":
                self._convert_node(node)
        self._convert_outputs()
        name = str(self._dtype).removeprefix("torch.")
        state = tuple(
            dataclasses.replace(spec, dtype=name if spec.dtype == "float32" else spec.dtype)
            for spec in self._program.state
        )
        return self._editor.finish(state=state, precision=self._precision)

    def _convert_placeholders(self) -> None:
        """Convert weights; user inputs and what a kept operator reads stay as they are."""
        weights: dict[Node, torch.Tensor] = {}
        for original, spec in placeholders(self._program.exported):
            node = self._editor.node(original)
            if not is_float32(original.meta["val"]):
                continue
            if spec.kind is InputKind.USER_INPUT:
                self._float32.add(node)
            else:
                weights[node] = tensor_of(self._program.exported, spec)
        # Tied weights are one tensor behind several placeholders.
        kept = {id(tensor) for node, tensor in weights.items() if node in self._kept}
        converted: dict[int, torch.Tensor] = {}
        overflows: dict[str, float] = {}
        for node, tensor in weights.items():
            if id(tensor) in kept:
                self._float32.add(node)
                continue
            if id(tensor) not in converted:
                spec = self._editor.spec(node)
                is_literal = spec.kind is InputKind.CONSTANT_TENSOR and (
                    tensor.numel() == 1 or str(spec.target) in self._program.literals
                )
                low = tensor.detach().to(self._dtype)
                if _overflow(tensor.detach(), low) is not None:
                    given = self._clamped(tensor.detach(), 0.0 if is_literal else _LEAST_OF_MASKS)
                    low = given.to(self._dtype)
                    if (largest := _overflow(given, low)) is not None:
                        overflows[str(spec.target)] = largest
                converted[id(tensor)] = low
            _set_val(node, node.meta["val"].detach().to(self._dtype))
        if overflows:
            self._refuse_overflows(overflows)
        self._editor.replace_tensors(converted)

    def _clamped(self, tensor: torch.Tensor, least: float) -> torch.Tensor:
        """Finite values from `least` on, up or down, within the dtype's range; others and infinities stay."""
        limit = torch.finfo(self._dtype).max
        return torch.where(tensor.isfinite() & (tensor.abs() >= least), tensor.clamp(-limit, limit), tensor)

    def _refuse_overflows(self, overflows: Mapping[str, float]) -> None:
        names = ", ".join(f"{name} (up to {largest:.3g})" for name, largest in overflows.items())
        limit = torch.finfo(self._dtype).max
        raise LoweringError(
            f"{len(overflows)} weight(s) do not fit into {self._precision}: {names}",
            why=f"the largest finite value of {self._dtype} is {limit:.5g}; these would become infinite",
            fix="use --precision bf16 or fp32; in an additive mask write -inf instead of a large number",
        )

    def _convert_node(self, node: Node) -> None:
        before = self._before[node]
        if node in self._kept or (
            operator_name(node) == "aten::_assert_tensor_metadata" and self._float32.issuperset(node.all_input_nodes)
        ):
            if is_float32(before):
                self._float32.add(node)
            return
        touched = leaves_of([before, [self._before[arg] for arg in node.all_input_nodes]])
        if not any(map(is_float32, touched)):
            return
        if node.target is operator.getitem:
            source, index = node.args
            assert isinstance(source, Node)
            after = source.meta["val"][index]
        elif overload := overload_of(node):
            self._convert_arguments(node)
            after = self._evaluate(node, overload)
        else:
            raise self._refusal(node, "it is not an operator with a schema, such as control flow or an autocast region")
        self._check_results(node, after)
        if is_float32(after):
            self._float32.add(node)
        _set_val(node, after)

    def _convert_arguments(self, node: Node) -> None:
        """Replace literal dtypes and numbers, and read float32 nodes through casts."""
        name = operator_name(node)
        makes_float32 = any(map(is_float32, leaves_of(self._before[node])))
        changed: dict[str, Any] = {}
        for argument, value in given_arguments(node):
            if value is torch.float32:
                changed[argument.name] = self._dtype
            elif makes_float32 and isinstance(value, int | float):
                changed[argument.name] = self._clamp_literal(name, value)
            else:
                changed[argument.name] = torch.fx.map_arg(value, lambda arg: self._read(arg, node))
        schema = arguments_of(node)
        node.args = tuple(changed[argument.name] for argument in schema[: len(node.args)])
        node.kwargs = {argument: changed[argument] for argument in node.kwargs}
        # A factory without a dtype makes the default one, float32.
        has_dtype = any(argument.name == "dtype" and argument.kwarg_only for argument in schema)
        if has_dtype and makes_float32 and not node.all_input_nodes and changed.get("dtype") is None:
            node.kwargs = {**node.kwargs, "dtype": self._dtype}

    def _clamp_literal(self, name: str | None, value: float) -> float:
        """The value, or the dtype's largest one of its sign where the value cannot but overflow."""
        info = torch.finfo(self._dtype)
        size = abs(value)
        if isinstance(value, bool) or size <= info.max or not math.isfinite(value):
            return value
        rounds_up_to_infinity = size <= info.max * (1 + info.eps)
        scales_all_to_infinity = name in _MULTIPLIES and size * info.smallest_normal * info.eps > info.max
        if rounds_up_to_infinity or scales_all_to_infinity or name in _TAKES_ELEMENT:
            return math.copysign(info.max, value)
        return value

    def _evaluate(self, node: Node, overload: OpOverload) -> Any:
        """Run the operator on fake tensors of the new dtypes."""
        if "unbacked_bindings" in node.meta or torch.Tag.inplace_view in overload.tags:
            # Running it would make fresh symbols, or change the shape of a value that other nodes still have.
            before = self._before[node]
            values = [val.to(self._dtype) if is_float32(val) else val for val in leaves_of(before)]
            return values if is_tuple(before) else values[0]
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda arg: arg.meta["val"])
        try:
            with torch.no_grad(), self._fake_mode:
                return overload(*args, **kwargs)
        except (RuntimeError, TypeError, ValueError) as error:
            raise self._refusal(node, str(error).splitlines()[0]) from error

    def _check_results(self, node: Node, after: Any) -> None:
        """A float32 result is in the new dtype (or float32, then it gets a cast); all else is as it was."""
        for old, new in zip(leaves_of(self._before[node]), leaves_of(after), strict=True):
            if not isinstance(old, torch.Tensor):
                continue
            if new.dtype != old.dtype and not (is_float32(old) and new.dtype == self._dtype):
                raise self._refusal(node, f"it gives {new.dtype} where the float32 model has {old.dtype}")
            static = all(isinstance(size, int) for size in (*old.shape, *new.shape))
            if static and new.shape != old.shape:
                shapes = f"{list(new.shape)} where the float32 model has {list(old.shape)}"
                raise self._refusal(node, f"it reads the bytes of its input and gives shape {shapes}")

    def _refusal(self, node: Node, why: str) -> LoweringError:
        return LoweringError(
            f"{node.target} cannot be converted to {self._precision}",
            where=location_of(node, self._program.source_root),
            why=why,
            fix="use --precision fp32",
        )

    def _read(self, arg: Node, user: Node) -> Node:
        """What a converted operator reads instead of `arg`: a cast of it where it stays float32."""
        if arg not in self._float32:
            return arg
        if arg not in self._casts:
            graph = self._editor.graph
            after = graph.find_nodes(op="placeholder")[-1] if arg.op == "placeholder" else arg
            with graph.inserting_after(after):
                self._casts[arg] = self._add_cast(arg, self._dtype, user)
        return self._casts[arg]

    def _add_cast(self, arg: Node, dtype: torch.dtype, like: Node) -> Node:
        """A cast at the graph's insertion point that counts as a part of the source line of `like`."""
        cast = self._editor.graph.call_function(torch.ops.aten.to.dtype, (arg, dtype))
        keys = ("stack_trace", "nn_module_stack", "torch_fn")
        cast.meta = {key: like.meta[key] for key in keys if key in like.meta}
        cast.meta["val"] = arg.meta["val"].to(dtype)
        return cast

    def _convert_outputs(self) -> None:
        """Give float32 outputs in float32, and new values of state in the state's dtype."""
        output = self._editor.graph.output_node()
        specs = self._program.exported.graph_signature.output_specs
        values: list[Any] = []
        widened: dict[Node, Node] = {}
        assert is_tuple(output.args[0])
        for spec, value in zip(specs, output.args[0], strict=True):
            if not isinstance(value, Node) or not is_float32(self._before[value]):
                values.append(value)
            elif spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION):
                values.append(self._read(value, value))
            elif value in self._float32:
                values.append(value)
            else:
                if value not in widened:
                    with self._editor.graph.inserting_before(output):
                        widened[value] = self._add_cast(value, torch.float32, value)
                values.append(widened[value])
        output.args = (type(output.args[0])(values),)


def _set_val(node: Node, val: Any) -> None:
    node.meta["val"] = val
    # What the tracer recorded beside it tells the old dtype.
    node.meta.pop("tensor_meta", None)


def _overflow(before: torch.Tensor, after: torch.Tensor) -> float | None:
    """The largest finite value before the conversion if it became infinite, else None; None for fake tensors."""
    if hasattr(before, "fake_mode"):
        return None
    lost = after.isinf() & before.isfinite()
    return float(before[lost].abs().max()) if bool(lost.any()) else None
