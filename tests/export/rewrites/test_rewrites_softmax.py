"""Softmax of few elements: written out, with the numbers of before."""

from __future__ import annotations

import pytest
import torch
from rewriting import Calls, capture_program, check_rewrite, operators
from torch import nn

from benchmarks.operators.proof import prove
from edgex.export.rewrites.norms.softmax import part_softmax, reduce_softmax

X = 30 * torch.randn(2, 3, 64, 32, generator=torch.Generator().manual_seed(0))
TAKEN = {
    "three classes": lambda x: x.softmax(1),
    "two branches": lambda x: x.softmax(0),
    "logarithms": lambda x: x.log_softmax(-3),
}


@pytest.mark.parametrize("write", [part_softmax, reduce_softmax])
@pytest.mark.parametrize("case", TAKEN)
def test_few_elements_are_written_out(case, write):
    before = capture_program(Calls(TAKEN[case]), X)
    after, rewrite = write(before)
    assert rewrite.count == 1
    check_rewrite(before, after, X)
    assert not any("softmax" in name for name in operators(after))


def test_infinite_ones_are_as_before():
    x = X.clone()
    x[0, 0] = -torch.inf
    x[1, :, 0] = -torch.inf
    before = capture_program(Calls(TAKEN["three classes"]), x)
    for write in (part_softmax, reduce_softmax):
        after, _ = write(before)
        torch.testing.assert_close(
            after.exported.module()(x), before.exported.module()(x), rtol=1e-6, atol=1e-7, equal_nan=True
        )


LEFT = {
    "of a row": (part_softmax, lambda x: x.reshape(64, 64, 3).softmax(-1)),
    "many": (reduce_softmax, lambda x: x.softmax(2)),
    "many parts": (part_softmax, lambda x: x.reshape(2, 12, 16, 32).softmax(1)),
    "next to nothing": (reduce_softmax, lambda x: x[:, :, :4, :4].softmax(1)),
    "another type": (reduce_softmax, lambda x: x.softmax(1, dtype=torch.float64)),
}


@pytest.mark.parametrize("case", LEFT)
def test_others_are_left_alone(case):
    write, function = LEFT[case]
    program = capture_program(Calls(function), X)
    assert write(program) == (program, None)


@pytest.mark.parametrize("target", ["xnnpack", "onednn"])
def test_two_classes_are_exported(target):
    module = nn.Sequential(nn.Conv2d(3, 2, 3, padding=1), nn.Softmax(1)).eval()
    proved = prove(module, (X,), target)
    assert proved.exit_code == 0, proved.reason
    assert {"part_softmax", "reduce_softmax"} & set(proved.rewrites)
