"""A program that takes another path than the model is refused, with the module where it begins."""

import pytest
import torch
from capture_checks import X, captured
from torch import nn

from edgex.errors import CaptureError
from edgex.export.capture.program import capture


class Masked(nn.Module):
    """Leaves out its mask while it is traced, as code for dynamic masks does."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        y = self.inner(x)
        return y if torch.compiler.is_exporting() else y * torch.tensor([1.0, 0.0, 1.0, 0.0])


class Model(nn.Module):
    def __init__(self, part):
        super().__init__()
        self.first, self.part, self.last = nn.Linear(4, 4), part, nn.Linear(4, 4)

    def forward(self, x):
        return self.last(self.part(self.first(x))), x.argmax(-1)


def test_another_path_is_refused_with_its_module(tmp_path):
    torch.manual_seed(0)
    with pytest.raises(CaptureError) as raised:
        capture(Model(Masked()), (X,), source_root=tmp_path)
    error = raised.value
    assert error.what == "the captured program does not give what the model gives on its example inputs"
    assert "the first module with another output is " in error.why
    assert error.why.endswith(("part", "last")), error.why
    assert "is_exporting" in error.fix


class Normed(nn.Module):
    """Has operators of its own before those of its parts, and nothing that asks whether it is traced."""

    def __init__(self):
        super().__init__()
        self.norm, self.out = nn.LayerNorm(4), nn.Linear(4, 4)

    def forward(self, x):
        return self.out(self.norm(x * 2 + 1)) + x


def test_a_module_that_computes_before_its_parts_is_not_named(tmp_path):
    torch.manual_seed(0)
    model = Model(nn.Sequential(Normed(), Masked()))
    with pytest.raises(CaptureError) as raised:
        capture(model, (X,), source_root=tmp_path)
    assert raised.value.why.endswith("the first module with another output is part.1"), raised.value.why


def test_a_path_without_other_numbers_is_taken():
    def forward(self, x):
        y = self.linear(x)
        return y * 1.0 if torch.compiler.is_exporting() else y

    assert captured(forward, (X,)).notices == ()


def test_the_state_is_the_initial_one_afterwards():
    def forward(self, x):
        self.total.add_(1)
        return self.linear(x) * self.total

    result = captured(forward, (X,), total=torch.ones(()))
    [output] = result.program.exported.module()(*result.eager.example)
    assert torch.equal(output, result.eager.example_outputs[0])


def test_outputs_that_are_zero_or_empty_are_left_to_the_proof():
    def forward(self, x):
        return torch.zeros(2, 3) * x.sum(), x[:0], x > 0

    assert len(captured(forward, (X,)).program.outputs) == 3
