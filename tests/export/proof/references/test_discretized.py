"""Outputs rounded from numbers: a neighbour at a boundary passes, another way of rounding does not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from rewriting import capture_program
from torch import nn

from benchmarks.operators.proof import prove
from edgex.export.proof.references.discretized import judge_by_features
from edgex.export.rewrites.discrete import find_chains, limits_of
from edgex.runtime.artifact.golden import Case, Step
from edgex.runtime.session.numerics import Tolerance, compare_limits

LIMITS = Tolerance(80.0, 1e-4, 1e-4)
X = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))


class Image(nn.Module):
    """A picture, where it is bright, and its own numbers."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 4)

    def forward(self, x):
        y = self.layer(x)
        return (y * 255).round().clamp(0, 255).to(torch.uint8), y[..., :2] <= 0.25, y


def test_what_is_rounded_and_what_is_not():
    chains = find_chains(capture_program(Image(), X))
    assert list(chains) == ["output_0", "output_1"]


def test_limits_hold_the_neighbours_of_a_boundary_only():
    class Truncates(nn.Module):
        def forward(self, x):
            return x.to(torch.int32), x > 1.5

    x = torch.tensor([0.4, 1.49999, 1.99999, 2.5])
    program = capture_program(Truncates(), x)
    limits = limits_of(program, [x], find_chains(program).values(), LIMITS)
    assert [ends.tolist() for ends in limits["output_0"]] == [[0, 1, 1, 2], [0, 1, 2, 2]]
    assert [ends.tolist() for ends in limits["output_1"]] == [[0, 0, 1, 1], [0, 1, 1, 1]]
    least, most = limits["output_0"]
    eager = x.to(torch.int32).numpy()
    assert compare_limits(eager, np.array([0, 1, 2, 2], np.int32), least, most).verdict == "pass"
    rounded = compare_limits(eager, x.round().to(torch.int32).numpy(), least, most)
    assert rounded.verdict == "pass"  # half of them to even: 0, 1, 2, 2
    up = compare_limits(eager, np.array([1, 2, 2, 3], np.int32), least, most)
    assert (up.verdict, up.reason) == ("fail", "3 of 4 values are further off than rounding takes them")
    assert compare_limits(eager, np.array([0, 1, 2, 2], np.int64), least, most).verdict == "fail"


class Boundaries(nn.Module):
    """Its features lie on boundaries, up to their own rounding: each engine takes another side."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64, bias=False)

    def forward(self, x):
        y = self.layer(x)
        z = torch.softmax(y, -1) * 100
        return ((z - z.detach() + z).mean(-1) * 64 + y.sum(-1) * 1e3).floor().to(torch.int32), y


@pytest.mark.parametrize("target", ["onnx-cpu", "xnnpack"])
def test_an_export_whose_outputs_are_rounded_passes(target):
    torch.manual_seed(0)
    proved = prove(Boundaries(), (torch.randn(200, 64),), target)
    assert proved.exit_code == 0, proved.reason


def test_limits_are_asked_for_only_where_an_output_failed():
    program = capture_program(Image(), X)
    results = program.exported.module()(X)
    outputs = {spec.name: array.detach().numpy() for spec, array in zip(program.outputs, results, strict=True)}
    case = Case("example", "compare", (Step({program.inputs[0].name: X.numpy()}, outputs),))

    def verdict(failed):
        found = [{"name": "example", "output": failed, "verdict": "fail"}]
        return {"cases": found, "tolerance": LIMITS.to_json()}

    assert judge_by_features([case], verdict("output_2"), program) == (case,)
    (limited,) = judge_by_features([case], verdict("output_0"), program)
    between = limited.steps[0].between
    assert list(between) == ["output_0"]
    assert (between["output_0"].least <= outputs["output_0"]).all()
    assert (between["output_0"].most >= outputs["output_0"]).all()
