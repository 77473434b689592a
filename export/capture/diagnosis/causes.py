"""What a model cannot do if it is to be captured: the user's line, the cause, and what to write instead.

Failures of torch.export itself are in `edgex.export.capture.diagnosis.export_failures`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

from edgex.delegates.graph.schema import leaves_of
from edgex.errors import CaptureError
from edgex.export.source.leaves import Leaf
from edgex.export.source.user_code.code_search import Place, file_of, find_return, find_write
from edgex.export.source.user_code.user_failure import device_advice
from edgex.export.source.user_code.user_line import line_at, line_of_error, line_of_trace

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

    from edgex.export.capture.python_state.side_effects import Change

# Values of a call that torch.export takes as constants.
_CONSTANTS = (int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


def first_line(error: BaseException) -> str:
    """The first line of an error's message that says something, else its type."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def explain_eager_failure(error: Exception, call: str, source_root: Path) -> CaptureError:
    """The model raised on the inputs that its own file gives.

    Args:
        error: What it raised.
        call: The inputs, as `describe_call` gives them.
        source_root: Folder of the user's file.
    """
    line = line_of_error(error, source_root)
    fix = device_advice(error) or f"change the example inputs, or the model; forward was called with {call}"
    if isinstance(error, TypeError) and "unexpected keyword argument" in str(error):
        fix += "; if forward takes a dict, put it into a tuple: ({...},)"
    return CaptureError(
        "the model fails on its own example inputs",
        None if line is None else str(line),
        fix,
        why=f"{type(error).__name__}: {first_line(error)}",
    )


def describe_call(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """A call's arguments in a line, tensors by dtype and shape."""
    words = [_describe_value(value) for value in args]
    return f"({', '.join([*words, *(f'{key}={_describe_value(value)}' for key, value in kwargs.items())])})"


def _describe_value(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_describe_value, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_describe_value(item)}' for key, item in value.items())}}}"
    return repr(value) if isinstance(value, _CONSTANTS) else f"a {type(value).__name__}"


def check_inputs(inputs: Sequence[Leaf]) -> None:
    """Refuse example inputs that are neither tensors nor constants.

    Raises:
        CaptureError: It names the input.
    """
    for leaf in inputs:
        if isinstance(leaf.value, np.ndarray):
            raise CaptureError(
                f"example input {leaf.name} is a NumPy array",
                fix="give torch.from_numpy(array): eager PyTorch must take the same inputs",
            )
        if not leaf.is_tensor and not isinstance(leaf.value, _CONSTANTS):
            raise CaptureError(
                f"example input {leaf.name} is a {type(leaf.value).__name__}",
                fix="give tensors, numbers, strings, and tuples, lists, dicts or dataclasses of them",
            )


def find_bad_outputs(outputs: Sequence[Leaf], module: torch.nn.Module, source_root: Path) -> list[CaptureError]:
    """Outputs that no program gives, each named, with what to return instead; constants are left out later."""
    found = []
    where = _where_returned(module, source_root)
    for leaf in outputs:
        value = leaf.value
        if leaf.is_tensor or isinstance(value, _CONSTANTS):
            continue
        if isinstance(value, np.ndarray):
            what, fix = "a NumPy array", "return torch.from_numpy(array)"
        else:
            what = f"a {type(value).__name__}"
            fix = "return tensors, or tuples, lists, dicts or dataclasses of them"
            if "Cache" in what:
                fix += "; for a transformers model, set config.use_cache = False"
        found.append(CaptureError(f"output {leaf.name} is {what}, and outputs must be tensors", where, fix))
    if not found and not any(leaf.is_tensor for leaf in outputs):
        found.append(CaptureError("forward returns no tensor", where, "return the result"))
    return found


def check_numbers_returned(
    program: ExportedProgram, outputs: Sequence[Leaf], module: torch.nn.Module, source_root: Path
) -> None:
    """Refuse numbers among the outputs that the inputs decide: a number that never changes can be left out.

    Args:
        program: As torch.export made it.
        outputs: All leaves of what forward returns, in the order of the program's user outputs.
        module: The model.
        source_root: Folder of the user's file.

    Raises:
        CaptureError: Names each.
    """
    where = _where_returned(module, source_root)
    specs = [spec for spec in program.graph_signature.output_specs if spec.kind == OutputKind.USER_OUTPUT]
    found = [
        CaptureError(
            f"output {leaf.name} is a number that the inputs decide, and outputs must be tensors",
            where,
            "return it as a tensor: without .item() where it is computed; sizes can be read off the other outputs",
        )
        for spec, leaf in zip(specs, outputs, strict=True)
        if not leaf.is_tensor and not isinstance(spec.arg, ConstantArgument)
    ]
    if found:
        raise found[0].with_others(found[1:])


def _where_returned(module: torch.nn.Module, source_root: Path) -> str | None:
    place = find_return(module)
    return None if place is None else str(line_at(place.file, place.line, source_root))


def check_constants(program: ExportedProgram, inputs: Sequence[Leaf]) -> None:
    """Refuse numbers that torch.export took as inputs of the program.

    Raises:
        CaptureError: An int or float was asked to be dynamic.
    """
    specs = [s for s in program.graph_signature.input_specs if s.kind == InputKind.USER_INPUT]
    nodes = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    for spec, leaf in zip(specs, inputs, strict=True):
        if not leaf.is_tensor and nodes[spec.arg.name].users:
            kind = type(leaf.value).__name__
            raise CaptureError(
                f"input {leaf.name} is the {kind} {leaf.value!r}, and dynamic inputs must be tensors",
                fix="give it as a tensor without dimensions, or take it out of dynamic_shapes to fix its value",
            )


def explain_change(change: Change, source_root: Path) -> CaptureError:
    """Forward changes a Python value, which the exported program would not."""
    where = _place_words(change.place, source_root)
    attribute = change.name.rpartition(".")[2]
    if change.kind == "random":
        source = {"torch": "torch's generator", "numpy.random": "numpy.random", "random": "the random module"}[
            change.name
        ]
        return CaptureError(
            f"forward draws random numbers from {source}",
            where,
            "pass the noise as an input; dropout needs training=self.training",
            why="no two runs give the same outputs, so that nothing can be proved; "
            "what NumPy and Python draw would be a constant of the program",
        )
    if isinstance(change.value, torch.Tensor):
        fix = f'make it a buffer in __init__: self.register_buffer("{attribute}", torch.zeros(...))'
    elif isinstance(change.value, (int, float)) or change.value is None:
        fix = (
            f'make it a buffer in __init__: self.register_buffer("{attribute}", torch.tensor({change.before or 0})), '
            "and change it in place"
        )
    else:
        fix = "return the tensors instead of keeping them, or keep them in a buffer of fixed size"
    word = "the global " if change.kind == "global" else ""
    how = f"goes from {change.before} to {change.after}" if change.before != change.after else "changes its values"
    return CaptureError(
        f"forward changes {word}{change.name}, and an exported program cannot",
        where,
        fix,
        why=f"it {how} in one run, and would stay as it was while tracing; only buffers are kept between runs",
    )


def _place_words(place: Place | None, source_root: Path) -> str | None:
    return None if place is None else str(line_at(place.file, place.line, source_root))


def explain_changed_parameter(name: str, module: torch.nn.Module, source_root: Path) -> CaptureError:
    """Eager's run changed a parameter."""
    owner, _, attribute = name.rpartition(".")
    place = find_write(file_of(type(module)), attribute, on_self=True)
    place = place or find_write(file_of(type(module.get_submodule(owner))), attribute, on_self=True)
    return CaptureError(
        f"forward changes the parameter {name}, and an exported program cannot",
        _place_words(place, source_root),
        f'make it a buffer: self.register_buffer("{attribute}", ...), and change it in place',
    )


def explain_replaced_data(name: str, module: torch.nn.Module, source_root: Path) -> CaptureError:
    """Eager's run gave a tensor other memory, under which torch.export loses track of it."""
    owner, _, attribute = name.rpartition(".")
    place = find_write(file_of(type(module.get_submodule(owner))), attribute, on_self=True)
    return CaptureError(
        f"forward assigns to the .data of {name}, which torch.export cannot follow",
        _place_words(place, source_root),
        f"change it in place: self.{attribute}.copy_(value)",
    )


def explain_changed_constant(name: str, kind: InputKind, node: Node, source_root: Path) -> CaptureError:
    """An operator of the program writes to something that stays constant."""
    line = line_of_trace(str(node.meta.get("stack_trace")), source_root)
    what = f"the parameter {name}" if kind == InputKind.PARAMETER else f"the tensor {name}"
    fix = f'make it a buffer: self.register_buffer("{name.rpartition(".")[2]}", ...)'
    if name.startswith("lifted_tensor"):
        what, fix = "a tensor that is no buffer", "write to a buffer in place"
    return CaptureError(
        f"forward writes to {what}, and only buffers can change", None if line is None else str(line), fix
    )


def find_sparse(exported: ExportedProgram, source_root: Path) -> CaptureError | None:
    """The first operator of a program that makes or reads a sparse tensor; None without one."""
    for node in exported.graph.nodes:
        values = [leaf for leaf in leaves_of(node.meta.get("val")) if isinstance(leaf, torch.Tensor)]
        if any("sparse" in str(value.layout) for value in values):
            at = next(iter(node.users), node) if node.op == "placeholder" else node
            line = line_of_trace(str(at.meta.get("stack_trace")), source_root)
            return CaptureError(
                "forward computes with a sparse tensor, and an exported program has dense tensors only",
                None if line is None else str(line),
                "keep the edges, and write the product as "
                "torch.zeros_like(x).index_add(0, rows, values[:, None] * x[columns])",
                why="torch.export and all engines compute with dense tensors",
            )
    return None


def explain_counts(error: CaptureError, program: ExportedProgram, source_root: Path) -> CaptureError:
    """An output without a bound, where `bincount` is what gives it its size."""
    nodes = program.graph.find_nodes(op="call_function", target=torch.ops.aten.bincount.default)
    if nodes and "upper bound" in error.what:
        line = line_of_trace(str(nodes[0].meta.get("stack_trace")), source_root)
        error.where = None if line is None else str(line)
        error.fix = "torch.bincount has a place for the largest value, which only a run finds; for values below n: " + (
            "(x[:, None] == torch.arange(n)).sum(0)"
        )
    return error


def explain_lost_state(names: Sequence[str], module: torch.nn.Module, source_root: Path) -> CaptureError:
    """Eager changes buffers, and the program that torch.export made does not."""
    owner, _, attribute = names[0].rpartition(".")
    place = find_write(file_of(type(module.get_submodule(owner))), attribute, on_self=True)
    return CaptureError(
        f"torch.export lost the change that forward makes to buffer {', '.join(names)}",
        _place_words(place, source_root),
        f"change it in place: self.{attribute}.copy_(value) instead of self.{attribute} = value",
        why="a buffer that is assigned a new tensor is not always seen as changed",
    )
