"""What capture needs of private parts of torch: sizes, writes, modules' tensors, stack traces, packed sequences."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram


def bounds_of(expression: Any, ranges: Mapping[Any, Any], least: Mapping[Any, int]) -> tuple[int, int | None]:
    """The smallest and largest value of a symbolic size.

    Args:
        expression: A SymPy expression.
        ranges: An ExportedProgram's `range_constraints`.
        least: For some symbols a lower bound that counts where the range starts below.

    Returns:
        None for the largest where there is no bound.
    """
    import sympy  # type: ignore[import-untyped]
    from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

    known = {
        symbol: ValueRanges(max(least.get(symbol, ranges[symbol].lower), ranges[symbol].lower), ranges[symbol].upper)
        for symbol in expression.free_symbols
        if symbol in ranges
    }
    found = bound_sympy(expression, known)
    low, high = (int(b) if isinstance(b, (int, sympy.Integer)) else None for b in (found.lower, found.upper))
    return (0 if low is None else low), high


def whole_solutions(expression: str, variable: str, value: int, numbers: range) -> list[int] | None:
    """The numbers for which a size that torch.export wrote down has a value.

    Args:
        expression: For example `(1 + (((-1) + L['x'].size()[2]) // 2))`.
        variable: The size that may vary, as it stands in the expression.
        value: Of the expression.
        numbers: Which are tried.

    Returns:
        None where the expression has another form.
    """
    import sympy

    written = expression.replace(variable, "size")
    if not re.fullmatch(r"(?:size|\d+|//|[-+*%() ])+", written):
        return None
    size = sympy.Symbol("size", integer=True, positive=True)
    computed = sympy.lambdify([size], sympy.sympify(written, {"size": size}), "math")
    try:
        return [number for number in numbers if computed(number) == value]
    except ArithmeticError:  # a division by nothing
        return None


@contextlib.contextmanager
def single_sizes_kept() -> Iterator[None]:
    """Within it, torch.export makes no condition of it that what it computes of a size, `n - 1`, is not 0 or 1."""
    import sympy
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    produce: Any = ShapeEnv.produce_guards_verbose

    def leaves_out(guard: Any) -> bool:
        found = guard.expr
        return isinstance(found, sympy.Ne) and found.rhs in (0, 1) and not isinstance(found.lhs, sympy.Symbol)

    def produce_others(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.guards = [guard for guard in self.guards if not leaves_out(guard)]
        return produce(self, *args, **kwargs)

    ShapeEnv.produce_guards_verbose = produce_others  # type: ignore[method-assign]
    try:
        yield
    finally:
        ShapeEnv.produce_guards_verbose = produce  # type: ignore[method-assign]


def is_plain_symbol(name: str) -> bool:
    """Whether SymPy takes a name for a symbol; N, E and pi are its own."""
    import sympy

    return isinstance(sympy.sympify(name), sympy.Symbol)


def guards_of(program: ExportedProgram) -> list[str]:
    """What the program demands of its inputs, as Python code."""
    return list(program._guards_code)


def writes_to(tensor: torch.Tensor) -> int:
    """How often a tensor was written to, also through views."""
    return int(tensor._version)


def uncompiled(module: torch.nn.Module) -> torch.nn.Module:
    """The module that `torch.compile` wrapped, or the module itself."""
    found: torch.nn.Module = getattr(module, "_orig_mod", module)
    return found


def tensor_stores(module: torch.nn.Module) -> list[dict[str, Any]]:
    """The dictionaries in which a module, without its submodules, keeps parameters, buffers and plain attributes."""
    return [module._parameters, module._buffers, vars(module)]


@contextlib.contextmanager
def without_tracing() -> Iterator[None]:
    """Compute on real tensors in the middle of a trace: no operator of the block is seen by torch.export."""
    import torch
    from torch._C import DisableTorchFunction
    from torch.utils._python_dispatch import _disable_current_modes

    with DisableTorchFunction(), _disable_current_modes(), torch.no_grad():
        yield


@contextlib.contextmanager
def traced_unseen(module: torch.nn.Module) -> Iterator[None]:
    """Let `torch.compiler.is_compiling()` and `is_exporting()` be false inside forward, as they are in eager.

    Args:
        module: What is traced, without torch.compile: its forward is where they are false.
    """
    import torch

    compiler = torch.compiler
    before: list[tuple[bool, bool]] = []

    def enter(*_: object) -> None:
        before.append((compiler._is_compiling_flag, compiler._is_exporting_flag))
        compiler._is_compiling_flag = compiler._is_exporting_flag = False

    def leave(*_: object) -> None:
        compiler._is_compiling_flag, compiler._is_exporting_flag = before.pop()

    hooks = (module.register_forward_pre_hook(enter), module.register_forward_hook(leave, always_call=True))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextlib.contextmanager
def helpers_traced() -> Iterator[None]:
    """Give operators the whole way from `forward` to where they are called, helper functions and methods included.

    torch.export keeps frames named `forward` alone: an operator in `self.heads(x)` would have the line of that call.
    """
    import traceback
    from pathlib import Path

    from torch.fx.proxy import TracerBase

    from edgex.export.source.user_code.user_line import is_installed, is_machinery

    filter_frames = TracerBase._filter_traceback_frames

    def keep_frames(_tracer: TracerBase, summary: traceback.StackSummary) -> traceback.StackSummary:
        kept: list[traceback.FrameSummary] = []
        module_file = None  # of the innermost module so far
        for frame in summary:
            if frame.name == "forward":
                module_file = frame.filename
            elif module_file is None or (frame.filename != module_file and is_installed(Path(frame.filename))):
                continue  # the user looks at the call of a library's function, not into it
            if not is_machinery(frame.filename):
                kept.append(frame)
        return traceback.StackSummary.from_list(kept)

    TracerBase._filter_traceback_frames = keep_frames  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        TracerBase._filter_traceback_frames = filter_frames  # type: ignore[method-assign]


def distributions_checked() -> bool:
    """Whether `torch.distributions` checks values by default; there is only a function that sets it."""
    import torch

    return bool(torch.distributions.Distribution._validate_args)


def packs(function: object) -> bool:
    """Whether it is what `pack_padded_sequence` calls, with the padded data, the lengths and `batch_first`."""
    import torch

    return function is torch._VF._pack_padded_sequence


def pads(function: object) -> bool:
    """Whether it is what `pad_packed_sequence` calls: with data, batch sizes, `batch_first`, value and total length."""
    import torch

    return function is torch._VF._pad_packed_sequence


def size_between(size: int, least: int, most: int) -> int:
    """A size that a run finds, with its bounds."""
    import torch

    torch._check(size >= least)  # type: ignore[no-untyped-call]
    torch._check(size <= most)  # type: ignore[no-untyped-call]
    return size
