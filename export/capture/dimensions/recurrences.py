"""Recurrences over a dynamic dimension: torch.export unrolls them, one copy of the operators for every step.

A program for every length would need a loop, which it has no form for; torch.export finds that out only after it has
traced all steps, which takes minutes for a long sequence. So the model is run with two sizes first: a recurrent layer
that sees two lengths, or a module that is called more often, is such a loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.utils.rnn import PackedSequence

from edgex.errors import CaptureError
from edgex.export.capture.python_state.trace_guard import values_kept
from edgex.export.source.eager import BufferSnapshot, reference_conditions
from edgex.export.source.user_code.code_search import file_of, find_call
from edgex.export.source.user_code.user_line import line_at

if TYPE_CHECKING:
    from edgex.export.capture.dimensions.dynamic import Asked

_Call = tuple[tuple[Any, ...], dict[str, Any]]

# How often each module is called, and how many steps each recurrent layer takes.
_Seen = Mapping[str, tuple[int, tuple[int, ...]]]


def check_recurrences(
    module: torch.nn.Module, calls: Sequence[_Call], asked: Sequence[Asked], source_root: Path
) -> None:
    """Refuse a recurrence whose length a dynamic dimension decides, before it is traced.

    Args:
        module: In eval mode; its buffers and Python values are as before afterwards.
        calls: Two calls that differ in the sizes of the dynamic dimensions.
        asked: What is dynamic.
        source_root: Folder of the user's file.

    Raises:
        CaptureError: It names the layer, and what works.
    """
    if not any(isinstance(part, (torch.nn.RNNBase, torch.nn.RNNCellBase)) for part in module.modules()):
        return
    one, other = (_watch(module, call) for call in calls)
    if one is None or other is None:
        return  # the model does not run with the other size: torch.export says more of it
    for name in one:
        if name in other and one[name] != other[name]:
            part = module.get_submodule(name)
            raise _explain(name, part, module, one[name], other[name], asked, source_root)


def _watch(module: torch.nn.Module, call: _Call) -> _Seen | None:
    calls: Counter[str] = Counter()
    steps: dict[str, list[int]] = {}

    def note(name: str) -> Callable[..., None]:
        def hook(part: torch.nn.Module, inputs: tuple[Any, ...]) -> None:
            calls[name] += 1
            given = inputs[0] if isinstance(part, torch.nn.RNNBase) and inputs else None
            if isinstance(given, PackedSequence):
                steps.setdefault(name, []).append(given.batch_sizes.shape[0])
            elif isinstance(given, torch.Tensor):
                steps.setdefault(name, []).append(given.shape[1 if part.batch_first and given.dim() == 3 else 0])

        return hook

    handles = [part.register_forward_pre_hook(note(name)) for name, part in module.named_modules()]
    buffers = BufferSnapshot(module)
    try:
        with values_kept(module), reference_conditions():
            module(*call[0], **call[1])
    except Exception:  # the user's code on sizes of our own
        return None
    finally:
        buffers.restore()
        for handle in handles:
            handle.remove()
    return {name: (count, tuple(steps.get(name, ()))) for name, count in calls.items()}


def _explain(
    name: str,
    part: torch.nn.Module,
    module: torch.nn.Module,
    one: tuple[int, tuple[int, ...]],
    other: tuple[int, tuple[int, ...]],
    asked: Sequence[Asked],
    source_root: Path,
) -> CaptureError:
    kind = type(part).__name__
    owner, _, attribute = name.rpartition(".")
    home = file_of(type(module.get_submodule(owner)))
    place = find_call(home, (f"self.{attribute}",))
    flags = " ".join(f"--dynamic {item.input}:{item.axis}" for item in asked)
    first, second = (one[1], other[1]) if one[0] == other[0] else ((one[0],), (other[0],))
    steps = f"{max(first)} steps with one size and {max(second)} with another"
    return CaptureError(
        f"the {kind} {name} runs over a dynamic dimension, and an exported program has no loop",
        None if place is None else str(line_at(place.file, place.line, source_root)),
        f"export for one length (leave {flags} out) and pad shorter inputs to it; or export one step, with the hidden "
        "state as an input and an output, and loop outside; a dynamic batch works",
        why=f"torch.export writes every step out: {steps}",
    )
