"""Passes before partitioning: names of inputs, copies in orders without a name, and operators with effects."""

from __future__ import annotations

import logging

import pytest
import torch
from torch import nn

from benchmarks.operators.proof import prove
from edgex.delegates.registry import get_delegate
from edgex.export.capture.program import capture


class Named(nn.Module):
    """Two inputs have names of Python's builtins."""

    def forward(self, input: torch.Tensor, other: torch.Tensor, max: torch.Tensor) -> torch.Tensor:
        return torch.relu(input - other) + max


@pytest.mark.parametrize("target", ["xnnpack", "onednn"])
def test_programs_with_builtins_for_inputs_are_copied_without_their_weights(target, tmp_path, caplog):
    delegate = get_delegate(target)
    models = {
        "sequential": (nn.Sequential(nn.Linear(4, 3), nn.ReLU()).eval(), 1),
        "named": (Named(), 3),
    }
    for model, count in models.values():
        inputs = tuple(torch.randn(2, 4) for _ in range(count))
        program = capture(model, inputs, {}, dynamic_shapes=None, source_root=tmp_path).program
        assert program.inputs[0].name == "input"
        with caplog.at_level(logging.WARNING):
            lowered = delegate.lower(program, delegate.options_type())
        assert lowered.plan.delegated_ops == lowered.plan.total_ops
        assert not [record for record in caplog.records if "get_fake_program" in record.getMessage()]


@pytest.mark.parametrize("target", ["xnnpack", "onednn"])
def test_a_copy_in_an_order_without_a_name_is_lowered(target, tmp_path):
    class Copied(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.permute(0, 3, 1, 2).clone().relu()

    delegate = get_delegate(target)
    program = capture(Copied(), (torch.randn(2, 3, 4, 5),), {}, dynamic_shapes=None, source_root=tmp_path).program
    assert not delegate.plan(program, delegate.options_type()).fatal
    assert delegate.lower(program, delegate.options_type()).files


def test_an_operator_with_effects_is_named(tmp_path):
    class Decomposed(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.cholesky(x @ x.T + 20 * torch.eye(20))

    delegate = get_delegate("xnnpack")
    program = capture(Decomposed(), (torch.randn(20, 20),), {}, dynamic_shapes=None, source_root=tmp_path).program
    plan = delegate.plan(program, delegate.options_type())
    assert any("linalg_cholesky" in left.op for left in plan.fatal)


class Masked(nn.Module):
    """A table that is not persistent, and lies in no order of its dimensions: expanded rows, turned columns."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", (torch.arange(6).view(6, 1, 1) % 4 > 0).expand(6, 4, 5).transpose(0, 2), False)
        self.register_buffer("table", torch.randn(6, 4, 5).permute(2, 0, 1), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.masked_fill(self.mask, 0.0).transpose(1, 2) + self.table).softmax(-1)


@pytest.mark.parametrize("target", ["xnnpack", "onednn"])
def test_tables_that_are_not_persistent_lie_in_any_order(target):
    proved = prove(Masked().eval(), (torch.randn(5, 4, 6),), target)
    assert proved.exit_code == 0, proved.reason
