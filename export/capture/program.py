"""Capture: from a module and its example inputs to a program with a flat, named signature and known state."""

from __future__ import annotations

import dataclasses
import inspect
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind, TensorArgument

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.torch_internals import pytree
from edgex.errors import CaptureError, UsageError
from edgex.export.capture.branches.deciding import Answering
from edgex.export.capture.branches.settle import Settled, settle_branches
from edgex.export.capture.diagnosis import causes as diagnosis
from edgex.export.capture.diagnosis.export_failures import (
    depends_on_data,
    explain_export_failure,
    explain_strict,
    is_of_python,
)
from edgex.export.capture.dimensions.comparisons import (
    Frames,
    check_single_sizes,
    comparisons_decided,
    fails_for_a_truth,
)
from edgex.export.capture.dimensions.constant_masks import fix_constant_masks
from edgex.export.capture.dimensions.dynamic import (
    Asked,
    DimNames,
    Requests,
    check_example_sizes,
    enlarge_single_sizes,
    narrowed_ranges,
    read_dynamic_shapes,
    requests_to_dims,
    unchecked_guards,
    with_other_sizes,
)
from edgex.export.capture.dimensions.found_sizes import SuppressionBounded
from edgex.export.capture.dimensions.recurrences import check_recurrences
from edgex.export.capture.dimensions.single_sizes import describe_left_out, gives_the_same, left_out_sizes
from edgex.export.capture.dimensions.suggested_fixes import explain_in_flags, read_suggestions, unify
from edgex.export.capture.example_run import ExampleRun, describe_example, run_example
from edgex.export.capture.fidelity import OtherPathError, check_draws_nothing, check_gives_eager
from edgex.export.capture.flat_signature import describe_signature, flatten_program
from edgex.export.capture.function_transforms import expand_transforms
from edgex.export.capture.mutation import drop_copies_to_itself, find_written_placeholders, write_out_of_place
from edgex.export.capture.python_state import distributions
from edgex.export.capture.python_state.buffer_references import assignments_copied, references_followed
from edgex.export.capture.python_state.checked_functions import Unchecked
from edgex.export.capture.python_state.known_values import values_known
from edgex.export.capture.python_state.repeated_runs import check_follows_eager
from edgex.export.capture.python_state.trace_guard import values_kept
from edgex.export.capture.python_state.weight_writes import DataAsView, idle_conversions_skipped
from edgex.export.capture.scalar_indices import IndicesOfTensors, read_at_tensors
from edgex.export.capture.sequences.packing import PackedAsPadded
from edgex.export.capture.state import find_state, own_initial_values
from edgex.export.capture.torch_internals import helpers_traced, single_sizes_kept, traced_unseen, uncompiled
from edgex.export.proof.inner_precision import find_inner_precision
from edgex.export.source.eager import EagerModel, reference_conditions
from edgex.export.source.leaves import Leaf, name_outputs
from edgex.export.source.weights import put_in_eval
from edgex.runtime.artifact.specs import NUMPY_DTYPES, TensorSpec

_UNSEEN = (
    "forward goes another way where it is traced (torch.compiler.is_compiling() and the like), which fails or gives "
    "other numbers: it was captured the way it goes in eager"
)
# Arguments to trace with: positional, by name.
_Values = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Capture:
    """A captured model.

    Attributes:
        program: The program, with names.
        eager: The model behind the same signature.
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

    Inputs become the tensor leaves of the call in call order, outputs the tensors returned (named as
    `edgex.export.source.leaves` says). Constants of the call are baked in, None outputs left out, writes to inputs kept
    inside the program, each with a notice. The module is run once in eager; its buffers are as before afterwards.

    Args:
        module: Put in eval mode if it is not; an ExportedProgram brings its own example inputs, and is used up: its
            shape environment takes the names of the flat signature.
        args: Example inputs by position, nested as forward takes them.
        kwargs: Example inputs by name.
        dynamic_shapes: As `torch.export.export` takes it.
        source_root: Folder of the user's file; source lines are given relative to it.
        dynamic: Dimensions by (input name, axis), instead of `dynamic_shapes`.

    Raises:
        CaptureError: The model fails on its example inputs, or cannot be captured, or returns no tensors, or its
            program gives other numbers than the model.
        UsageError: `dynamic` names an input or dimension that does not exist.
    """
    requests = dynamic or {}
    if isinstance(module, ExportedProgram):
        if requests or dynamic_shapes is not None:
            raise UsageError(
                "the dynamic dimensions of an exported program are fixed",
                why="they were chosen when it was exported",
                fix="leave --dynamic and dynamic_shapes out, or export from the model's Python file",
            )
        return _take_program(module, source_root)
    module = uncompiled(module)
    notices = put_in_eval(module)
    call = tuple(args), dict(kwargs or {})
    try:
        return _capture_module(module, call, dynamic_shapes, source_root, requests, notices, unseen=False)
    except OtherPathError:
        with suppress(CaptureError):
            return _capture_module(module, call, dynamic_shapes, source_root, requests, notices, unseen=True)
        raise


def _capture_module(
    module: torch.nn.Module,
    call: _Values,
    dynamic_shapes: Any,
    source_root: Path,
    requests: Requests,
    notices: Sequence[str],
    *,
    unseen: bool,
) -> Capture:
    """Capture a module; with `unseen` as if it were not traced, as far as torch.compiler says so."""
    notices = list(notices)
    example = run_example(module, *call, source_root)
    if hasattr(dynamic_shapes, "dynamic_shapes"):  # ShapesCollection and AdditionalInputs know tensors by identity
        dynamic_shapes = dynamic_shapes.dynamic_shapes(module, *call)
    if requests and dynamic_shapes is not None:
        notices.append("--dynamic is given: the file's dynamic_shapes are not used")
    asked, shapes, values = _prepare_dynamic(example, dynamic_shapes, requests)
    if asked:
        calls = [(example.args, example.kwargs), _other_call(example, asked)]
        check_recurrences(example.module, calls, asked, source_root)
    exported, strict, why, asked = _export(
        example, asked, shapes, values, source_root, in_flags=bool(requests), unseen=unseen
    )
    if sparse := diagnosis.find_sparse(exported, source_root):
        raise sparse
    captured = _assemble(exported, example, asked, source_root, strict, [*notices, *example.notices, *why])
    check_draws_nothing(captured.program.exported, captured.eager, source_root)
    check_gives_eager(captured.program.exported, captured.eager, source_root)
    return captured


def capture_unrun(
    module: torch.nn.Module,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    *,
    source_root: Path,
    dynamic: Requests | None = None,
) -> tuple[CapturedProgram, tuple[str, ...]]:
    """Capture a module without running it, so that its weights may be fake tensors; else as `capture`.

    What only a run shows is not checked: whether eager raises, changes Python values, or agrees on the state.

    Returns:
        The program, and what the user should know, a sentence each.

    Raises:
        CaptureError: The model cannot be captured.
        UsageError: `dynamic` names an input or dimension that does not exist.
    """
    example = describe_example(module, tuple(args), kwargs or {})
    if hasattr(dynamic_shapes, "dynamic_shapes"):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(module, tuple(args), dict(kwargs or {}))
    asked, shapes, values = _prepare_dynamic(example, None if dynamic else dynamic_shapes, dynamic or {})
    exported, strict, why, asked = _export(example, asked, shapes, values, source_root, in_flags=bool(dynamic))
    captured = _assemble(exported, _example_of(exported, example), asked, source_root, strict, [*why])
    return captured.program, captured.notices


def _example_of(program: ExportedProgram, example: ExampleRun) -> ExampleRun:
    """The example with what the program tells of its outputs and of the buffers that it writes."""
    nodes = {node.name: node for node in program.graph.nodes}
    values = [
        nodes[spec.arg.name].meta["val"] if isinstance(spec.arg, TensorArgument) else getattr(spec.arg, "value", None)
        for spec in program.graph_signature.output_specs
        if spec.kind == OutputKind.USER_OUTPUT
    ]
    output = pytree.tree_unflatten(values, program.call_spec.out_spec)
    written = find_written_placeholders(program.graph, program.graph_module)
    buffers = [
        str(spec.target)
        for spec in program.graph_signature.input_specs
        if spec.kind == InputKind.BUFFER and spec.arg.name in written
    ]
    changed = dict.fromkeys([*buffers, *program.graph_signature.buffers_to_mutate.values()])
    return dataclasses.replace(
        example, output=output, outputs=name_outputs(output), touched={name: (name,) for name in changed}
    )


def _take_program(program: ExportedProgram, source_root: Path) -> Capture:
    """A program from a .pt2 file or from the user's own torch.export call."""
    if program.example_inputs is None:
        raise CaptureError(
            "the exported program holds no example inputs",
            fix="write it from torch.export.export(model, args), which keeps them",
        )
    args, kwargs = program.example_inputs
    call = program.module_call_graph[0].signature
    names = (call.forward_arg_names if call is not None else None) or []
    positional = names[: len(args)] if len(names) >= len(args) else [f"arg_{at}" for at in range(len(args))]
    example = run_example(program.module(), tuple(args), kwargs, source_root, positional)
    return _assemble(program, example, [], source_root, False, list(example.notices))


def _prepare_dynamic(example: ExampleRun, dynamic_shapes: Any, requests: Requests) -> tuple[list[Asked], Any, _Values]:
    """What was asked for, the same in torch's form, and the values to trace with."""
    structure = pytree.tree_structure((example.args, example.kwargs))
    if requests:
        asked = requests_to_dims(requests, example.inputs)
    else:
        parameters = inspect.signature(example.module.forward).bind(*example.args, **example.kwargs).arguments
        asked = read_dynamic_shapes(dynamic_shapes, parameters, example.inputs)
    check_example_sizes(example.inputs, asked)
    leaves = enlarge_single_sizes(example.inputs, asked)
    values = pytree.tree_unflatten(leaves, structure)
    return asked, _shapes_of(example, asked, values) if requests else dynamic_shapes, values


def _shapes_of(example: ExampleRun, asked: Sequence[Asked], values: _Values) -> Any:
    """What is asked for in torch's form."""
    collection = torch.export.ShapesCollection()  # type: ignore[no-untyped-call]
    for leaf, value in zip(example.inputs, pytree.tree_leaves(values), strict=True):
        axes = {item.axis: item.dim for item in asked if item.input == leaf.name}
        if axes:
            collection[value] = axes
    return collection.dynamic_shapes(example.module, *values)  # type: ignore[no-untyped-call]


def _other_call(example: ExampleRun, asked: Sequence[Asked]) -> _Values:
    """The example's call with other sizes of the dynamic dimensions."""
    structure = pytree.tree_structure((example.args, example.kwargs))
    found: _Values = pytree.tree_unflatten(with_other_sizes(example.inputs, asked), structure)
    return found


def _export(
    example: ExampleRun,
    asked: list[Asked],
    shapes: Any,
    values: _Values,
    source_root: Path,
    *,
    in_flags: bool,
    unseen: bool = False,
) -> tuple[ExportedProgram, bool, list[str], list[Asked]]:
    """torch.export, non-strict first; strict traces some Python that non-strict cannot, NumPy for one.

    Dimensions that must be equal, and were asked for with equal bounds, become one.

    Args:
        example: The model with its call.
        asked: What is dynamic.
        shapes: The same in torch's form.
        values: What to trace with.
        source_root: Folder of the user's file.
        in_flags: Whether it was asked for by `--dynamic`.
        unseen: Trace as if it were not traced, as far as torch.compiler says so.

    Returns:
        The program, whether strict capture was needed, notices, and what is dynamic then.

    Raises:
        CaptureError: Both ways fail.
    """
    module = example.module
    state = {name for names in example.touched.values() for name in names}
    unchecked = decided = False
    single: Mapping[str, list[int]] | None = None
    compared: list[Frames] = []
    packed = PackedAsPadded()
    settled: Settled | None = None

    def export(strict: bool, answering: Answering | None = None) -> ExportedProgram | Exception:
        # Outside of `try`: where values cannot be put back, edgex is at fault and not the model.
        with values_kept(module), ExitStack() as stack, reference_conditions(), _quiet():
            try:
                if not strict:  # strict capture follows Python objects by itself
                    if answering is not None:
                        stack.enter_context(answering)  # the outermost: it answers what the others do not
                    stack.enter_context(references_followed(module))
                    stack.enter_context(assignments_copied(module, state))
                    stack.enter_context(values_known(module, state, made=answering is not None))
                    stack.enter_context(IndicesOfTensors())
                    stack.enter_context(DataAsView(module, example.settled))
                    stack.enter_context(packed)
                    stack.enter_context(SuppressionBounded())
                    stack.enter_context(Unchecked())
                    stack.enter_context(helpers_traced())
                    stack.enter_context(idle_conversions_skipped())
                    if unseen:
                        stack.enter_context(traced_unseen(module))
                    if answering is not None:
                        stack.enter_context(answering.places)  # the innermost: the others see what it gives
                if unchecked:
                    stack.enter_context(distributions.without_checks())
                if single:
                    stack.enter_context(single_sizes_kept())
                if decided:
                    stack.enter_context(comparisons_decided(compared))
                return torch.export.export(module, values[0], values[1] or None, dynamic_shapes=shapes, strict=strict)
            except Exception as error:
                return error

    def compare(program: ExportedProgram, asked: list[Asked]) -> Callable[[Mapping[str, Sequence[int]]], bool]:
        structure = pytree.tree_structure((example.args, example.kwargs))
        return partial(gives_the_same, module, program, structure, example.inputs, asked)

    errors: list[Exception] = []
    notices: list[str] = [_UNSEEN] if unseen else []
    for strict in (False, True):
        program = export(strict)
        if isinstance(program, Exception) and not strict and not unseen and is_of_python(program):
            unseen = True
            retried = export(strict)
            if unseen := isinstance(retried, ExportedProgram) or not is_of_python(retried):
                program = retried
                notices.append(_UNSEEN)
        if isinstance(program, Exception) and not unchecked and distributions.fails_in_check(program):
            unchecked = True
            notices.append(distributions.NOTICE)
            program = export(strict)
        if isinstance(program, Exception) and not decided and fails_for_a_truth(program):
            decided = True
            program = export(strict)
        while isinstance(program, Exception):
            unified, same = unify(asked, read_suggestions(str(program)))
            if not same:
                break
            asked, shapes = unified, _shapes_of(example, unified, values)
            notices.append(f"the model needs equal sizes, and so they are: {', '.join(same)}")
            program = export(strict)
        if isinstance(program, Exception) and (single := left_out_sizes(str(program), asked)):
            retried = export(strict)
            if isinstance(retried, ExportedProgram) and compare(retried, asked)(single):
                program = retried
                notices += describe_left_out(single)
            single = None
        if isinstance(program, Exception) and not strict and depends_on_data(program):
            calls = [(example.args, example.kwargs), *([_other_call(example, asked)] if asked else [])]
            settled = settle_branches(module, calls, partial(export, False), state, source_root)
            notices += settled.notices
            program = settled.program or program
        if isinstance(program, Exception):
            errors.append(program)
            continue
        if compared:
            check_single_sizes(compare(program, asked), asked, compared, source_root)
        if strict:
            notices = [notice for notice in notices if notice != _UNSEEN]  # strict capture goes the traced way
            why = explain_strict(errors[0], source_root)
            notices.append(f"captured in strict mode, since non-strict capture fails: {why}")
        return program, strict, [*notices, *packed.notices], asked
    failure = explain_export_failure(errors, source_root, lambda: export(strict=False), asked)
    if settled is not None:
        settled.explain(failure)
    if flags := next(filter(None, (explain_in_flags(str(error), asked, example.inputs) for error in errors)), None):
        failure.fix = flags if in_flags else f"{failure.fix}; on the command line: {flags}"
    raise failure from errors[0]


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep off the terminal what torch.export logs and prints, and what forward prints while it is traced."""
    logger = logging.getLogger("torch")
    level = logger.level
    with warnings.catch_warnings(), redirect_stderr(io.StringIO()), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        logger.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            logger.setLevel(level)


def _assemble(
    exported: ExportedProgram,
    example: ExampleRun,
    asked: Sequence[Asked],
    source_root: Path,
    strict: bool,
    notices: list[str],
) -> Capture:
    """The flat program, its specs and its state."""
    exported = expand_transforms(exported)
    read_at_tensors(exported)
    diagnosis.check_constants(exported, example.inputs)
    diagnosis.check_numbers_returned(exported, example.outputs, example.module, source_root)
    fix_constant_masks(exported)
    drop_copies_to_itself(exported.graph)
    write_out_of_place(exported.graph)
    exported.graph_module.recompile()
    flat, written = flatten_program(exported, example.inputs)
    notices += describe_signature(example, written)
    inputs = [leaf for leaf in example.inputs if leaf.is_tensor]
    outputs = [leaf for leaf in example.outputs if leaf.is_tensor]
    names = DimNames(flat.range_constraints)
    input_values, output_values = _signature_values(flat)
    for leaf, value in zip(inputs, input_values, strict=True):
        names.learn(value.shape, leaf.name, asked)
    input_specs = _make_specs("input", inputs, input_values, names)
    try:
        output_specs = _make_specs("output", outputs, output_values, names)
    except CaptureError as error:
        raise diagnosis.explain_counts(error, flat, source_root) from None
    notices += [*narrowed_ranges(input_specs, asked), *unchecked_guards(flat)]
    with _quiet():
        state = find_state(flat, example, source_root)
    own_initial_values(flat, state, example)
    inner = find_inner_precision(flat)
    if inner != "fp32":
        notices.append(f"the model computes in {inner} inside: its outputs are judged by {inner}'s tolerance")
    example.buffers.keep([spec.name for spec in state])
    eager = EagerModel(
        example.module, example.args, example.kwargs, input_specs, output_specs, example.buffers, example.output
    )
    if example.counted:
        check_follows_eager(flat, eager, example.counted)
    return Capture(CapturedProgram(flat, input_specs, output_specs, state, source_root), eager, strict, tuple(notices))


def _signature_values(program: ExportedProgram) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The fake tensors of the user's inputs and outputs."""
    nodes = {node.name: node for node in program.graph.nodes}
    signature = program.graph_signature
    return (
        [nodes[s.arg.name].meta["val"] for s in signature.input_specs if s.kind == InputKind.USER_INPUT],
        [nodes[s.arg.name].meta["val"] for s in signature.output_specs if s.kind == OutputKind.USER_OUTPUT],
    )


def _make_specs(
    word: str, leaves: Sequence[Leaf], values: Sequence[torch.Tensor], names: DimNames
) -> tuple[TensorSpec, ...]:
    """Specs for the leaves; `values` are their fake tensors."""
    specs = []
    for leaf, value in zip(leaves, values, strict=True):
        dtype = str(value.dtype).removeprefix("torch.")
        if dtype not in NUMPY_DTYPES:
            raise CaptureError(
                f"{word} {leaf.name} has dtype {dtype}, which cannot cross an artifact's signature",
                why=f"possible: {', '.join(NUMPY_DTYPES)}",
                fix="convert it inside forward"
                if word == "output"
                else "take another dtype and convert inside forward",
            )
        specs.append(TensorSpec(leaf.name, dtype, names.describe(value.shape, word, leaf.name)))
    return tuple(specs)
