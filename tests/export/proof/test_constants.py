"""Outputs that depend on no input, and that such an artifact is proved all the same."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import edgex
from edgex.errors import VerificationError
from edgex.export.capture.program import capture
from edgex.export.proof.constants import find_constant_outputs


class Told(nn.Module):
    """Gives what a model of training gives beside its answer."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(8, 8)
        self.register_buffer("strides", torch.tensor([8.0, 8.0]))

    def forward(self, x):
        return {"y": self.linear(x), "loss": torch.zeros(1), "strides": self.strides * 2, "ids": torch.arange(3)}


class Silent(nn.Module):
    """Of its input, but always zero."""

    def forward(self, x):
        return x * 0


class Counts(nn.Module):
    """Of no input, but of its state."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(2))

    def forward(self, x):
        self.calls.add_(1)
        return x, self.calls * 2


class Fills(nn.Module):
    """Writes what it computes into a table of zeros."""

    def forward(self, x):
        table = torch.zeros(3)
        table[1] = x.sum()
        return table, torch.zeros(3)


def constants_of(module):
    return find_constant_outputs(
        capture(module.eval(), (torch.randn(2, 8),), source_root=Path(__file__).parent).program
    )


def test_what_no_input_reaches_is_constant():
    assert constants_of(Told()) == ("loss", "strides", "ids")
    assert constants_of(Silent()) == ()


def test_state_is_no_constant():
    assert constants_of(Counts()) == ()


def test_programs_that_write_are_not_traced_again(monkeypatch):
    """A decoder writes to its cache, and tracing it took as long as lowering it."""
    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", None)
    assert constants_of(Counts()) == () and constants_of(Fills()) == ("output_1",)


def test_what_is_written_to_is_no_constant():
    assert constants_of(Fills()) == ("output_1",)


@pytest.mark.parametrize("target", ["xnnpack", "onnx-cpu", "onednn"])
def test_constant_outputs_are_proved_by_agreeing(target, tmp_path):
    artifact = edgex.export_model(Told().eval(), (torch.randn(2, 8),), target=target, output=tmp_path, name="told")
    manifest = artifact.manifest
    assert manifest.verification["constant_outputs"] == ["loss", "strides", "ids"]
    verdicts = {case["output"]: case["verdict"] for case in manifest.verification["cases"] if case["name"] == "example"}
    assert verdicts["loss"] == verdicts["strides"] == "inconclusive"


def test_a_zero_of_inputs_proves_nothing(tmp_path):
    with pytest.raises(VerificationError, match="nothing was proved of an output"):
        edgex.export_model(Silent().eval(), (torch.randn(2, 8),), target="onnx-cpu", output=tmp_path, name="silent")
