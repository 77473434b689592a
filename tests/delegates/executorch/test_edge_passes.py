"""Passes before partitioning: inputs whose names a copy of the program keeps."""

from __future__ import annotations

import logging

import pytest
import torch
from torch import nn

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
