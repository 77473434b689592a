"""A program that takes another path than the model: captured the way it goes in eager, or refused with the module."""

import pytest
import torch
from capture_checks import X, captured
from torch import nn

from edgex.errors import CaptureError
from edgex.export.capture.program import capture
from edgex.runtime.artifact.specs import Dim


class Masked(nn.Module):
    """Leaves out its mask while it is traced, as code for dynamic masks does."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        y = self.inner(x)
        return y if "Fake" in type(x).__name__ else y * torch.tensor([1.0, 0.0, 1.0, 0.0])


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


@pytest.mark.parametrize("asks", ["is_compiling", "is_exporting", "is_dynamo_compiling"])
def test_what_asks_torch_is_answered_as_in_eager(asks):
    """Ways that give other numbers where they are traced."""

    def forward(self, x):
        y = self.linear(x)
        return y if getattr(torch.compiler, asks)() else y.relu() * 2

    result = captured(forward, (X,))
    [output] = result.program.exported.module()(*result.eager.example)
    assert torch.equal(output, result.eager.example_outputs[0])
    # torch.export without dynamo has the last one false itself
    assert any("it goes in eager" in notice for notice in result.notices) == (asks != "is_dynamo_compiling")
    assert not torch.compiler.is_compiling() and not torch.compiler.is_exporting()


@pytest.mark.parametrize("dynamic", [{}, {("x", 0): Dim("n", 2, 9)}])
def test_a_way_that_fails_where_it_is_traced(dynamic):
    """Switch Transformers and LongT5 make their mask in eager alone; what the values decide there is settled."""

    def forward(self, x, mask=None):
        if mask is None and not torch.compiler.is_compiling():
            mask = torch.ones_like(x)
        y = self.linear(x) * mask[:, :1]
        return y if mask.all() else y * mask

    result = captured(forward, (X,), dynamic=dynamic)
    [output] = result.program.exported.module()(*result.eager.example)
    assert torch.equal(output, result.eager.example_outputs[0])
    assert [notice for notice in result.notices if "it goes in eager" in notice]


def test_a_failure_that_torch_does_not_decide_is_named():
    def forward(self, x):
        traced = "Fake" in type(x).__name__ or torch.compiler.is_dynamo_compiling()
        mask = None if traced else torch.ones_like(x)
        return self.linear(x) * mask[:, :1]

    with pytest.raises(CaptureError) as caught:
        captured(forward, (X,))
    assert caught.value.what == "forward fails while it is traced"
    assert "'NoneType' object is not subscriptable; in eager it runs" in caught.value.why
    assert "return self.linear(x) * mask[:, :1]" in caught.value.where
    assert not torch.compiler.is_compiling()


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
