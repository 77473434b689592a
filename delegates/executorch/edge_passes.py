"""ExecuTorch's passes from PyTorch's operators to its own: sooner for plans, and with sizes that only the run finds.

For plans they run over each kind of operator once: they look at one operator at a time, but for those over quantized
programs, and each traces the whole program anew.

Of a tensor `[1, u0, 16]` they compare the strides `16 * u0` and `16`, which nobody can answer before the run, and give
up: experts in a loop, attention over the tokens that are no padding. The order of dimensions is the same for every size
from 2 on, and with fewer elements any order is right.
"""

from __future__ import annotations

import builtins
import itertools
import keyword
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from edgex.delegates.graph.kinds import decompose_kinds

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import GraphModule

# A pass takes out a dequantization with the quantization after it.
_LOOKED_AT_TOGETHER = ("quantized_decomposed", "torchao")

# Stands for each size that the run finds.
_LARGE = 1 << 20


@contextmanager
def passes_by_kind() -> Iterator[None]:
    """Within it, `to_edge_transform_and_lower` makes edge programs that are good for partitioning, and sooner."""
    from executorch.exir.program import _program

    whole = _program._generate_edge_program

    def by_kind(config: Any, program: ExportedProgram, *args: Any, **kwargs: Any) -> ExportedProgram:
        made = None
        if not _is_quantized(program):
            made = decompose_kinds(program, lambda kinds: whole(config, kinds, *args, **kwargs))
        return whole(config, program, *args, **kwargs) if made is None else made

    _program._generate_edge_program = by_kind
    try:
        yield
    finally:
        _program._generate_edge_program = whole


def _is_quantized(program: ExportedProgram) -> bool:
    return any(getattr(node.target, "namespace", None) in _LOOKED_AT_TOGETHER for node in program.graph.nodes)


def shadows_builtin(program: ExportedProgram) -> bool:
    """Whether an input has a name that torch.fx gives to no node of a copy: `input` of `nn.Sequential`."""
    return any(node.op == "placeholder" and _is_builtin(node.name) for node in program.graph.nodes)


def rename_shadowing(module: GraphModule) -> Any:
    """A pass that gives such inputs another name.

    A copy of the program would have other names than its signature says. ExecuTorch then says so on the root logger,
    and copies all weights with the program instead.
    """
    from torch.fx.passes.infra.pass_base import PassResult

    taken = {node.name for node in module.graph.nodes}
    for node in module.graph.nodes:
        if node.op == "placeholder" and _is_builtin(node.name):
            name = next(name for number in itertools.count(1) if (name := f"{node.name}_{number}") not in taken)
            node.name = node.target = name
            taken.add(name)
    module.recompile()
    return PassResult(module, True)


def _is_builtin(name: str) -> bool:
    return hasattr(builtins, name) or keyword.iskeyword(name)


@contextmanager
def layouts_known() -> Iterator[None]:
    """Within it, ExecuTorch orders dimensions by their strides also where sizes are found by the run.

    And copies that would lie in an order that PyTorch has no name for, as their operand does, lie in plain order. And
    buffers that are not persistent may lie in any order: ExecuTorch finds them among constants, not in the signature.
    """
    from executorch.exir import tensor, tensor_layout
    from executorch.exir.passes import convert_constant_dim_order_pass, replace_view_copy_with_view_pass
    from executorch.exir.passes.memory_format_ops_pass import MemoryFormatOpsPass

    whole = tensor.dim_order_from_stride
    modules = (tensor, tensor_layout, replace_view_copy_with_view_pass)
    for module in modules:
        module.dim_order_from_stride = _in_order(whole)
    call = MemoryFormatOpsPass.call_operator
    MemoryFormatOpsPass.call_operator = _in_named_order(call)
    update = convert_constant_dim_order_pass._update_placeholder_meta
    convert_constant_dim_order_pass._update_placeholder_meta = _of_its_kind(update)
    try:
        yield
    finally:
        convert_constant_dim_order_pass._update_placeholder_meta = update
        MemoryFormatOpsPass.call_operator = call
        for module in modules:
            module.dim_order_from_stride = whole


def _of_its_kind(update: Callable[[Any, str, Any], None]) -> Callable[[Any, str, Any], None]:
    def update_placeholder(exported: Any, target: str, _kind: Any) -> None:
        kinds = {spec.target: spec.kind for spec in exported.graph_signature.input_specs}
        if target in kinds:  # else nothing reads it any more
            update(exported, target, kinds[target])

    return update_placeholder


def _in_order(whole: Callable[[Any], Any]) -> Callable[[Any], Any]:
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    def order(strides: Sequence[Any]) -> Any:
        try:
            return whole(strides)
        except GuardOnDataDependentSymNode:
            return order_of_dimensions(strides)

    return order


def order_of_dimensions(strides: Sequence[Any]) -> tuple[int, ...]:
    """The dimensions from the outermost to the innermost, for every size from 2 on that only the run finds."""
    numbers = [_number(stride) for stride in strides]
    return tuple(sorted(range(len(numbers)), key=lambda dim: -numbers[dim]))


def _in_named_order(call: Callable[..., Any]) -> Callable[..., Any]:
    """`MemoryFormatOpsPass.call_operator`, which fails on a copy that keeps the order of `x.permute(0, 3, 1, 2)`."""
    import torch
    from executorch.exir import tensor
    from executorch.exir.dim_order_utils import get_dim_order
    from executorch.exir.passes.dim_order_ops_registry import DimOrderOpsMap

    def is_named(value: torch.Tensor) -> bool:
        order, rank = list(tensor.dim_order_from_stride(value.stride())), value.dim()
        last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(rank)
        return order == list(range(rank)) or (last is not None and order == get_dim_order(last, rank))

    def call_operator(self: Any, operator: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        if operator in DimOrderOpsMap and kwargs.get("memory_format") in (None, torch.preserve_format):
            value = getattr(args[0], "data", None)
            if isinstance(value, torch.Tensor) and not is_named(value):
                kwargs = {**kwargs, "memory_format": torch.contiguous_format}
        return call(self, operator, args, kwargs, meta)

    return call_operator


def _number(stride: Any) -> int:
    if isinstance(stride, int):
        return stride
    expression = stride.node.expr
    return int(expression.subs(dict.fromkeys(expression.free_symbols, _LARGE)))
