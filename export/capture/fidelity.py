"""A captured program must give what the model gives on its example, before anything slow is made of it.

torch.export follows one path through forward, and code that asks whether it is traced
(`torch.compiler.is_exporting()`, `torch.jit.is_tracing()`, transformers' `is_tracing`) may take another one than a run
does. No target can correct that, and a bisection would blame operators that are right.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Interpreter, Node

from edgex.delegates.graph.provenance import module_path_of, source_of
from edgex.errors import CaptureError
from edgex.export.source.eager import BufferSnapshot, reference_conditions
from edgex.runtime.session.numerics import measure_sqnr_db

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from edgex.export.source.eager import EagerModel

LOG = logging.getLogger("edgex.capture")
# The same operators in the same precision differ by their rounding at most, in bfloat16 too; another path by all.
_LEAST_SQNR_DB = 20.0


def check_gives_eager(program: ExportedProgram, eager: EagerModel, source_root: Path) -> None:
    """Run the program on the example, from the initial state.

    Args:
        program: Takes and gives tensors alone.
        eager: The model; its buffers are the initial ones afterwards.
        source_root: Folder of the user's file.

    Raises:
        CaptureError: It gives other numbers, and the model the same at every run; names the first module that differs.
    """
    module = program.module()
    buffers = BufferSnapshot(module)
    try:
        found = _run(module, eager.example)
        if found is None or _alike(found, eager.example_outputs):
            return
        eager.reset()
        if not _alike(eager.run(eager.example), eager.example_outputs):
            return  # a model whose outputs differ from run to run is refused later, with its random operator
        buffers.restore()
        at = _first_difference(module, eager, source_root)
    finally:
        buffers.restore()
        eager.reset()
    raise CaptureError(
        "the captured program does not give what the model gives on its example inputs",
        where=at[1],
        why=f"forward takes another path while torch.export traces it: {at[0]}",
        fix="look there for what asks whether the model is traced (torch.compiler.is_compiling or is_exporting, "
        "torch.jit.is_tracing), and give the inputs that decide the path both times, an attention_mask for one",
    )


def _run(module: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> Sequence[torch.Tensor] | None:
    """The outputs; None where the program does not run in PyTorch as it is, which lowering explains better."""
    try:
        with reference_conditions():
            found: Sequence[torch.Tensor] = module(*[tensor.clone() for tensor in inputs])
    except Exception:
        LOG.debug("the captured program does not run", exc_info=True)
        return None
    return found


def _alike(found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> bool:
    return all(_is_close(a, b) for a, b in zip(found, expected, strict=True))


def _is_close(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether it may be rounding; integers may be places of equal numbers, and are left to the proof."""
    if found.shape != expected.shape or not expected.is_floating_point() or not expected.numel():
        return found.shape == expected.shape
    reference, actual = (torch.nan_to_num(one.detach().float()).cpu().numpy() for one in (expected, found))
    return not reference.any() or measure_sqnr_db(reference, actual) >= _LEAST_SQNR_DB


def _first_difference(module: torch.nn.Module, eager: EagerModel, source_root: Path) -> tuple[str, str | None]:
    """Which module of the model is the first whose output differs, and the line of the operator that makes it."""
    expected: dict[str, torch.Tensor] = {}

    def keep(path: str) -> Any:
        def hook(_module: torch.nn.Module, _inputs: Any, output: Any) -> None:
            if isinstance(output, torch.Tensor):
                expected.setdefault(path, output.detach().clone())

        return hook

    parts = eager.module.named_modules() if isinstance(eager.module, torch.nn.Module) else ()
    hooks = [part.register_forward_hook(keep(path)) for path, part in parts if path]
    try:
        eager.reset()
        eager.run(eager.example)
    finally:
        for one in hooks:
            one.remove()
    last = _Recorder(module).outputs_of_modules([tensor.clone() for tensor in eager.example])
    for path, (value, node) in last.items():
        if path in expected and not (value.shape == expected[path].shape and _is_close(value, expected[path])):
            return f"the first module with another output is {path}", source_of(node, source_root)
    return "it differs behind the last module", None


class _Recorder(Interpreter):
    """Runs a program and keeps the last value of each module's first call."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self._last: dict[str, tuple[torch.Tensor, Node]] = {}
        self._left: set[str] = set()
        self._current: str | None = None

    def outputs_of_modules(self, inputs: Sequence[torch.Tensor]) -> dict[str, tuple[torch.Tensor, Node]]:
        """By the module's path, in the order of the program."""
        with reference_conditions():
            self.run(*inputs)
        return self._last

    def run_node(self, n: Node) -> Any:
        """As the interpreter's own, beside which the value is kept."""
        value = super().run_node(n)
        path = module_path_of(n) if n.op == "call_function" else None
        if path != self._current:
            if self._current is not None:
                self._left.add(self._current)
            self._current = path
        if path and path not in self._left and isinstance(value, torch.Tensor):
            self._last[path] = (value.detach().clone(), n)
        return value
