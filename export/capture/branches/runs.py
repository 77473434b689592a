"""Eager runs that a search for branches compares: with answers of its own to what Python asks, on varied inputs."""

from __future__ import annotations

import contextlib
import dis
import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from edgex.delegates.graph.torch_internals import pytree
from edgex.export.capture.branches.deciding import AllPlaces, Listening, Site
from edgex.export.capture.python_state.trace_guard import values_kept
from edgex.export.source.eager import BufferSnapshot, reference_conditions
from edgex.runtime.session.numerics import measure_sqnr_db

# The same numbers from operators in another order differ by less.
_LEAST_SQNR_DB = 90.0
_FAR = 1000.0
# Of more inputs than these only the first are changed one by one.
_MOST_INPUTS = 4

# Arguments by position, by name.
Call = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Run:
    """What forward gave.

    Attributes:
        outputs: Its tensors; None where it raised.
        said: What tensors said, by site, whatever was answered.
        constant: Sites whose truths no input changes.
        operators: How many functions of torch were called.
        refused_by: Sites of a check, `if x.max() > 1: raise`, where forward raised behind it.
        hits: As `Listening` has it.
    """

    outputs: list[torch.Tensor] | None
    said: Mapping[Site, list[Any]] = field(default_factory=dict)
    constant: Collection[Site] = ()
    operators: int = 0
    refused_by: Collection[Site] = ()
    hits: Mapping[Site, bool] = field(default_factory=dict)


def run_plain(module: torch.nn.Module, call: Call) -> Run:
    """Run forward once as it is; else as `run_listening`."""
    outputs, _ = _run(module, call)
    return Run(outputs)


def run_listening(
    module: torch.nn.Module,
    call: Call,
    settled: Mapping[Site, bool],
    state: Collection[str],
    *,
    lazy_items: bool,
    most_answers: float = math.inf,
    whole: Collection[Site] = (),
) -> Run:
    """Run forward once from the buffers as they are, and put back what it changes.

    Args:
        module: The model.
        call: The arguments; they are not written to.
        settled: Sites whose truths are always these.
        state: Names of buffers that forward writes to.
        lazy_items: As `Listening` has it.
        most_answers: As `Listening` has it.
        whole: Sites of `nonzero` that give all places.
    """
    buffers = [tensor for name, tensor in module.named_buffers(remove_duplicate=False) if name in state]
    call = _copied(call)
    listening = Listening(settled, [*_tensors(call), *buffers], lazy_items=lazy_items, most_answers=most_answers)
    outputs, error = _run(module, call, listening, AllPlaces(whole))
    check = [] if error is None else _sites_of_check(error.__traceback__, listening.truths)
    constant = [site for site, free in listening.constant.items() if free]
    return Run(outputs, listening.said, constant, listening.operators, check, listening.hits)


def _run(
    module: torch.nn.Module, call: Call, *modes: TorchFunctionMode
) -> tuple[list[torch.Tensor] | None, Exception | None]:
    """Outputs, or what forward raises; within modes, the first of them outermost."""
    args, kwargs = call if modes else _copied(call)
    buffers = BufferSnapshot(module)
    try:
        with values_kept(module), reference_conditions():
            with contextlib.ExitStack() as stack:
                for mode in modes:
                    stack.enter_context(mode)
                output = module(*args, **kwargs)
            return [tensor.detach().clone() for tensor in _tensors(output)], None
    except Exception as error:
        return None, error
    finally:
        buffers.restore()


def _copied(call: Call) -> Call:
    return _changed(call, torch.clone)


def _tensors(values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _sites_of_check(trace: TracebackType | None, truths: Sequence[Site]) -> list[Site]:
    """The truths that a function asked for last, and then ended the run by a `raise` or `assert` of its own."""
    if trace is None:
        return []
    while trace.tb_next is not None:
        trace = trace.tb_next
    code, at = trace.tb_frame.f_code, trace.tb_lasti
    if not any(one.offset == at and one.opname == "RAISE_VARARGS" for one in dis.get_instructions(code)):
        return []
    function = code.co_filename, code.co_qualname
    return list(itertools.takewhile(lambda site: (site.file, site.function) == function, reversed(truths)))


def alike(expected: Run, found: Run) -> bool:
    """Whether two runs gave the same but for rounding."""
    one, other = expected.outputs, found.outputs
    if one is None or other is None or len(one) != len(other):
        return False
    return all(map(_same, one, other))


def _same(expected: torch.Tensor, found: torch.Tensor) -> bool:
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return False
    if torch.equal(expected, found) or not expected.numel():
        return True
    if not expected.is_floating_point() or not torch.equal(expected.isfinite(), found.isfinite()):
        return False
    one, other = (torch.nan_to_num(part.float(), 0.0, 0.0, 0.0).numpy() for part in (expected, found))
    return bool(one.any()) and measure_sqnr_db(one, other) >= _LEAST_SQNR_DB


def vary_call(call: Call) -> Iterator[Call]:
    """Calls with other values of the same shapes and dtypes: mirrored, far, and each input filled in part and whole."""
    yield _changed(call, lambda tensor: tensor.flip(tuple(range(tensor.dim()))))
    yield _changed(call, lambda tensor: tensor * _FAR if tensor.is_floating_point() else tensor)
    yield _changed(call, lambda tensor: -tensor if tensor.is_floating_point() else tensor)
    tensors = [tensor for tensor in _tensors(call) if tensor.numel()]
    for one in tensors[:_MOST_INPUTS]:
        if one.is_floating_point() or one.is_complex():
            yield _changed(call, lambda tensor, one=one: torch.zeros_like(tensor) if tensor is one else tensor)
            continue
        for value in (one.min().item(), one.max().item()):  # 0 and 1 of a mask, a padding token and a word
            for fill in (_with_tail, torch.full_like):
                yield _changed(
                    call,
                    lambda tensor, one=one, value=value, fill=fill: fill(tensor, value) if tensor is one else tensor,
                )


def _changed(call: Call, change: Any) -> Call:
    changed: Call = pytree.tree_map_only(torch.Tensor, change, call)
    return changed


def _with_tail(tensor: torch.Tensor, value: Any) -> torch.Tensor:
    """The last quarter of the last dimension, at least one place, filled: as padding fills it."""
    if not tensor.dim():
        return torch.full_like(tensor, value)
    size = tensor.shape[-1]
    changed = tensor.clone()
    changed[..., size - max(size // 4, 1) :] = value
    return changed
