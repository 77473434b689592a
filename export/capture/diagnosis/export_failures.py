"""What a failure of torch.export means, in the user's terms: the line, the cause, and what to write instead."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgex.errors import CaptureError
from edgex.export.capture.diagnosis.causes import first_line
from edgex.export.capture.diagnosis.guard_lines import find_guard_line
from edgex.export.capture.diagnosis.mixed_sizes import explain_mixed_sizes
from edgex.export.capture.sequences.packing import explain_rows
from edgex.export.source.user_code.user_line import UserLine, library_line_of_error, line_of_error

if TYPE_CHECKING:
    from edgex.export.capture.dimensions.dynamic import Asked

_BRANCH_FIX = (
    "choose values with torch.where(condition, a, b), or branches with torch.cond(condition, if_true, if_false, (x,))"
)
_INSTALLED_FIX = (
    "the line is in an installed package: if it goes one way for all your inputs, put a function that goes that way in "
    "its place from your own file, as docs/errors.md shows"
)
_LOOP_FIX = (
    "run the loop a fixed number of times (`for i in range(n)`: what is not hit adds nothing), or write it with "
    "torch.while_loop"
)
_EXPERTS_FIX = (
    'the model says experts_implementation="eager"; call model.set_experts_implementation("grouped_mm") in your file: '
    "transformers then computes the same experts without the loop"
)
_NUMBER_FIX = (
    "keep it a tensor: a tensor without dimensions works in arithmetic, and can be returned; "
    "for a size, tell its bounds: torch._check(n >= 1); torch._check(n <= 100)"
)
_SIZE_FIX = (
    "keep the size fixed: torch.where instead of a mask, torch.topk instead of nonzero; "
    "or tell its bounds: torch._check(n <= 100)"
)
_LOSS_FIX = "a loss belongs to training: return what it is computed from, and compute it around the model"
_COMBINATIONS_FIX = (
    "keep the pairs' places in a buffer, self.pairs = torch.combinations(torch.arange(n)), and return x[self.pairs]"
)
_STFT_FIX = (
    "compute it with torch.nn.functional.conv1d, whose weight is a windowed DFT basis in a buffer, or leave the length "
    "static"
)
_OTHER_WAY_FIX = "give the inputs that it then does without, such as an attention mask, or take the line out of forward"
_PYTHON_FIX = (
    "move it out of forward, into __init__ or into the code around the model, or write it with torch operators"
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
    errors: Sequence[Exception], source_root: Path, export_again: Callable[[], Any], asked: Sequence[Asked] = ()
) -> CaptureError:
    """torch.export failed: what it means, from the attempt that says most.

    Args:
        errors: Of non-strict capture, then of strict capture.
        source_root: Folder of the user's file.
        export_again: Repeats non-strict capture, for failures whose line only a second look shows.
        asked: What is dynamic.
    """
    lines = [line_of_error(error, source_root) for error in errors]
    if isinstance(refusal := errors[0], CaptureError):  # what follows forward knows better than torch
        refusal.where = refusal.where or (None if lines[0] is None else str(lines[0]))
        return refusal
    if _find_rule(errors[0]) is None and (mixed := explain_mixed_sizes(errors[0], asked)) is not None:
        line = next(filter(None, lines), None)
        what, why, fix = mixed
        return CaptureError(what, None if line is None else str(line), fix, why=why)
    if is_of_python(errors[0]) and "no exception handler" in str(errors[-1]):
        line = next(filter(None, lines), None)
        why = (
            f"{type(errors[0]).__name__}: {first_line(errors[0])}; in eager it runs, so the model goes another way "
            "while it is exported (torch.compiler.is_compiling() and the like)"
        )
        return CaptureError(
            "forward fails while it is traced", None if line is None else str(line), _OTHER_WAY_FIX, why=why
        )
    for error, own_line in zip(errors, lines, strict=True):
        rule = _find_rule(error)
        if rule is not None:
            line = next(filter(None, [own_line, *lines]), None)
            if rule.guard is not None:
                line = find_guard_line(export_again, rule.guard(str(error)), source_root) or line
            what, why, fix = rule.explain(error, line)
            if rule.explain is explain_data_dependence:
                # The user sees the call of their own, and which line of the library decides.
                inner = library_line_of_error(error, source_root)
                if inner is not None and line is not None and inner.place != line.place:
                    what, why, fix = rule.explain(error, inner)
                    why = f"{why}; it is at {inner}"
            return CaptureError(what, None if line is None else str(line), fix, why=why)
    line = next(filter(None, lines), None)
    return CaptureError(
        "torch.export cannot capture the model",
        None if line is None else str(line),
        _PYTHON_FIX,
        why=f"{type(errors[0]).__name__}: {first_line(errors[0])}",
    )


def is_of_python(error: Exception) -> bool:
    """Whether the model's own Python raised what export gave, and not torch."""
    return type(error) in (TypeError, AttributeError, KeyError, IndexError, NameError, UnboundLocalError)


def explain_strict(error: Exception, source_root: Path) -> str:
    """Why non-strict capture did not do, a phrase."""
    rule = _find_rule(error)
    line = line_of_error(error, source_root)
    what = first_line(error) if rule is None else rule.explain(error, line)[0]
    return what if line is None else f"{what} ({line.place})"


def _find_rule(error: Exception) -> _Rule | None:
    text = f"{type(error).__name__}: {error}"
    return next((rule for rule in _RULES if re.search(rule.pattern, text)), None)


def depends_on_data(error: Exception) -> bool:
    """Whether the values of a tensor decide what Python does, which torch.export cannot follow."""
    rule = _find_rule(error)
    return rule is not None and rule.explain is explain_data_dependence


def explain_data_dependence(error: Exception | None, line: UserLine | None) -> tuple[str, str, str]:
    """A Python decision or number that depends on the values of a tensor; the line's text tells which.

    Args:
        error: What torch.export raised; None where something else found the line.
        line: The user's line.

    Returns:
        What, why and fix.
    """
    text = line.text if line is not None else ""
    if re.match(r"(while|for)\b", text):
        why = "how often a loop runs depends on the values of a tensor, and an exported program has one path"
        return "data-dependent control flow", why, _EXPERTS_FIX if _loops_over_experts(error) else _LOOP_FIX
    if re.search(r"\.item\(|\.tolist\(|\b(int|float)\(", text):
        why = "a Python number is read out of a tensor, and what follows needs to know its value while tracing"
        return "a number depends on the data", why, _NUMBER_FIX
    if re.search(r"\bu\d+\b", str(error)) and re.search(r"Size-like symbols: u|\.shape|size\(|len\(", f"{error}{text}"):
        why = "a size depends on the values of a tensor (nonzero, unique, a boolean mask), and the code asks for it"
        return "a size depends on the data", why, _SIZE_FIX
    why = "a branch depends on the values of a tensor, and an exported program has one path"
    fix = _INSTALLED_FIX if line is not None and line.installed else _BRANCH_FIX
    return "data-dependent control flow", why, fix


def _loops_over_experts(error: Exception | None) -> bool:
    """Whether the line is in a layer of transformers that has several ways to compute experts, and was told to loop."""
    frames = [] if error is None else [frame for frame, _line in traceback.walk_tb(error.__traceback__)]
    owners: list[Any] = [frame.f_locals.get("self") for frame in frames]
    told = [owner.get_experts_implementation() for owner in owners if hasattr(owner, "get_experts_implementation")]
    return any("eager" in ways.values() for ways in told) and any(hasattr(owner, "is_transposed") for owner in owners)


def explain_missing_fake(operator: str) -> tuple[str, str, str]:
    """An operator of the user's that works on real tensors only: what, why and fix."""
    return (
        f"the operator {operator} has no fake kernel",
        "torch.export runs the model on tensors without values, and nothing says what shape and dtype it returns",
        f'register one: @torch.library.register_fake("{operator}"), a function that returns torch.empty_like(x), say',
    )


def _explain_no_fake(error: Exception, _line: UserLine | None) -> tuple[str, str, str]:
    found = re.search(r"\b(\w+)(?:::|\.)(\w+)", re.sub(r".*?(operator|for) ", "", first_line(error), count=1))
    return explain_missing_fake(f"{found[1]}::{found[2]}" if found else "of the model")


def _explain_unsupported(error: Exception, line: UserLine | None) -> tuple[str, str, str]:
    """Strict capture does not know some Python; its own explanation is the cause."""
    explanation = re.search(r"^\s*Explanation: (.+)$", str(error), re.MULTILINE)
    why = explanation[1] if explanation else first_line(error)
    fix = _PYTHON_FIX
    if line is not None and re.search(r"\b(np|numpy)\.", line.text):
        fix = "this NumPy function has no counterpart in torch.export; use torch's own function"
    return "torch.export cannot trace this Python", why.replace("Dynamo", "torch.export"), fix


def _explain_sizes_of_values(error: Exception, line: UserLine | None) -> tuple[str, str, str]:
    """An operator whose result is as large as values say, for which torch.export has no rule or no bound."""
    found = re.search(r"Operator `aten\.(\w+)", str(error))
    why = "how large a result is depends on the values of a tensor" + (f", in aten.{found[1]}" if found else "")
    if found and found[1].rstrip("_").endswith("loss"):
        return "a size depends on the data", why, _LOSS_FIX
    if line is not None and "combinations(" in line.text:
        return "a size depends on the data", why, _COMBINATIONS_FIX
    return "a size depends on the data", why, _SIZE_FIX


def _explain_returned_rows(_error: Exception, _line: UserLine | None) -> tuple[str, str, str]:
    return explain_rows("returns it, or its rows")


def _explain_data_pointer(_error: Exception, _line: UserLine | None) -> tuple[str, str, str]:
    why = "while tracing, tensors have no memory whose address could be taken"
    return "forward hands a tensor's memory to other code", why, _PYTHON_FIX


def _explain_dynamic_kwargs(_error: Exception, _line: UserLine | None) -> tuple[str, str, str]:
    why = "torch.export gives dynamic dimensions to named parameters only"
    return "an input in **kwargs cannot be dynamic", why, "name the parameter in forward's signature"


def _explain_shapes_mismatch(error: Exception, _line: UserLine | None) -> tuple[str, str, str]:
    fix = "dynamic_shapes has the structure of the inputs: a dict by parameter name, {axis: Dim(...)} for each tensor"
    return "dynamic_shapes does not fit the inputs", first_line(error), fix


def _explain_specialized(error: Exception, line: UserLine | None) -> tuple[str, str, str]:
    found = re.search(
        r"You marked (.+?) as dynamic but your code specialized it to be a constant \((\d+)\)", str(error)
    )
    name, size = (_in_user_words(found[1]), found[2]) if found else ("a dimension", "one size")
    why = f"the model works with size {size} only: it mixes this dimension with one of a fixed size"
    if line is not None and re.match(r"(for|while)\b|.*\brange\(", line.text):
        why = f"a loop runs over it, and torch.export writes out its {size} steps: an exported program has no loop"
    fix = f"take sizes from the input (x.shape[0]) instead of the number {size}, or leave the dimension static"
    if size in ("0", "1"):
        fix = f"give example inputs in which it is not {size}; " + fix
    return f"{name} cannot be dynamic", why, fix


def _explain_range(error: Exception, line: UserLine | None) -> tuple[str, str, str]:
    text = str(error)
    guards = re.findall(r"Not all values of (\S+) .*?satisfy the generated guard (.+)", text)
    name = guards[0][0] if guards else "a dimension"
    # `1 % frames != 0` is how the trace of torch.stft asks for more than one frame; of a bounded range it is known.
    if guards and (re.match(r"\(*1 % .+ != 0", guards[0][1]) or (line is not None and "stft(" in line.text)):
        why = "torch.export captures torch.stft at a dynamic length only where a largest one is given, below a million"
        return f"{_in_user_words(name)} cannot be dynamic", why, _STFT_FIX
    suggested = re.search(r"Suggested fixes:\n((?:  .+\n?)+)", text)
    fix = "choose a range in which that holds"
    if guards and re.search(r" != [01]\.?$", guards[0][1]):
        fix = (
            "let nothing become a single element: torch.cat([a, x], 1)[:, :-1] for torch.cat([a, x[:, :-1]], 1); or "
            + fix
        )
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
    _Rule(r"UnsupportedOperatorException|no fake impl", _explain_no_fake),
    _Rule(r"Pending unbacked symbols|supports dynamic output shapes", _explain_sizes_of_values),
    _Rule(r"data-dependent|Data-dependent|DataDependent", explain_data_dependence),
    _Rule(r"packing\._Rows", _explain_returned_rows),
    _Rule(r"Cannot access data pointer", _explain_data_pointer),
    _Rule(r"Unsupported:", _explain_unsupported),
)  # fmt: skip
