"""Masks that are the same in every run: captured with the sizes that they choose."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from benchmarks.operators.proof import prove
from edgex.export.capture.program import capture

X = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))


class Masked(nn.Module):
    def __init__(self, choose):
        super().__init__()
        self.register_buffer("mask", torch.tensor([True, False, True, True]))
        self.linear = nn.Linear(3, 2)
        self.choose = choose

    def forward(self, x):
        return self.choose(self, x)


def written_later(self, x):
    mask = torch.tensor([True, False, True, True])
    mask[1] = True
    return x[:, mask] * 2


FIXED = {
    "a buffer": lambda self, x: self.linear(x[:, self.mask]),
    "a literal": lambda _, x: x[:, torch.tensor([True, False, True, True])] * 2,
    "a computed literal": lambda _, x: x[:, torch.arange(4) != 1] * 2,
    "a view of a buffer": lambda self, x: x.view(2, 2, 2)[:, self.mask.view(2, 2)],
    "places": lambda self, x: x[:, torch.where(self.mask)[0]] + self.mask.nonzero()[:, 0],
    "its own size": lambda self, x: x[:, self.mask] * x[:, self.mask].shape[1],
}


@pytest.mark.parametrize("name", FIXED)
def test_what_a_constant_mask_chooses_has_a_fixed_size(name):
    module = Masked(FIXED[name]).eval()
    program = capture(module, (X,), source_root=Path(__file__).parent).program
    assert all(isinstance(size, int) for spec in program.outputs for size in spec.shape)
    assert not any(node.target is torch.ops.aten._assert_scalar.default for node in program.exported.graph.nodes)
    program.exported.validate()
    (found,) = program.exported.module()(X)
    torch.testing.assert_close(found, module(X), rtol=0, atol=0)


@pytest.mark.parametrize("choose", [written_later, lambda _, x: x[x > 0]])
def test_other_masks_choose_at_run_time(choose):
    program = capture(Masked(choose).eval(), (X,), source_root=Path(__file__).parent).program
    assert not all(isinstance(size, int) for spec in program.outputs for size in spec.shape)


def test_a_delegate_without_sizes_of_its_own_takes_it():
    proved = prove(Masked(FIXED["a literal"]), (X,), "xnnpack")
    assert proved.exit_code == 0, proved.reason


def test_a_column_of_places_lies_as_rows_do():
    proved = prove(Masked(lambda self, x: x[:, self.mask.nonzero().squeeze(-1)] * 2), (X,), "xnnpack")
    assert proved.exit_code == 0, proved.reason
