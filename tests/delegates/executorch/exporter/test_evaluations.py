"""Passes that share what operators give: the same file, of fewer runs of operators."""

from __future__ import annotations

import operator
from contextlib import nullcontext

import torch

from edgex.delegates.executorch import exir
from edgex.delegates.executorch.exporter.evaluations import shared_evaluations


class _Cached(torch.nn.Module):
    """A cache that is written in place, and operators that occur twice."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("kept", torch.zeros(8, 4))

    def forward(self, x, position):
        places = position + torch.arange(x.shape[0])
        self.kept.index_copy_(0, places, torch.tanh(self.linear(x)) + torch.tanh(x) * 2)
        return (x.view(x.shape[0], 2, 2).transpose(1, 2).reshape(x.shape[0], 4) @ self.kept.T).softmax(-1)


def _lower(shared, monkeypatch):
    """The program file, and how many operators passes ran."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    torch.manual_seed(0)
    exported = torch.export.export(
        _Cached().eval(),
        (torch.randn(3, 4), torch.tensor([0])),
        dynamic_shapes=({0: torch.export.Dim("n", max=8)}, None),
    )
    runs = []
    run = torch.fx.Interpreter.call_function

    def counted(self, target, args, kwargs):
        if target is not operator.getitem:
            runs.append(target)
        return run(self, target, args, kwargs)

    with monkeypatch.context() as patch, shared_evaluations() if shared else nullcontext():
        patch.setattr(torch.fx.Interpreter, "call_function", counted)
        edge = exir.lower_to_edge(exported, XnnpackPartitioner())
        return exir.emit(edge, plan_inputs=False).buffer, len(runs)


def test_passes_that_share_evaluations_make_the_same_program_of_fewer(monkeypatch):
    from executorch.exir.pass_base import ExportPass

    traced = ExportPass._fx
    _lower(False, monkeypatch)  # what only a process's first lowering runs
    alone, all_runs = _lower(False, monkeypatch)
    together, runs = _lower(True, monkeypatch)
    assert together == alone
    assert runs < 0.55 * all_runs, f"{runs} of {all_runs} runs"
    assert ExportPass._fx is traced, "ExecuTorch's class is as it was"


class _Places(torch.nn.Module):
    def forward(self, x):
        return x.sin() + torch.arange(3) + torch.full((3,), 2.0)


def test_programs_with_fake_modes_of_their_own_share_nothing():
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    with shared_evaluations():
        for _ in range(2):  # as a pass does that exports a pattern to look for
            lowered = exir.lower_to_edge(torch.export.export(_Places(), (torch.randn(3),)), XnnpackPartitioner())
    assert exir.emit(lowered, plan_inputs=False).buffer


class _WithConstants(torch.nn.Module):
    """A region that is given constants: numbers that are tensors to the program."""

    def forward(self, x):
        return torch.nn.functional.gelu(x * 0.5 + 1.5) @ torch.ones(4, 4)


def test_regions_with_constants_run_once_for_all_passes(monkeypatch):
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir.delegate import executorch_call_delegate

    runs = []
    run = torch.fx.Interpreter.call_function

    def counted(self, target, args, kwargs):
        if target is executorch_call_delegate:
            runs.append(any(type(value) is torch.Tensor for value in args))
        return run(self, target, args, kwargs)

    with monkeypatch.context() as patch, shared_evaluations():
        patch.setattr(torch.fx.Interpreter, "call_function", counted)
        exported = torch.export.export(_WithConstants(), (torch.randn(3, 4),))
        exir.emit(exir.lower_to_edge(exported, XnnpackPartitioner()), plan_inputs=False)
    assert runs == [True], "one run of the one region, with its constants"
