"""`--exclude`: which nodes a text means, and a delegate that leaves them out and says so."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from rewriting import capture_program
from torch import nn

from edgex.delegates.registry import get_delegate
from edgex.errors import LoweringError, UsageError
from edgex.export.excluding import find_excluded
from edgex.export.settings import ExportSettings, check_settings


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(4, 4), nn.Sigmoid())
        self.second = nn.Sequential(nn.Linear(4, 4), nn.Sigmoid())

    def forward(self, x):
        return self.second(self.first(x))


@pytest.fixture(scope="module")
def program():
    return capture_program(Net(), torch.randn(2, 4))


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("aten.sigmoid.default", {"sigmoid", "sigmoid_1"}),
        ("aten.sigmoid", {"sigmoid", "sigmoid_1"}),
        ("sigmoid", {"sigmoid", "sigmoid_1"}),
        ("sigmoid@second", {"sigmoid_1"}),
        ("linear@first.0", {"linear"}),
    ],
)
def test_operators_by_name_and_module(program, text, nodes):
    assert find_excluded(program, text) == nodes


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("sigmoidd", "did you mean 'aten.sigmoid.default'? known: aten.linear.default, aten.sigmoid.default"),
        ("sigmoid@secund", "known: first.1, second.1"),
    ],
)
def test_an_unknown_name_lists_what_there_is(program, text, why):
    with pytest.raises(UsageError) as error:
        find_excluded(program, text)
    assert why in error.value.why


@pytest.mark.parametrize("target", ["xnnpack", "onednn"])
def test_a_delegate_leaves_them_out_and_says_so(program, target):
    delegate = get_delegate(target)
    if not delegate.availability().available:
        pytest.skip(f"{target} cannot be used here")
    plan = delegate.plan(replace(program, excluded=find_excluded(program, "sigmoid@first")), delegate.options_type())
    (left,) = [fallback for fallback in plan.fallbacks if fallback.code == "excluded"]
    assert (left.op, left.count, left.reason) == ("aten.sigmoid.default", 1, "excluded by --exclude")
    assert left.modules == ("first.1",) and plan.delegated_ops == 3 and not plan.fatal


@pytest.mark.parametrize("target", ["onnx-cpu", "reference"])
def test_a_target_that_runs_everything_refuses(target):
    with pytest.raises(LoweringError, match="takes no --exclude"):
        check_settings(ExportSettings((target,), exclude=("sigmoid",)), "net")
