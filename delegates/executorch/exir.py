"""The one adapter over `executorch.exir`, ExecuTorch's exporter: importing it quietly, lowering, emitting, reading.

Importing this module is cheap; the exporter itself (seconds) is imported inside the functions.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from edgex.delegates.executorch.edge_passes import layouts_known, passes_by_kind, rename_shadowing, shadows_builtin
from edgex.delegates.executorch.exporter.initial_state import initial_state_apart
from edgex.delegates.executorch.exporter.lazy_code import code_on_demand
from edgex.delegates.graph.decomposition import spare_decompositions
from edgex.runtime.support.dependency_messages import quiet_import

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Graph, Node


@dataclass(frozen=True)
class Region:
    """One call into a backend, as the lowered program has it.

    Attributes:
        backend: Its name, for example `XnnpackBackend`.
        nodes: Names of the edge nodes it took, operators and getitems, in order.
        processed: What the backend made of it, as it is in the file.
    """

    backend: str
    nodes: tuple[str, ...]
    processed: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class PlannedSpan:
    """A tensor in the planned arena.

    Attributes:
        name: Of the program's input or state that it is; None otherwise.
        offset: Its first byte.
        bytes: Its size.
        first: Instruction that makes it, 0 for inputs and state.
        last: Instruction that reads it last; the program's last for outputs and state.
    """

    name: str | None
    offset: int
    bytes: int
    first: int
    last: int


def import_exporter() -> None:
    """Import the exporter, without what it prints while it is imported."""
    with quiet_import():
        import executorch.exir  # noqa: F401


def import_dialect() -> None:
    """Import the exporter, and read its table of edge operators: seconds that the first lowering would take."""
    import_exporter()
    with quiet_import():
        from executorch.exir.dialects._ops import ops

        _ = ops.edge.aten.add.Tensor


@contextmanager
def _sizes_kept() -> Iterator[None]:
    """Keep the bounds of dynamic dimensions while ExecuTorch's passes run the graph on fake tensors.

    For the memory layout of a convolution's result PyTorch asks which kernel it would use itself. With oneDNN or NNPACK
    that depends on the batch, which adds the guard `batch < 16`: the .pte would take 15 at most, whatever was declared.
    """
    import torch

    with torch.backends.mkldnn.flags(enabled=False), torch.backends.nnpack.flags(enabled=False):
        yield


# The method of a program that has one.
FORWARD = "forward"


def lower_to_edge(
    exported: ExportedProgram | Mapping[str, ExportedProgram], partitioner: Any, *, planning: bool = False
) -> Any:
    """Decompose, partition and lower the partitions: the work of `to_edge_transform_and_lower`.

    ExecuTorch's own check for Core ATen is off: it stops at the first operator outside, even one that has a kernel.
    `edgex.delegates.executorch.kernels` finds all that have none.

    Args:
        exported: The program, or several by method; they are not changed.
        partitioner: What its method `partition` raises comes out of here as it is; by method, where there are several.
            Its attribute `edge_passes`, where it has one, holds passes that run before it is asked.
        planning: It does raise: the program need not be good for more than to be partitioned.

    Returns:
        The EdgeProgramManager.
    """
    import torch
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
    from executorch.exir.passes.remove_graph_asserts_pass import RemoveGraphAssertsPass

    programs = exported if isinstance(exported, Mapping) else {FORWARD: exported}
    partitioners = partitioner if isinstance(exported, Mapping) else {FORWARD: partitioner}
    # Checks of sizes go before a region is lowered, not when the program is emitted: nothing uses what they
    # give, so lowering may sort them behind the output: "Expected output node, got op=call_function".
    checks = [RemoveGraphAssertsPass()] if any(map(_checks_sizes, programs.values())) else []
    # Ahead of the others, which may copy the program.
    names = [rename_shadowing] if any(map(shadows_builtin, programs.values())) else []
    passes = {name: [*names, *checks, *getattr(partitioners[name], "edge_passes", ())] for name in programs}
    # Without no_grad, lowering a state update fails: it would write into a leaf that requires grad.
    steps = passes_by_kind() if planning else nullcontext()
    with torch.no_grad(), _sizes_kept(), layouts_known(), code_on_demand(), steps:
        return to_edge_transform_and_lower(
            {name: spare_decompositions(program, by_kind=planning) for name, program in programs.items()},
            transform_passes=passes if any(passes.values()) else None,
            partitioner={name: [partitioners[name]] for name in programs},
            compile_config=EdgeCompileConfig(_check_ir_validity=False),
        )


def _checks_sizes(program: ExportedProgram) -> bool:
    return any("unbacked_bindings" in node.meta for node in program.graph.nodes)


def emit(edge: Any, *, plan_inputs: bool) -> Any:
    """Make the program file of a lowered program, in memory.

    Args:
        edge: What `lower_to_edge` returned; it is used up.
        plan_inputs: Give inputs a place in the planned arena, into which each run copies them; otherwise the program
            reads the caller's memory. Inputs are planned in any case where one of them is also an output: the binding
            would give that output new memory, and with it the input.

    Returns:
        The ExecutorchProgramManager.
    """
    import torch
    from executorch.exir import ExecutorchBackendConfig
    from executorch.exir.passes import MemoryPlanningPass

    programs = {name: edge.exported_program(name) for name in sorted(edge.methods)}
    state = frozenset(name for program in programs.values() for name in _state_inputs(program))
    planned = {name: plan_inputs or _returns_input(program) for name, program in programs.items()}
    config = ExecutorchBackendConfig(
        passes=[_initial_state_pass(state)],
        memory_planning_pass=(
            # One pass for all methods: it gives state of one name one place, which is why inputs go one way in all.
            MemoryPlanningPass(alloc_graph_input=any(planned.values()), share_mutable_buffers=True)
            if state and len(programs) > 1
            else {name: MemoryPlanningPass(alloc_graph_input=inputs) for name, inputs in planned.items()}
        ),
        # The Session finds a state tensor by its name.
        emit_mutable_buffer_names=True,
    )
    with torch.no_grad(), _sizes_kept(), layouts_known(), initial_state_apart():
        return edge.to_executorch(config)


def _plan_of(emitted: Any, method: str) -> Any:
    return next(plan for plan in emitted.executorch_program.execution_plan if plan.name == method)


def emitted_kernels(emitted: Any, method: str = FORWARD) -> list[str]:
    """Kernels that a method of the emitted program calls, for example `aten::cumsum.out`, in order."""
    plan = _plan_of(emitted, method)
    return [f"{op.name}.{op.overload}" if op.overload else str(op.name) for op in plan.operators]


def instruction_handles(emitted: Any, method: str = FORWARD) -> tuple[dict[int, tuple[int, ...]], list[int]]:
    """Debug handles of each instruction of a method, and which instructions call a backend, in order."""
    from executorch.exir.schema import DelegateCall

    handles = emitted.debug_handle_map.get(method, {})
    by_instruction = {
        int(instruction): tuple(found) if isinstance(found, (list, tuple)) else (found,)
        for instruction, found in handles.items()
    }
    # ExecuTorch's own map of these leaves out those within a loop.
    instructions = enumerate(_plan_of(emitted, method).chains[0].instructions)
    return by_instruction, [number for number, one in instructions if isinstance(one.instr_args, DelegateCall)]


def instruction_kernels(emitted: Any, method: str = FORWARD) -> dict[int, str]:
    """The kernel that each instruction of a method calls, for example `aten::cumsum.out`; others are not in it."""
    from executorch.exir.schema import KernelCall

    plan = _plan_of(emitted, method)
    names = emitted_kernels(emitted, method)
    return {
        number: names[instruction.instr_args.op_index]
        for number, instruction in enumerate(plan.chains[0].instructions)
        if isinstance(instruction.instr_args, KernelCall)
    }


def planned_spans(emitted: Any, method: str = FORWARD) -> list[PlannedSpan]:
    """Every tensor of a method that has a place in the planned arena, in the order of their first use."""
    from executorch.exir.schema import DelegateCall, KernelCall, OptionalTensorList, Tensor, TensorList
    from executorch.exir.tensor import get_scalar_type

    plan = _plan_of(emitted, method)
    used: dict[int, tuple[int, int]] = {}
    for number, instruction in enumerate(plan.chains[0].instructions):
        call = instruction.instr_args
        for index in call.args if isinstance(call, (DelegateCall, KernelCall)) else ():
            value = plan.values[index].val
            for member in value.items if isinstance(value, (TensorList, OptionalTensorList)) else (index,):
                used[member] = (used.get(member, (number, number))[0], number)
    end = len(plan.chains[0].instructions) - 1
    spans = []
    for index, value in enumerate(plan.values):
        tensor = value.val
        if not isinstance(tensor, Tensor) or tensor.allocation_info is None:
            continue
        first, last = used.get(index, (0, end))
        state = tensor.extra_tensor_info.fully_qualified_name if tensor.extra_tensor_info else None
        is_input = index in plan.inputs
        name = state or (f"input {plan.inputs.index(index)}" if is_input else None)
        kept = state or index in plan.outputs
        place = tensor.allocation_info
        # Buffer 0 is reserved for constants and empty; the others follow one another.
        start = sum(plan.non_const_buffer_sizes[1 : place.memory_id]) + place.memory_offset
        size = math.prod(tensor.sizes) * get_scalar_type(tensor.scalar_type).itemsize
        spans.append(PlannedSpan(name, start, size, 0 if name else first, end if kept else last))
    return sorted(spans, key=lambda span: (span.first, span.offset, span.last))


def regions_of(program: ExportedProgram) -> list[Region]:
    """The calls into backends of a lowered program, in program order; those of a loop's step stand for the loop."""
    import torch
    from executorch.exir.delegate import executorch_call_delegate

    regions = []
    for node in program.graph.nodes:
        if node.op != "call_function":
            continue
        if node.target is torch.ops.higher_order.scan:
            step = getattr(program.graph_module, node.args[0].target)
            calls = step.graph.find_nodes(op="call_function", target=executorch_call_delegate)
            regions += [_region(getattr(step, call.args[0].target), (node.name,)) for call in calls]
        elif node.target is executorch_call_delegate:
            lowered = getattr(program.graph_module, node.args[0].target)
            inner: Graph = lowered.original_module.graph
            regions.append(_region(lowered, tuple(one.name for one in inner.nodes if one.op == "call_function")))
    return regions


def _region(lowered: Any, nodes: tuple[str, ...]) -> Region:
    return Region(str(lowered.backend_id), nodes, bytes(lowered.processed_bytes))


def take_stored_data(edge: Any, other: Any) -> None:
    """Have a program's file hold what another's backends store beside their regions, too.

    Args:
        edge: The EdgeProgramManager that is emitted.
        other: One whose regions were put into it.
    """
    edge._named_data_store.merge_named_data_store(other._named_data_store.get_named_data_store_output())


def drop_unread_constants(program: ExportedProgram) -> None:
    """Take out of a lowered program the constants that nothing reads, which its file would hold; in place."""
    from executorch.backends.transforms.utils import delete_constant_placeholder

    signature = program.graph_signature
    constants = {
        *signature.inputs_to_parameters,
        *signature.inputs_to_buffers,
        *signature.inputs_to_lifted_tensor_constants,
    }
    changed = _state_inputs(program)
    for node in program.graph.find_nodes(op="placeholder"):
        if node.name in constants and node.name not in changed and not node.users:
            delete_constant_placeholder(program, node)


def branches_of(graph_module: Any) -> list[tuple[str, Any]]:
    """Graph modules that `torch.cond` and loops run, by name, not those inside them."""
    from executorch.exir.graph_module import get_control_flow_submodules

    return [(name, module) for name, module, _ in get_control_flow_submodules(graph_module)]


def origin_of(node: Node) -> str | None:
    """Identifies the captured program's operator that a node comes from, through decompositions."""
    from executorch.exir.debug_handle_utils import FROM_NODE_KEY, get_greatest_ancestor_node_identifier

    return str(get_greatest_ancestor_node_identifier(node)) if node.meta.get(FROM_NODE_KEY) else None


def captured_name(node: Node) -> str | None:
    """Name of the captured program's node that an edge node comes from."""
    origin = origin_of(node)  # `name.number of its graph`
    return None if origin is None else origin.rpartition(".")[0]


def is_excluded(node: Node, excluded: Collection[str]) -> bool:
    """Whether a node, of the captured program or an edge graph, comes from one of these captured nodes."""
    return bool(excluded) and (captured_name(node) or node.name) in excluded


def debug_handle_of(node: Node) -> int | None:
    """The number under which ExecuTorch reports a node at run time; nodes of one source operator share it."""
    handle = node.meta.get("debug_handle")
    return handle if isinstance(handle, int) else None


def operator_name(node: Node) -> str:
    """An operator's name as PyTorch writes it, for example `aten.cumsum.default`."""
    from edgex.delegates.graph.schema import torch_operator
    from edgex.delegates.graph.torch_internals import HigherOrderOperator, OpOverload, OpOverloadPacket

    target = torch_operator(node.target)
    if isinstance(target, (OpOverload, HigherOrderOperator)):
        return str(target)
    if isinstance(target, OpOverloadPacket):
        return str(target).replace("::", ".")
    return f"{getattr(target, '__module__', '').lstrip('_')}.{getattr(target, '__name__', target)}".lstrip(".")


def kernel_name(node: Node) -> str | None:
    """The kernel that will run a node outside backends: its out variant, for example `aten::cumsum.out`.

    Returns:
        None where the node runs without a kernel: size arithmetic, control flow, operators that write in place.

    Raises:
        LookupError: The operator has no out variant, so that no kernel can exist.
    """
    import torch
    from executorch.exir.operator.convert import to_out_variant

    from edgex.delegates.graph.schema import overload_of, schema_of

    target: Any = node.target
    operator = overload_of(node)
    if operator is None or schema_of(operator).is_mutable:
        return None
    if not any(isinstance(value, torch.Tensor) for value in _values(node.meta.get("val"))):
        return None
    try:
        out = target.to_out_variant() if operator is not target else to_out_variant(operator)[0]
    except RuntimeError as error:
        raise LookupError(str(error)) from error
    schema = schema_of(out)
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name


def _values(value: Any) -> Collection[Any]:
    return value if isinstance(value, (list, tuple)) else (value,)


def _state_inputs(program: ExportedProgram) -> frozenset[str]:
    """Placeholders of the buffers that the program changes."""
    signature = program.graph_signature
    changed = set(signature.buffers_to_mutate.values())
    return frozenset(name for name, buffer in signature.inputs_to_buffers.items() if buffer in changed)


def _returns_input(program: ExportedProgram) -> bool:
    """Whether an output is an input, or a view of one: ExecuTorch turns view copies into views."""
    import torch

    inputs = set(program.graph_signature.user_inputs)
    for output in program.graph.output_node().all_input_nodes:
        node = output
        while node.op == "call_function" and torch.Tag.view_copy in getattr(node.target, "tags", ()):
            node = node.all_input_nodes[0]
        if node.op == "placeholder" and node.name in inputs:
            return True
    return False


def _initial_state_pass(names: frozenset[str]) -> Any:
    """A pass that keeps the initial values of exactly these placeholders.

    By default ExecuTorch drops them: a counter that starts at 5 would start at 0.
    """
    from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass

    class ExactNames(InitializedMutableBufferPass):  # type: ignore[misc]  # executorch ships no types
        def placeholder(self, name: str, arg: Any, meta: Any) -> Any:
            # Its patterns match anywhere in a name: `b_count` would also mark `b_count2`.
            self.patterns = [name] if name in names else []
            return super().placeholder(name, arg, meta)

    return ExactNames([])
