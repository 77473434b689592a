"""Capture: from a module and its example inputs to a program with a flat, named border and known state."""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from edgex.delegates.base import CapturedProgram
from edgex.errors import CaptureError, UsageError
from edgex.export import diagnosis
from edgex.export.dynamic import (
    Asked,
    DimNames,
    Requests,
    enlarge_single_sizes,
    narrowed_ranges,
    read_dynamic_shapes,
    requests_to_dims,
)
from edgex.export.eager import BufferSnapshot, EagerModel, reference_conditions
from edgex.export.flat import flatten_program
from edgex.export.leaves import (
    Leaf,
    in_signature_order,
    name_inputs,
    name_outputs,
    name_positional,
    register_dataclasses,
)
from edgex.export.mutation import find_written_placeholders
from edgex.export.weights import check_on_cpu, put_in_eval
from edgex.runtime.specs import NUMPY_DTYPES, StateSpec, TensorSpec


@dataclass(frozen=True)
class Capture:
    """A captured model.

    Attributes:
        program: The program, with names.
        eager: The model behind the same border.
        strict: Whether strict capture was needed.
        notices: What the user should know, a sentence each.
    """

    program: CapturedProgram
    eager: EagerModel
    strict: bool
    notices: tuple[str, ...]


def capture(
    module: torch.nn.Module | ExportedProgram,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    *,
    source_root: Path,
    dynamic: Requests | None = None,
) -> Capture:
    """Capture a module with torch.export, non-strict and then strict, or take a program as it is.

    Inputs become the tensor leaves of the call in call order, outputs the tensors returned; `edgex.export.leaves`
    says how they are named. Constants of the call are baked in, None outputs left out, writes to inputs kept
    inside the program, each with a notice.

    Args:
        module: Put in eval mode if it is not; an ExportedProgram brings its own example inputs.
        args: Example inputs by position, nested as forward takes them.
        kwargs: Example inputs by name.
        dynamic_shapes: As `torch.export.export` takes it.
        source_root: Folder of the user's file; source lines are given relative to it.
        dynamic: Dimensions by (input name, axis), instead of `dynamic_shapes`.

    Raises:
        CaptureError: The model fails on its example inputs, or cannot be captured, or returns no tensors.
        UsageError: `dynamic` names an input or dimension that does not exist.
    """
    if isinstance(module, ExportedProgram):
        if dynamic or dynamic_shapes is not None:
            raise UsageError(
                "the dynamic dimensions of an exported program are fixed",
                why="they were chosen when it was exported",
                fix="leave --dynamic and dynamic_shapes out, or export from the model's Python file",
            )
        return _take_program(module, source_root)
    notices = list(put_in_eval(module))
    example = _run_example(module, tuple(args), dict(kwargs or {}), source_root)
    notices += example.notices
    asked, shapes, values = _prepare_dynamic(example, dynamic_shapes, dynamic or {})
    exported, strict, why = _export(example, shapes, values, source_root)
    notices += why
    return _assemble(exported, example, asked, source_root, strict, notices)


@dataclass(frozen=True)
class _Example:
    """The model with its example call, run once.

    Attributes:
        module: What eager runs.
        args: By position; no tensor occurs twice.
        kwargs: By name, in the order of forward's signature.
        inputs: All leaves, constants too.
        outputs: All leaves of what it returned, None too.
        output: What it returned, from the initial state.
        buffers: Their initial values, in place again.
        touched: Buffers that the run wrote to or replaced: their names, by the first one.
    """

    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    inputs: tuple[Leaf, ...]
    outputs: tuple[Leaf, ...]
    output: Any
    buffers: BufferSnapshot
    touched: Mapping[str, tuple[str, ...]]
    notices: tuple[str, ...] = ()


def _run_example(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    source_root: Path,
    positional: Sequence[str] | None = None,
) -> _Example:
    """Run eager once: the reference of the example, and a clear error before torch.export has one of its own."""
    signature = inspect.signature(module.forward)
    kwargs = in_signature_order(signature, kwargs)
    register_dataclasses((args, kwargs))
    args, kwargs = _with_distinct_tensors(args, kwargs)
    check_on_cpu(module, (args, kwargs))
    buffers = BufferSnapshot(module)
    given_args, given_kwargs = pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
    try:
        with reference_conditions():
            output = module(*given_args, **given_kwargs)
    except Exception as error:
        raise diagnosis.explain_eager_failure(error, module, args, kwargs, source_root) from error
    register_dataclasses(output)
    diagnosis.check_outputs(output, module, source_root)
    touched = buffers.touched()
    if touched:
        output = pytree.tree_map_only(torch.Tensor, torch.clone, output)
        buffers.restore()
    inputs = name_inputs(positional or name_positional(signature, len(args)), args, kwargs)
    return _Example(module, args, kwargs, inputs, name_outputs(output), output, buffers, touched)


def _with_distinct_tensors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Copy a tensor that is given twice: torch.export tells inputs apart by identity."""
    seen: set[int] = set()

    def distinct(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) in seen:
            return tensor.clone()
        seen.add(id(tensor))
        return tensor

    found: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_map_only(torch.Tensor, distinct, (args, kwargs))
    return found


def _prepare_dynamic(
    example: _Example, dynamic_shapes: Any, requests: Requests
) -> tuple[list[Asked], Any, tuple[tuple[Any, ...], dict[str, Any]]]:
    """What was asked for, in torch's form, and the values to trace with."""
    structure = pytree.tree_structure((example.args, example.kwargs))
    if hasattr(dynamic_shapes, "dynamic_shapes"):  # ShapesCollection and AdditionalInputs
        dynamic_shapes = dynamic_shapes.dynamic_shapes(example.module, example.args, example.kwargs)
    if requests:
        asked = requests_to_dims(requests, example.inputs)
    else:
        parameters = inspect.signature(example.module.forward).bind(*example.args, **example.kwargs).arguments
        asked = read_dynamic_shapes(dynamic_shapes, parameters, example.inputs)
    leaves = enlarge_single_sizes(example.inputs, asked)
    args, kwargs = pytree.tree_unflatten(leaves, structure)
    if requests:
        collection = torch.export.ShapesCollection()
        for leaf, value in zip(example.inputs, leaves, strict=True):
            axes = {item.axis: item.dim for item in asked if item.input == leaf.name}
            if axes:
                collection[value] = axes
        dynamic_shapes = collection.dynamic_shapes(example.module, args, kwargs)
    return asked, dynamic_shapes, (args, kwargs)


def _export(
    example: _Example, shapes: Any, values: tuple[tuple[Any, ...], dict[str, Any]], source_root: Path
) -> tuple[ExportedProgram, bool, list[str]]:
    """torch.export, non-strict first; strict traces some Python that non-strict cannot, NumPy for one."""
    errors: list[Exception] = []
    for strict in (False, True):
        try:
            with reference_conditions(), _quiet():
                program = torch.export.export(
                    example.module, values[0], values[1] or None, dynamic_shapes=shapes, strict=strict
                )
        except Exception as error:
            errors.append(error)
            continue
        why = [f"captured in strict mode: {diagnosis.first_line(errors[0])}"] if strict else []
        return program, strict, why
    raise diagnosis.explain_export_failure(errors, example.module, source_root) from errors[0]


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch.export's warnings and the graphs that it logs on failure off the terminal; errors say it better."""
    logger = logging.getLogger("torch")
    levels = [(logger, logger.level)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            logger.setLevel(logging.CRITICAL)
            yield
        finally:
            for changed, level in levels:
                changed.setLevel(level)


def _take_program(program: ExportedProgram, source_root: Path) -> Capture:
    """A program from a .pt2 file or from the user's own torch.export call."""
    if program.example_inputs is None:
        raise CaptureError(
            "the exported program holds no example inputs",
            fix="save it from torch.export.export(model, args), which keeps them",
        )
    args, kwargs = program.example_inputs
    call = program.module_call_graph[0].signature
    names = call.forward_arg_names if call is not None else None
    positional = (names or [f"arg_{at}" for at in range(len(args))])[: len(args)]
    example = _run_example(program.module(), tuple(args), dict(kwargs), source_root, positional)
    return _assemble(program, example, [], source_root, False, [])


def _assemble(
    exported: ExportedProgram,
    example: _Example,
    asked: Sequence[Asked],
    source_root: Path,
    strict: bool,
    notices: list[str],
) -> Capture:
    """The flat program, its specs and its state."""
    constants = [leaf for leaf in example.inputs if not leaf.is_tensor]
    if constants:
        listed = ", ".join(f"{leaf.name}={leaf.value!r}" for leaf in constants)
        notices.append(f"inputs that are no tensors are fixed in the program: {listed}")
    dropped = [leaf for leaf in example.outputs if leaf.value is None]
    if dropped:
        notices.append(f"{len(dropped)} of the {len(example.outputs)} outputs are None and are left out")
    diagnosis.check_symbolic_constants(exported, example.inputs, example.outputs)
    flat, written = flatten_program(exported, example.inputs)
    if written:
        notices.append(f"forward writes to its input {', '.join(written)}: the artifact writes to a copy")
    tensors = [leaf for leaf in example.inputs if leaf.is_tensor]
    names = DimNames(flat.range_constraints)
    values = _user_values(flat)
    for leaf, value in zip(tensors, values[0], strict=True):
        names.learn(value.shape, leaf.name, asked)
    inputs = tuple(
        TensorSpec(leaf.name, _dtype_name(value, f"input {leaf.name}"), names.describe(value.shape, f"input {leaf.name}"))
        for leaf, value in zip(tensors, values[0], strict=True)
    )
    returned = [leaf for leaf in example.outputs if leaf.is_tensor]
    outputs = tuple(
        TensorSpec(
            leaf.name, _dtype_name(value, f"output {leaf.name}"), names.describe(value.shape, f"output {leaf.name}")
        )
        for leaf, value in zip(returned, values[1], strict=True)
    )
    notices += narrowed_ranges(inputs, asked)
    state = _find_state(flat, example, source_root)
    for spec in state:
        # The program keeps the initial values for itself: running eager must not change what is lowered.
        home = flat.state_dict if spec.name in flat.state_dict else flat.constants
        saved = example.buffers.value_of(spec.name)
        home[spec.name] = home[spec.name].clone() if saved is None else saved
    example.buffers.keep([spec.name for spec in state])
    eager = EagerModel(example.module, example.args, example.kwargs, inputs, outputs, example.buffers, example.output)
    program = CapturedProgram(flat, inputs, outputs, state, source_root)
    return Capture(program, eager, strict, tuple(notices))


def _user_values(program: ExportedProgram) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The fake tensors at the program's border."""
    nodes = {node.name: node for node in program.graph.nodes}
    signature = program.graph_signature
    return (
        [nodes[s.arg.name].meta["val"] for s in signature.input_specs if s.kind == InputKind.USER_INPUT],
        [nodes[s.arg.name].meta["val"] for s in signature.output_specs if s.kind == OutputKind.USER_OUTPUT],
    )


def _dtype_name(tensor: torch.Tensor, where: str) -> str:
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in NUMPY_DTYPES:
        raise CaptureError(
            f"{where} has dtype {name}, which cannot cross an artifact's border",
            why=f"possible: {', '.join(NUMPY_DTYPES)}",
            fix="convert it inside forward",
        )
    return name


def _find_state(program: ExportedProgram, example: _Example, source_root: Path) -> tuple[StateSpec, ...]:
    """The buffers that the program changes, in the order in which the module declares them.

    Operators that write, and buffers that eager's run touched, are two views of the same thing; only where they
    differ is the program decomposed to know.

    Raises:
        CaptureError: Something else than a buffer is changed, or torch.export lost a change that eager makes.
    """
    signature = program.graph_signature
    specs = {s.arg.name: s for s in signature.input_specs if s.kind != InputKind.USER_INPUT}
    written = find_written_placeholders(program.graph_module)
    changed = [spec for name, spec in specs.items() if name in written]
    for spec in changed:
        if spec.kind != InputKind.BUFFER:
            raise diagnosis.explain_changed_constant(str(spec.target), spec.kind, written[spec.arg.name], source_root)
    found = {str(spec.target) for spec in changed} | set(signature.buffers_to_mutate.values())
    touched = set(example.touched)
    aliases = {name: first for first, names in example.touched.items() for name in names}
    if {aliases.get(name, name) for name in found} != touched:
        with torch.no_grad(), _quiet():
            found = set(program.run_decompositions({}).graph_signature.buffers_to_mutate.values())
    lost = touched - {aliases.get(name, name) for name in found}
    if lost:
        raise diagnosis.explain_lost_state(sorted(lost), example.module, source_root)
    homes = {**program.constants, **program.state_dict}
    declared = [str(s.target) for s in specs.values() if s.kind == InputKind.BUFFER and s.target in found]
    return tuple(
        StateSpec(name, _dtype_name(homes[name], f"buffer {name}"), tuple(int(size) for size in homes[name].shape))
        for name in declared
    )
