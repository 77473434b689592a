"""What went wrong in capture, in the user's terms: the line, the cause, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.export.graph_signature import InputKind

from edgex.delegates.provenance import source_of
from edgex.errors import CaptureError
from edgex.export.code_search import Place, file_of, find_return, find_write
from edgex.export.guard_lines import find_guard_line
from edgex.export.leaves import Leaf
from edgex.export.user_line import UserLine, line_at, line_of_error

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

    from edgex.export.side_effects import Change

_BRANCH_FIX = (
    "choose values with torch.where(condition, a, b), or branches with torch.cond(condition, if_true, if_false, (x,))"
)
_LOOP_FIX = "run the loop a fixed number of times, or write it with torch.while_loop"
_NUMBER_FIX = (
    "keep it a tensor: a tensor without dimensions works in arithmetic, and can be returned; "
    "for a size, tell its bounds: torch._check(n >= 1); torch._check(n <= 100)"
)
_SIZE_FIX = (
    "keep the size fixed: torch.where instead of a mask, torch.topk instead of nonzero; "
    "or tell its bounds: torch._check(n <= 100)"
)
_PYTHON_FIX = (
    "move it out of forward, into __init__ or into the code around the model, or write it with torch operators"
)

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
    fix = f"change the example inputs, or the model; forward was called with {call}"
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


def check_outputs(outputs: Sequence[Leaf], module: torch.nn.Module, source_root: Path) -> None:
    """Refuse outputs that are not tensors; None is left out later.

    Raises:
        CaptureError: It names the output and says what to return instead.
    """
    place = find_return(module)
    where = None if place is None else str(line_at(place.file, place.line, source_root))
    for leaf in outputs:
        if leaf.value is None or leaf.is_tensor:
            continue
        value = leaf.value
        if isinstance(value, str):
            what, fix = f"the string {value!r}", "leave it out of what forward returns; labels belong in model_card"
        elif isinstance(value, (bool, int, float)):
            what = f"the {type(value).__name__} {value!r}"
            fix = "return a tensor: without .item() if it is computed, torch.tensor(value) if it is a constant"
        elif isinstance(value, np.ndarray):
            what, fix = "a NumPy array", "return torch.from_numpy(array)"
        else:
            what = f"a {type(value).__name__}"
            fix = "return tensors, or tuples, lists, dicts or dataclasses of them"
            if "Cache" in what:
                fix += "; for a transformers model, set config.use_cache = False"
        raise CaptureError(f"output {leaf.name} is {what}, and outputs must be tensors", where, fix)
    if not any(leaf.is_tensor for leaf in outputs):
        raise CaptureError("forward returns no tensor", where, "return the result")


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


def explain_changes(changes: Sequence[Change], source_root: Path) -> CaptureError:
    """Forward changes Python values, which the exported program would not."""
    change = changes[0]
    where = _place_words(change.place, source_root)
    others = f"; the same for {', '.join(c.name for c in changes[1:])}" if len(changes) > 1 else ""
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
        why=f"it {how} in one run, and would stay as it was while tracing; only buffers are kept between runs{others}",
    )


def _place_words(place: Place | None, source_root: Path) -> str | None:
    return None if place is None else str(line_at(place.file, place.line, source_root))


def explain_changed_constant(name: str, kind: InputKind, node: Node, source_root: Path) -> CaptureError:
    """An operator of the program writes to something that stays constant."""
    word = "the parameter" if kind == InputKind.PARAMETER else "the tensor"
    return CaptureError(
        f"forward writes to {word} {name}, and only buffers can change",
        source_of(node, source_root),
        f'make it a buffer: self.register_buffer("{name.rpartition(".")[2]}", ...)',
    )


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


@dataclass(frozen=True)
class _Rule:
    """A known failure of torch.export.

    Attributes:
        pattern: How its message is recognized.
        explain: From the error and the user's line to what, why and fix.
        guard: Of a failure about sizes, a pattern for the assumption whose line is the cause; see `guard_lines`.
    """

    pattern: str
    explain: Callable[[Exception, UserLine | None], tuple[str, str, str]]
    guard: Callable[[str], str] | None = None


def explain_export_failure(
    errors: Sequence[Exception], source_root: Path, export_again: Callable[[], Any]
) -> CaptureError:
    """torch.export failed: what it means, from the attempt that says most.

    Args:
        errors: Of non-strict capture, then of strict capture.
        source_root: Folder of the user's file.
        export_again: Repeats non-strict capture, for failures whose line only a second look shows.
    """
    lines = [line_of_error(error, source_root) for error in errors]
    for error, own_line in zip(errors, lines, strict=True):
        rule = _find_rule(error)
        if rule is not None:
            line = next(filter(None, [own_line, *lines]), None)
            if rule.guard is not None:
                line = find_guard_line(export_again, rule.guard(str(error)), source_root) or line
            what, why, fix = rule.explain(error, line)
            return CaptureError(what, None if line is None else str(line), fix, why=why)
    line = next(filter(None, lines), None)
    return CaptureError(
        "torch.export cannot capture the model",
        None if line is None else str(line),
        _PYTHON_FIX,
        why=f"{type(errors[0]).__name__}: {first_line(errors[0])}",
    )


def explain_strict(error: Exception, source_root: Path) -> str:
    """Why non-strict capture did not do, a phrase."""
    rule = _find_rule(error)
    line = line_of_error(error, source_root)
    what = first_line(error) if rule is None else rule.explain(error, line)[0]
    return what if line is None else f"{what} ({line.place})"


def _find_rule(error: Exception) -> _Rule | None:
    text = f"{type(error).__name__}: {error}"
    return next((rule for rule in _RULES if re.search(rule.pattern, text)), None)


def _explain_data_dependence(error: Exception, line: UserLine | None) -> tuple[str, str, str]:
    """A Python decision or number that depends on the values of a tensor; the line's text tells which."""
    text = line.text if line is not None else ""
    if re.match(r"(while|for)\b", text):
        why = "how often a loop runs depends on the values of a tensor, and an exported program has one path"
        return "data-dependent control flow", why, _LOOP_FIX
    if re.search(r"\.item\(|\.tolist\(|\b(int|float)\(", text):
        why = "a Python number is read out of a tensor, and what follows needs to know its value while tracing"
        return "a number depends on the data", why, _NUMBER_FIX
    if re.search(r"\bu\d+\b", str(error)) and re.search(r"Size-like symbols: u|\.shape|size\(|len\(", f"{error}{text}"):
        why = "a size depends on the values of a tensor (nonzero, unique, a boolean mask), and the code asks for it"
        return "a size depends on the data", why, _SIZE_FIX
    why = "a branch depends on the values of a tensor, and an exported program has one path"
    return "data-dependent control flow", why, _BRANCH_FIX


def _explain_unsupported(error: Exception, line: UserLine | None) -> tuple[str, str, str]:
    """Strict capture does not know some Python; its own explanation is the cause."""
    explanation = re.search(r"^\s*Explanation: (.+)$", str(error), re.MULTILINE)
    why = explanation[1] if explanation else first_line(error)
    fix = _PYTHON_FIX
    if line is not None and re.search(r"\b(np|numpy)\.", line.text):
        fix = "this NumPy function has no counterpart in torch.export; use torch's own function"
    return "torch.export cannot trace this Python", why.replace("Dynamo", "torch.export"), fix


def _explain_data_pointer(_error: Exception, _line: UserLine | None) -> tuple[str, str, str]:
    why = "while tracing, tensors have no memory whose address could be taken"
    return "forward hands a tensor's memory to other code", why, _PYTHON_FIX


def _explain_dynamic_kwargs(_error: Exception, _line: UserLine | None) -> tuple[str, str, str]:
    why = "torch.export gives dynamic dimensions to named parameters only"
    return "an input in **kwargs cannot be dynamic", why, "name the parameter in forward's signature"


def _explain_shapes_mismatch(error: Exception, _line: UserLine | None) -> tuple[str, str, str]:
    fix = "dynamic_shapes has the structure of the inputs: a dict by parameter name, {axis: Dim(...)} for each tensor"
    return "dynamic_shapes does not fit the inputs", first_line(error), fix


def _explain_specialized(error: Exception, _line: UserLine | None) -> tuple[str, str, str]:
    found = re.search(
        r"You marked (.+?) as dynamic but your code specialized it to be a constant \((\d+)\)", str(error)
    )
    name, size = (_in_user_words(found[1]), found[2]) if found else ("a dimension", "one size")
    why = f"the model works with size {size} only: it mixes this dimension with one of a fixed size"
    fix = f"take sizes from the input (x.shape[0]) instead of the number {size}, or leave the dimension static"
    if size in ("0", "1"):
        fix = f"give example inputs in which it is not {size}; " + fix
    return f"{name} cannot be dynamic", why, fix


def _explain_range(error: Exception, _line: UserLine | None) -> tuple[str, str, str]:
    text = str(error)
    guards = re.findall(r"Not all values of (\S+) .*?satisfy the generated guard (.+)", text)
    name = guards[0][0] if guards else "a dimension"
    suggested = re.search(r"Suggested fixes:\n((?:  .+\n?)+)", text)
    fix = "choose a range in which that holds"
    if suggested:
        fix = f"torch.export suggests {'; '.join(line.strip() for line in suggested[1].splitlines())}"
    why = f"the model needs {_in_user_words(guards[0][1].rstrip('.'))}" if guards else first_line(error)
    return f"not every size of {_in_user_words(name)} in its range works", why, fix


def _specializing_guard(text: str) -> str:
    """The assumption that a size equals the constant in the error."""
    found = re.search(r"to be a constant \((\d+)\)", text)
    return rf"^Eq\(.*\b{found[1]}\)$" if found else r"^Eq\("


def _violated_guard(text: str) -> str:
    """The kind of assumption that the error's first complaint is about."""
    found = re.search(r"satisfy the generated guard (.+)", text)
    return r"Mod" if found and "%" in found[1] else r"[<>]"


def _in_user_words(text: str) -> str:
    """`L['x'].size()[0]` as `dimension 0 of x`, or `x.shape[0]` inside an expression."""
    whole = re.fullmatch(r"L\['([^']+)'\]\.size\(\)\[(\d+)\]", text)
    if whole:
        return f"dimension {whole[2]} of {whole[1]}"
    return re.sub(r"L\['([^']+)'\]((?:\[[^\]]+\])*)\.size\(\)\[(\d+)\]", r"\1\2.shape[\3]", text)


# In the order in which they are tried; the first that fits wins.
_RULES = (
    _Rule(r"Must provide a tree_name", _explain_dynamic_kwargs),
    _Rule(r"[Dd]etected mismatch between the structure|`dynamic_shapes` is specified as|specified at `dynamic_shapes|"
          r"different definitions .* for the same symbolic dimension", _explain_shapes_mismatch),
    _Rule(r"specialized it to be a constant|0/1 specialized", _explain_specialized, _specializing_guard),
    _Rule(r"Constraints violated|conflicts between user-specified", _explain_range, _violated_guard),
    _Rule(r"data-dependent|Data-dependent|DataDependent", _explain_data_dependence),
    _Rule(r"Cannot access data pointer", _explain_data_pointer),
    _Rule(r"Unsupported:", _explain_unsupported),
)  # fmt: skip
