"""From a captured program to an ONNX model, for every ONNX Runtime target.

```
lift_state -> translate -> [quantize] -> names, axes, metadata -> kernels -> plan, files, source map
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgex.delegates.base import CapturedProgram, LoweredModule
from edgex.delegates.graph.composite_operators import composites_listed_once
from edgex.delegates.graph.provenance import module_path_of, source_of
from edgex.delegates.graph.state import LiftedProgram, lift_state, write_state
from edgex.delegates.graph.work import count_flops, sum_flops
from edgex.delegates.onnxruntime import kernels
from edgex.delegates.onnxruntime.forms.cpu import write_for_cpu
from edgex.delegates.onnxruntime.forms.group_query import states_in_place
from edgex.delegates.onnxruntime.forms.norms import divide_by_roots
from edgex.delegates.onnxruntime.graph import signature, source_map, writer
from edgex.delegates.onnxruntime.graph.edits import GraphEditor
from edgex.delegates.onnxruntime.graph.reshapes import plain_reshapes
from edgex.delegates.onnxruntime.graph.translation import OTHERS, Refused, decomposition_errors, translate
from edgex.delegates.onnxruntime.graph.walk import operators
from edgex.delegates.onnxruntime.quantize.recipes import Form, check_quantizable, quantize_graph
from edgex.delegates.onnxruntime.versions import OLDEST_RUNTIME, newest
from edgex.delegates.other_targets import name_other_targets
from edgex.delegates.plan import Fallback, PartitionPlan, group_fallbacks, merge_plans
from edgex.delegates.whole_programs import suggest_sizes
from edgex.errors import LoweringError
from edgex.runtime.artifact.manifest import Method, Requirements
from edgex.runtime.artifact.specs import Dim, TensorSpec
from edgex.runtime.engines.state_file import STATE_FILE
from edgex.runtime.support.dependency_messages import quiet_dependencies

if TYPE_CHECKING:
    from torch.fx import Node

# Dtypes whose arrays NumPy or ONNX Runtime cannot hand over.
_NO_SIGNATURE = ("complex64", "bfloat16")
# Operators in one warning.
_NAMED = 8
_TO_CPU = "--option allow_fallback=true leaves them to the CPU"


@dataclass(frozen=True)
class _Assessment:
    """An ONNX model, or what is in its way.

    Attributes:
        plan: What was taken and what not.
        lifted: The program without mutated buffers.
        model: An `onnx_ir.Model`; None where it could not be made.
        origins: ONNX node name -> the operator it came from.
        warnings: What the user should know, a sentence each.
        minimum_runtime: Oldest ONNX Runtime that knows the operators, where the opset alone does not say it.
    """

    plan: PartitionPlan
    lifted: LiftedProgram
    model: Any | None = None
    origins: dict[str, Node] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    minimum_runtime: str | None = None


@dataclass(frozen=True)
class Checks:
    """What a graph is checked against.

    Attributes:
        taker: Who is to run it, for messages.
        find_left: The nodes that a provider other than the CPU's leaves; None where there is no such provider.
        fixed_sizes: The provider compiles for one size of every dimension.
        other_sizes_on_cpu: Whether the CPU may run a model with others instead.
        runtime_kernels: Whether ONNX Runtime's CPU provider runs or proves it, so that it needs kernels for all.
        form: How static quantization is written.
        edit: Writes otherwise what the provider takes in another form only.
        find_floats: The nodes of a quantized graph that are computed in floating point; None where that is usual.
    """

    taker: str = "ONNX Runtime's CPU provider"
    find_left: Callable[[Any], Sequence[kernels.MissingKernel]] | None = None
    fixed_sizes: bool = False
    other_sizes_on_cpu: bool = True
    runtime_kernels: bool = True
    form: Form = "cpu"
    edit: Callable[[GraphEditor], None] = lambda _editor: None
    find_floats: Callable[[Any], Sequence[str]] | None = None

    def find(self, model: Any) -> tuple[kernels.MissingKernel, ...]:
        """The nodes that are refused, each once, those of the provider first."""
        left = self.find_left(model) if self.find_left is not None else ()
        return (*left, *(kernels.missing_kernels(model) if self.runtime_kernels else ()))


CPU_CHECKS = Checks(edit=write_for_cpu)


def plan_program(program: CapturedProgram, opset: int, checks: Checks = CPU_CHECKS) -> PartitionPlan:
    """What `lower_program` would take and leave; weights may be fake tensors.

    Raises:
        LoweringError: The program cannot be decomposed or translated for a reason that no operator explains.
    """
    with quiet_dependencies(everything=True), composites_listed_once():
        return _assess(program, opset, checks, planning=True).plan


def lower_program(program: CapturedProgram, opset: int, engine: str, checks: Checks = CPU_CHECKS) -> LoweredModule:
    """Translate the program.

    Raises:
        LoweringError: Something in it cannot be translated or run; all of it is named.
    """
    assessed = _take(program, opset, checks)
    model, lifted = assessed.model, assessed.lifted
    method = program.method
    in_place = states_in_place(model, [str(spec.input) for spec in lifted.carried])
    state = tuple(replace(spec, in_place=True) if spec.input in in_place else spec for spec in lifted.state)

    def write(folder: Path) -> None:
        writer.write_model(model, folder)
        if lifted.carried:
            write_state(lifted.initial, folder)

    return LoweredModule(
        files=writer.native_files(model) + ((STATE_FILE,) if lifted.carried else ()),
        write=write,
        methods=(Method(method.name, method.inputs, method.outputs, state),),
        plan=assessed.plan,
        requirements=Requirements(engine, newest(OLDEST_RUNTIME[opset], assessed.minimum_runtime)),
        debug=source_map.build_source_map(model, assessed.origins, program.source_root),
        options={"opset": opset},
        warnings=assessed.warnings,
    )


def lower_methods(
    programs: Mapping[str, CapturedProgram], opset: int, engine: str, checks: Checks = CPU_CHECKS
) -> LoweredModule:
    """Translate the methods of an artifact, each to a file of its own; weights of the same bytes lie in one file, once.

    Raises:
        LoweringError: Something in one of them cannot be translated or run; all of it is named.
    """
    taken = {name: _take(program, opset, checks, shared=True) for name, program in programs.items()}
    models = {name: assessed.model for name, assessed in taken.items()}
    minimum = OLDEST_RUNTIME[opset]
    initial: dict[str, Any] = {}
    for assessed in taken.values():
        minimum = newest(minimum, assessed.minimum_runtime)
        initial |= assessed.lifted.initial

    def write(folder: Path) -> None:
        writer.write_methods(models, folder)
        if initial:
            write_state(initial, folder)

    return LoweredModule(
        files=writer.method_files(models) + ((STATE_FILE,) if initial else ()),
        write=write,
        methods=tuple(
            replace(program.method, name=name, file=writer.method_file(name), state=taken[name].lifted.state)
            for name, program in programs.items()
        ),
        plan=merge_plans([assessed.plan for assessed in taken.values()]),
        requirements=Requirements(engine, minimum),
        method_debug={
            name: source_map.build_source_map(assessed.model, assessed.origins, programs[name].source_root)
            for name, assessed in taken.items()
        },
        options={"opset": opset},
        warnings=tuple(dict.fromkeys(warning for assessed in taken.values() for warning in assessed.warnings)),
    )


def _take(program: CapturedProgram, opset: int, checks: Checks, *, shared: bool = False) -> _Assessment:
    """The model of a program, whose state other methods may share.

    Raises:
        LoweringError: Something in it cannot be translated or run; all of it is named.
    """
    with quiet_dependencies(everything=True), composites_listed_once():
        assessed = _assess(program, opset, checks, shared=shared)
    if assessed.model is None or assessed.plan.fatal:
        raise _refusal(assessed.plan, program, checks)
    return assessed


def _assess(
    program: CapturedProgram, opset: int, checks: Checks, *, planning: bool = False, shared: bool = False
) -> _Assessment:
    check_quantizable(program, opset)
    with decomposition_errors("functional operators"):
        lifted = lift_state(program, shared=shared)
    result = translate(lifted.exported, opset, planning=planning)
    if isinstance(result, Refused):
        fallbacks = [_left_out(node, why, program.source_root) for node, why in result.left]
        plan = _make_plan(operators(result.program), {node for node, _ in result.left}, fallbacks)
        return _Assessment(_with_signature(plan, program), lifted)
    model = result.model
    origins = source_map.origins(model, result.program)
    plain_reshapes(model)
    quantized = quantize_graph(model, origins, program, checks.form)
    if program.recipe is None or program.recipe.activations != "static":
        divide_by_roots(GraphEditor(model, origins))
    checks.edit(GraphEditor(model, origins))
    signature.name_axes(model, result.program, program.inputs)
    signature.name_signature(
        model,
        [*(spec.name for spec in program.inputs), *(str(spec.input) for spec in lifted.carried)],
        [*(spec.name for spec in program.outputs), *(spec.output for spec in lifted.carried if spec.output)],
    )
    signature.strip_metadata(model)
    left, fallbacks = _find_refused(checks.find(model), origins, program.source_root)
    plan = _make_plan(operators(result.program), left, fallbacks)
    written = result.program.graph_signature.user_inputs_to_mutate.values()
    warnings = tuple(
        f"the model writes into its input {name}; the artifact leaves the caller's array" for name in written
    )
    warnings += quantized.warnings
    if program.recipe is not None and checks.find_floats is not None and not plan.fatal:
        warnings += _name_floats(checks.find_floats(model), origins, program.source_root)
    runtime = quantized.minimum_runtime
    return _Assessment(_with_signature(plan, program), lifted, model, origins, warnings, runtime)


def _find_refused(
    refused: Sequence[kernels.MissingKernel], origins: dict[str, Node], source_root: Path
) -> tuple[set[Node], list[Fallback]]:
    """The operators behind the refused nodes."""
    fallbacks: list[Fallback] = []
    left: set[Node] = set()
    for missing in refused:
        origin = origins.get(missing.node)
        if origin is None:
            # A node that the exporter made up: it has a name, but no operator of the user's behind it.
            fallbacks.append(
                Fallback(
                    missing.node, 1, missing.code, missing.reason, None, missing.fatal, workaround=missing.workaround
                )
            )
        elif origin not in left:
            left.add(origin)
            fallbacks.append(_left_out(origin, missing, source_root))
    return left, fallbacks


def _name_floats(names: Sequence[str], origins: dict[str, Node], source_root: Path) -> tuple[str, ...]:
    """A warning that names what is computed in floating point among integers; none where nothing is."""
    nodes = dict.fromkeys(origins[name] for name in names if name in origins)
    if not nodes:
        return ()
    named = dict.fromkeys(f"{node.target} ({source_of(node, source_root) or 'no line'})" for node in nodes)
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return (f"in floating point among integers: {', '.join(list(named)[:_NAMED])}{more}",)


def _left_out(node: Node, why: kernels.MissingKernel, source_root: Path) -> Fallback:
    module = module_path_of(node)
    modules = () if module is None else (module,)
    source = source_of(node, source_root)
    return Fallback(
        str(node.target), 1, why.code, why.reason, source, why.fatal, modules, count_flops(node), why.workaround
    )


def _make_plan(nodes: Iterable[Node], left: set[Node], fallbacks: Sequence[Fallback]) -> PartitionPlan:
    """A plan in which everything is one region, or none where nothing else would run what is left.

    Where the CPU may run the rest, each unbroken stretch of taken operators counts as a region; what the provider makes
    of the graph may be fewer or more.
    """
    everything = list(nodes)
    taken = [node for node in everything if node not in left]
    total_flops = sum_flops(everything)
    return PartitionPlan(
        delegated_ops=len(taken),
        total_ops=len(everything),
        delegate_calls=0 if any(fallback.fatal for fallback in fallbacks) else _count_stretches(everything, left),
        fallbacks=group_fallbacks(fallbacks),
        delegated_flops=None if total_flops is None else sum_flops(taken) or 0,
        total_flops=total_flops,
    )


def _count_stretches(nodes: Sequence[Node], left: set[Node]) -> int:
    before = [None, *nodes]
    return sum(
        node not in left and (previous is None or previous in left)
        for previous, node in zip(before, nodes, strict=False)
    )


_COMPLEX_PARTS = (
    "take or give real and imaginary parts: torch.view_as_real of an output, torch.view_as_complex of an input"
)


def _with_signature(plan: PartitionPlan, program: CapturedProgram) -> PartitionPlan:
    """Add what cannot cross the signature between the caller and ONNX Runtime."""
    refused = [
        Fallback(
            kind,
            1,
            "dtype",
            f"{kind} {spec.name!r} is {spec.dtype}, which cannot cross its signature",
            None,
            True,
            workaround=_COMPLEX_PARTS if spec.dtype.startswith("complex") else None,
        )
        for kind, specs in (("input", program.inputs), ("output", program.outputs), ("state", program.state))
        for spec in specs
        if spec.dtype in _NO_SIGNATURE
    ]
    if not refused:
        return plan
    return replace(plan, delegate_calls=0, fallbacks=(*refused, *plan.fallbacks))


def _refusal(plan: PartitionPlan, program: CapturedProgram, checks: Checks) -> LoweringError:
    """One error that names every fatal fallback with its source line."""
    lines = []
    for left in plan.fatal:
        place = f"{left.source}: " if left.source else ""
        times = f" ({left.count} times)" if left.count > 1 else ""
        lines.append(f"{place}{left.op}{times}: {left.reason}")
    names = list(dict.fromkeys(left.op for left in plan.fatal))
    if all(left.workaround == _COMPLEX_PARTS for left in plan.fatal):
        what = f"{checks.taker} cannot run this model: {', '.join(names)}"
        return LoweringError(what, None, _COMPLEX_PARTS, why="\n".join(lines))
    dynamic = [spec for spec in program.inputs if not spec.is_static] if checks.fixed_sizes else []
    if dynamic:
        return _dynamic_refusal(checks, dynamic)
    fix = name_other_targets(names, OTHERS)
    if checks.find_left is not None:
        # An option that the provider's rules name for what they found; else the one that always helps.
        named = dict.fromkeys(left.workaround for left in plan.fatal if "--option " in (left.workaround or ""))
        fix = "; ".join([fix, *(text for text in named if text)]) if named else f"{fix}; {_TO_CPU}"
    return LoweringError(
        f"{checks.taker} cannot run this model: {', '.join(names)}",
        next((left.source for left in plan.fatal if left.source), None),
        fix,
        why="\n".join(lines),
    )


def _dynamic_refusal(checks: Checks, inputs: Sequence[TensorSpec]) -> LoweringError:
    """Every dynamic dimension, and the flags that fix them."""
    lines = [
        f"input {spec.name}: dimension {axis} is {dim.name}={dim.min}..{dim.max}"
        for spec in inputs
        for axis, dim in enumerate(spec.shape)
        if isinstance(dim, Dim)
    ]
    return LoweringError(
        f"{checks.taker} compiles for fixed sizes, and this model has dynamic ones",
        fix=suggest_sizes(inputs) + ("; or --option allow_fallback=true" if checks.other_sizes_on_cpu else ""),
        why="\n".join(lines),
    )
