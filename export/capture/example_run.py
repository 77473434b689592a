"""Run eager once on the example inputs: the reference, and a clear error before torch.export has one of its own."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from edgex.delegates.graph.torch_internals import pytree
from edgex.errors import CaptureError
from edgex.export.capture.diagnosis import causes as diagnosis
from edgex.export.capture.diagnosis.random_operators import find_draws, refusals_of
from edgex.export.capture.python_state.filled_buffers import fill_buffers
from edgex.export.capture.python_state.independence import find_dependence
from edgex.export.capture.python_state.side_effects import Change, PythonState
from edgex.export.capture.python_state.trace_guard import values_kept
from edgex.export.capture.python_state.weight_writes import WeightWatch, are_settled
from edgex.export.source.eager import BufferSnapshot, reference_conditions
from edgex.export.source.leaves import (
    Leaf,
    in_signature_order,
    name_inputs,
    name_outputs,
    name_positional,
    register_dataclasses,
)
from edgex.export.source.weights import check_dense, check_on_cpu, shorten

# How often a model that draws random numbers is run once more before its outputs count as free of them.
_RANDOM_RUNS = 3

_FUSED_DIFFERS = (
    "nn.TransformerEncoder's fused path gives other values in eager, 0 at padding for one; the artifact, and the eager "
    "model that it is compared with, take the ordinary path"
)


@dataclass(frozen=True)
class ExampleRun:
    """The model with its example call, run once.

    Attributes:
        module: What eager runs.
        args: By position, tensors contiguous and each its own.
        kwargs: By name, in the order of forward's signature.
        inputs: All leaves, constants too.
        outputs: All leaves of what it returned, None too.
        output: What it returned, from the initial state.
        buffers: Their initial values, in place again.
        touched: Buffers that the run wrote to or replaced: all names of each, by the first one.
        notices: What the user should know, a sentence each.
        counted: Names of Python values that every run changes, and on which no output was found to depend.
        settled: Names of parameters and buffers that every run writes to, and leaves as it finds them.
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
    counted: tuple[str, ...] = ()
    settled: tuple[str, ...] = ()


def run_example(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    source_root: Path,
    positional: Sequence[str] | None = None,
) -> ExampleRun:
    """Run eager on the example inputs and put its state back.

    Args:
        module: In eval mode.
        args: Example inputs by position.
        kwargs: Example inputs by name.
        source_root: Folder of the user's file.
        positional: Names of the positional arguments, where forward's signature does not tell them.

    Raises:
        CaptureError: The model raises on its own example inputs, returns something else than tensors, or keeps
            state outside of buffers.
    """
    args, kwargs, inputs = _read_call(module, args, kwargs, positional)
    check_on_cpu(module, (args, kwargs))
    check_dense(module, (args, kwargs))

    def call(turned: bool = False, fast_attention: bool = False) -> Any:
        # On copies: the example stays as it is where forward writes to its inputs. Turned: last element first.
        copy = (lambda tensor: tensor.flip(tuple(range(tensor.dim())))) if turned else torch.clone
        own_args, own_kwargs = pytree.tree_map_only(torch.Tensor, copy, (args, kwargs))
        try:
            with reference_conditions(fast_attention=fast_attention):
                output = module(*own_args, **own_kwargs)
        except Exception as error:
            words = diagnosis.describe_call(args, kwargs)
            raise diagnosis.explain_eager_failure(error, words, source_root) from error
        register_dataclasses(output)
        # Copies again: a buffer that is returned changes when the state is put back.
        return pytree.tree_map_only(torch.Tensor, torch.clone, output)

    buffers, python = BufferSnapshot(module), PythonState(module)
    with WeightWatch(module) as watch:
        output = call()
    once = watch.written()
    settled: tuple[str, ...] = ()
    if once:
        # What a run leaves as it finds it the artifact has as runs leave it. Written once is an initialization that the
        # first run makes up for.
        buffers.forget(once)

        def run(turned: bool) -> Any:
            buffers.restore()
            return call(turned)

        fixed = are_settled(module, once, run)
        buffers.restore()
        with WeightWatch(module) as watch:
            output = call()
        settled = tuple(watch.written()) if fixed else ()
    blockers = [
        diagnosis.explain_changed_parameter(name, module, source_root)
        for name in watch.changed()
        if name not in settled
    ]
    replaced = [name for name, _ in module.named_buffers() if name in watch.written() and name not in settled]
    replaced += buffers.replaced_data()
    blockers += [diagnosis.explain_replaced_data(name, module, source_root) for name in replaced]
    blockers += diagnosis.find_bad_outputs(name_outputs(output), module, source_root)
    if blockers:
        raise blockers[0].with_others(blockers[1:])
    touched = buffers.touched()
    notices: list[str] = []
    if settled:
        notices.append(
            f"forward sets {shorten(list(settled))} from weights alone; the artifact has the values that it sets"
        )
    elif once:
        notices.append(f"the first run changes the weights {shorten(once)}; the artifact has them as it leaves them")
    given = output
    if touched and (filled := fill_buffers(module, buffers, touched, call, lambda found: _close(given, found))):
        listed = shorten(list(filled))
        notices.append(f"forward fills {listed}, the same at every run; the artifact has it filled")
        touched = {name: names for name, names in touched.items() if name not in filled}
        buffers = BufferSnapshot(module)
    if any(isinstance(part, torch.nn.TransformerEncoderLayer) for part in module.modules()):
        with contextlib.suppress(CaptureError):  # it need not take these inputs; the artifact does without it
            if not _close(output, call(fast_attention=True)):
                notices.append(_FUSED_DIFFERS)
        buffers.restore()
    counted: tuple[str, ...] = ()
    if once := {(change.kind, change.name): change for change in python.changes()}:
        # Once is a cache that the first run fills. Twice is a change with every run.
        python = PythonState(module)
        first, output = output, call()
        changes = python.changes()
        if touched:
            buffers.restore()
        if matter := _changes_that_matter(module, changes, [first, output], call, buffers if touched else None):
            told = [once.get((change.kind, change.name), change) for change in matter]
            drawn = any(change.kind == "random" and change.name == "torch" for change in told)
            blockers = refusals_of(find_draws(call, source_root)) if drawn else []
            told = [change for change in told if not blockers or (change.kind, change.name) != ("random", "torch")]
            blockers += [diagnosis.explain_change(change, source_root) for change in told]
            raise blockers[0].with_others(blockers[1:])
        counted = tuple(change.name for change in changes if not change.rebound and change.kind != "random")
        # Where the user's own code does it; torch's weight_norm does it too.
        if kept := [change.name for change in changes if change.place is not None and change.kind != "random"]:
            notices.append(f"forward also sets {shorten(kept)}; the artifact does not")
    return ExampleRun(
        module, args, kwargs, inputs, name_outputs(output), output, buffers, touched, tuple(notices), counted, settled
    )


def _changes_that_matter(
    module: torch.nn.Module,
    changes: Sequence[Change],
    outputs: Sequence[Any],
    call: Callable[[], Any],
    buffers: BufferSnapshot | None,
) -> list[Change]:
    """Of what every run changes in Python, all on which an output may depend.

    Args:
        module: After two runs.
        changes: What the second run changed.
        outputs: What each of the two returned, from the initial buffers.
        call: Runs the module once more.
        buffers: Their initial values, where a run changes any.
    """
    if any(change.kind == "random" for change in changes):
        # Few elements may be dropped alike twice.
        outputs = [*outputs, *(call() for _ in range(_RANDOM_RUNS))]
        if buffers is not None:
            buffers.restore()
    if not all(_equal(outputs[0], output) for output in outputs[1:]):
        return list(changes)
    counted = [change for change in changes if not change.rebound and change.kind != "random"]
    if not counted:
        return []  # keeping an intermediate tensor to look at it later harms nothing

    def run() -> list[Any]:
        if buffers is None:
            return [call()]
        buffers.restore()
        steps = [call(), call()]  # a second step shows what the first one left in the buffers
        buffers.restore()
        return steps

    with values_kept(module):
        expected = run()
        found = find_dependence(module, counted, lambda: _equal(expected, run()))
    return [] if found is None else [found]


def describe_example(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], positional: Sequence[str] | None = None
) -> ExampleRun:
    """The same without running anything: nothing is known of outputs and of what a run changes.

    For models whose weights are fake tensors.

    Raises:
        CaptureError: An example input is neither a tensor nor a constant.
    """
    args, kwargs, inputs = _read_call(module, args, kwargs, positional)
    return ExampleRun(module, args, kwargs, inputs, (), None, BufferSnapshot(torch.nn.Module()), {})


def _read_call(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], positional: Sequence[str] | None
) -> tuple[tuple[Any, ...], dict[str, Any], tuple[Leaf, ...]]:
    """The call's arguments in plain form, and their leaves with names."""
    signature = inspect.signature(module.forward)
    kwargs = in_signature_order(signature, kwargs)
    register_dataclasses((args, kwargs))
    args, kwargs = _in_plain_form(args, kwargs)
    inputs = name_inputs(positional or name_positional(signature, len(args)), args, kwargs)
    diagnosis.check_inputs(inputs)
    return args, kwargs, inputs


def _in_plain_form(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Detached, contiguous tensors, each its own.

    Sessions hand over contiguous inputs, so that a program must not be traced for another memory order; and
    torch.export merges two inputs that are the same tensor. NumPy's `array[None]` has a stride of 0, which counts as
    contiguous and which ExecuTorch refuses.
    """
    seen: set[int] = set()

    def plain(tensor: torch.Tensor) -> torch.Tensor:
        result = tensor.detach().contiguous() if tensor.layout == torch.strided else tensor
        if tensor.layout == torch.strided and 0 in result.stride():
            result = result.clone(memory_format=torch.contiguous_format)
        if id(tensor) in seen:
            return result.clone()
        seen.add(id(tensor))
        return result

    found: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_map_only(torch.Tensor, plain, (args, kwargs))
    return found


def _equal(first: Any, second: Any) -> bool:
    """Whether two results are the same to the bit, NaN included."""
    one, other = pytree.tree_leaves(first), pytree.tree_leaves(second)
    return len(one) == len(other) and all(
        a.shape == b.shape and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
        for a, b in zip(one, other, strict=True)
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
    )


def _close(first: Any, second: Any) -> bool:
    """Whether two results differ by rounding alone."""
    one, other = pytree.tree_leaves(first), pytree.tree_leaves(second)
    return len(one) == len(other) and all(
        a.shape == b.shape and torch.allclose(a.double(), b.double(), rtol=1e-3, atol=1e-4, equal_nan=True)
        for a, b in zip(one, other, strict=True)
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and not a.is_complex()
    )
