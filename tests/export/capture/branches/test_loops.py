"""Loops over the places that are not zero: over all of them where that gives the same, else refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from benchmarks.operators.proof import prove
from edgex.errors import CaptureError
from edgex.export.capture.program import Capture, capture

X = torch.randn(6, 8, generator=torch.Generator().manual_seed(1))
COUNT = 4


class Experts(nn.Module):
    """A mixture of experts, as Hugging Face's Switch Transformers loop over those that a token chose."""

    def __init__(self, places):
        super().__init__()
        torch.manual_seed(0)
        self.router = nn.Linear(8, COUNT)
        self.named = nn.ModuleDict({f"expert_{at}": nn.Linear(8, 8) for at in range(COUNT)})
        self.listed = nn.ModuleList(nn.Linear(8, 8) for _ in range(COUNT))
        self._places = places

    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).topk(1)
        mask = nn.functional.one_hot(chosen, COUNT).permute(2, 1, 0)
        y = torch.zeros_like(x)
        for expert, layer in self._places(self, mask.sum((-1, -2)) > 0):
            at, tokens = torch.where(mask[expert].view(1, -1))
            y.index_add_(0, tokens, layer(x[tokens]) * weights[tokens, at, None])
        return y


PLACES = {
    "named": lambda model, hit: ((one, model.named[f"expert_{one[0]}"]) for one in hit.nonzero()),
    "listed": lambda model, hit: ((one, model.listed[one]) for one in torch.argwhere(hit)),
    "as a tuple": lambda model, hit: ((one, model.listed[one]) for one in hit.nonzero(as_tuple=True)[0]),
    "where": lambda model, hit: ((one, model.listed[one]) for one in torch.where(hit)[0].tolist()),
}


def _capture(model: nn.Module, *inputs: torch.Tensor) -> Capture:
    return capture(model.eval(), inputs, source_root=Path(__file__).parent)


@pytest.mark.parametrize("case", PLACES)
def test_a_loop_over_experts_that_were_chosen(case):
    model = Experts(PLACES[case])
    captured = _capture(model, X)
    [notice] = [notice for notice in captured.notices if "all of the vector's" in notice]
    assert notice.startswith("the places at test_loops.py:")
    program = captured.program.exported.module()
    for x in (X, -X, X * 5, X.flip(0), X[:1].repeat(6, 1)):
        torch.testing.assert_close(program(x)[0], model(x))


@pytest.mark.parametrize("target", ["xnnpack", "onnx-cpu", "onednn"])
def test_targets_run_it(target):
    proved = prove(Experts(PLACES["named"]).eval(), (X,), target)
    assert proved.exit_code == 0, proved.reason


def _counted(x):
    total = torch.zeros(8)
    for at in (x.sum(-1) > 0).nonzero():
        total = total + x[at][0] + 1
    return total


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self._function = function

    def forward(self, x):
        return self._function(x)


def test_a_loop_whose_other_steps_count_is_refused():
    with pytest.raises(CaptureError) as raised:
        _capture(Function(_counted), X)
    assert "how often a loop runs depends on the values" in raised.value.why
    assert raised.value.where.startswith("test_loops.py:")


def _chosen(x):
    if (x > 100).any():  # a check that has nothing to do with the places
        raise ValueError
    return x[(x.sum(-1) > 0).nonzero()[:, 0]].sum(0)


def test_places_that_are_read_stay_those_that_are_not_zero():
    captured = _capture(Function(_chosen), X)
    assert not any("all of the vector's" in notice for notice in captured.notices)
    for x in (X, -X):
        torch.testing.assert_close(captured.program.exported.module()(x)[0], _chosen(x))
