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
from edgex.export.capture.diagnosis.random_operators import Draw, find_draws, may_draw, refusals_of
from edgex.export.source.eager import BufferSnapshot, reference_conditions
from edgex.runtime.session.numerics import measure_sqnr_db

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from edgex.export.source.eager import EagerModel

LOG = logging.getLogger("edgex.capture")
# The same operators in the same precision differ by their rounding at most, in bfloat16 too; another path by all.
_LEAST_SQNR_DB = 20.0
# Below it, it is worth asking eager twice: threads that add in another order differ by less.
_SURE_SQNR_DB = 60.0
# How often a model that draws random numbers is run once more before its outputs count as free of them.
_RANDOM_RUNS = 3


class OtherPathError(CaptureError):
    """The captured program gives other numbers than the model, which gives the same in every run."""


def check_draws_nothing(program: ExportedProgram, eager: EagerModel, source_root: Path) -> None:
    """Refuse random numbers that capture did not see in torch's own generator.

    Args:
        program: Takes and gives tensors alone.
        eager: The model; its buffers are the initial ones afterwards.
        source_root: Folder of the user's file.

    Raises:
        CaptureError: Eager draws numbers on which outputs depend, or the same ones at every run.
    """
    if not may_draw(program):
        return
    try:
        draws, *others = (_draws_of(eager, source_root) for _ in range(_RANDOM_RUNS))
        if not draws:
            return
        again = [_outputs_of(eager) for _ in range(_RANDOM_RUNS)]
    finally:
        eager.reset()
    if not all(_alike(outputs, eager.example_outputs, _SURE_SQNR_DB, exact=True) for outputs in again):
        first, *rest = refusals_of(draws)
        raise first.with_others(rest)
    values = [draw.value for draw in draws]
    if all([draw.value for draw in other] == values for other in others):
        raise draws[0].explain_repeated()


def _draws_of(eager: EagerModel, source_root: Path) -> tuple[Draw, ...]:
    eager.reset()
    return find_draws(lambda: eager.run(eager.example), source_root)


def _outputs_of(eager: EagerModel) -> list[torch.Tensor]:
    eager.reset()
    return eager.run(eager.example)


def check_gives_eager(program: ExportedProgram, eager: EagerModel, source_root: Path) -> None:
    """Run the program on the example, from the initial state.

    Args:
        program: Takes and gives tensors alone.
        eager: The model; its buffers are the initial ones afterwards.
        source_root: Folder of the user's file.

    Raises:
        OtherPathError: It gives other numbers; names the first module that differs.
        CaptureError: The model itself gives others at every run.
    """
    module = program.module()
    buffers = BufferSnapshot(module)
    try:
        found = _run(module, eager.example)
        if found is None or _alike(found, eager.example_outputs, _SURE_SQNR_DB):
            return
        if not _alike(_outputs_of(eager), eager.example_outputs, _SURE_SQNR_DB):
            raise _unsteady(eager)
        if _alike(found, eager.example_outputs):
            return
        buffers.restore()
        at = _first_difference(module, eager, source_root)
    finally:
        buffers.restore()
        eager.reset()
    raise OtherPathError(
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


def _unsteady(eager: EagerModel) -> CaptureError:
    """Of a model that gives other outputs at every run, though no operator draws random numbers."""
    first, second = _outputs_of_modules(eager), _outputs_of_modules(eager)
    path = next((path for path, value in first.items() if not _is_same(second.get(path), value)), None)
    return CaptureError(
        "the model's outputs differ from run to run in eager",
        None if path is None else f"module {path}, the first whose output differs",
        "look there for what is not the same twice: the time, os.urandom, uuid, the order of a set, memory that "
        "torch.empty leaves unwritten; pass it as an input",
        why="no two runs give the same, so that nothing can be proved; no operator of torch draws random numbers",
    )


def _is_same(found: torch.Tensor | None, expected: torch.Tensor) -> bool:
    return found is not None and _is_close(found, expected, _SURE_SQNR_DB)


def _alike(
    found: Sequence[torch.Tensor],
    expected: Sequence[torch.Tensor],
    least_sqnr_db: float = _LEAST_SQNR_DB,
    *,
    exact: bool = False,
) -> bool:
    return all(
        torch.equal(a, b) if exact and not b.is_floating_point() else _is_close(a, b, least_sqnr_db)
        for a, b in zip(found, expected, strict=True)
    )


def _is_close(found: torch.Tensor, expected: torch.Tensor, least_sqnr_db: float = _LEAST_SQNR_DB) -> bool:
    """Whether it may be rounding; integers may be places of equal numbers, and are left to the proof."""
    if found.shape != expected.shape or not expected.is_floating_point() or not expected.numel():
        return found.shape == expected.shape
    reference, actual = (torch.nan_to_num(one.detach().float()).cpu().numpy() for one in (expected, found))
    return not reference.any() or measure_sqnr_db(reference, actual) >= least_sqnr_db


def _first_difference(module: torch.nn.Module, eager: EagerModel, source_root: Path) -> tuple[str, str | None]:
    """Which module of the model is the first whose output differs, and the line of the operator that makes it."""
    expected = _outputs_of_modules(eager)
    last = _Recorder(module).outputs_of_modules([tensor.clone() for tensor in eager.example])
    for path, (value, node) in last.items():
        if path in expected and value.shape == expected[path].shape and not _is_close(value, expected[path]):
            return f"the first module with another output is {path}", source_of(node, source_root)
    return "it differs behind the last module", None


def _outputs_of_modules(eager: EagerModel) -> dict[str, torch.Tensor]:
    """What the first call of each module gives in eager, by path, in the order in which they end."""
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
    return expected


class _Recorder(Interpreter):
    """Runs a program and keeps the last value of each module's first call, computed in itself or in a part of it."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self._last: dict[str, tuple[torch.Tensor, Node]] = {}
        self._left: set[str] = set()
        self._inside: tuple[str, ...] = ()

    def outputs_of_modules(self, inputs: Sequence[torch.Tensor]) -> dict[str, tuple[torch.Tensor, Node]]:
        """By the module's path, those that end first in front."""
        with reference_conditions():
            self.run(*inputs)
        return self._last

    def run_node(self, n: Node) -> Any:
        """As the interpreter's own, beside which the value is kept."""
        value = super().run_node(n)
        path = module_path_of(n) if n.op == "call_function" else None
        inside = () if not path else _with_ancestors(path)
        self._left.update(set(self._inside) - set(inside))
        self._inside = inside
        if isinstance(value, torch.Tensor):
            for one in reversed(inside):  # a part ends before what it is a part of
                if one not in self._left:
                    self._last.pop(one, None)
                    self._last[one] = (value.detach().clone(), n)
        return value


def _with_ancestors(path: str) -> tuple[str, ...]:
    """`encoder.0.act` -> `encoder`, `encoder.0`, `encoder.0.act`."""
    parts = path.split(".")
    return tuple(".".join(parts[:length]) for length in range(1, len(parts) + 1))
