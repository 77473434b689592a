"""Dense transposed convolutions as plain ones: the same numbers, where an engine is quicker with them."""

from __future__ import annotations

import pytest
import torch
from rewriting import capture_program, check_rewrite, operators
from torch import nn

from benchmarks.operators.proof import prove
from edgex.export.rewrites.products.phases import write_dense_phases, write_phases

X = torch.randn(2, 6, 7, 9, generator=torch.Generator().manual_seed(0))

FEW = {
    "one channel": nn.ConvTranspose2d(6, 1, 4, 2, 1),
    "a stride of its own for each dimension": nn.ConvTranspose2d(6, 3, (5, 2), (2, 1), (2, 0), (1, 0)),
    "fewer weights than steps": nn.ConvTranspose2d(6, 4, 2, 3, bias=False),
    "of sequences": nn.ConvTranspose1d(6, 2, 16, 4, 6),
    "overlapping frames": nn.ConvTranspose1d(6, 1, 40, 10, bias=False),
}
MANY = {
    "weights for each step": nn.ConvTranspose2d(6, 40, 4, 2, 1),
    "weights that fill no step": nn.ConvTranspose2d(6, 32, 3, 2, 1, 1),
}


@pytest.mark.parametrize("case", [*FEW, *MANY])
def test_dense_ones_become_plain(case):
    module = (FEW | MANY)[case].eval()
    x = X if isinstance(module, nn.ConvTranspose2d) else X[:, :, 0]
    before = capture_program(module, x)
    after, rewrite = (write_phases if case in FEW else write_dense_phases)(before)
    assert rewrite.count == 1
    check_rewrite(before, after, x)
    assert not any("conv_transpose" in name for name in operators(after))


LEFT = {
    "many channels": (write_phases, nn.ConvTranspose2d(6, 16, 4, 2, 1)),
    "no overlap": (write_dense_phases, nn.ConvTranspose2d(6, 16, 2, 2)),
    "many channels times zeros": (write_dense_phases, nn.ConvTranspose2d(6, 40, 3, 2)),
    "no stride": (write_dense_phases, nn.ConvTranspose2d(6, 4, 3)),
    "holes": (write_phases, nn.ConvTranspose2d(6, 2, 4, 2, dilation=2)),
    "groups of channels": (write_dense_phases, nn.ConvTranspose2d(6, 4, 4, 2, groups=2)),
}


@pytest.mark.parametrize("case", LEFT)
def test_others_are_left_alone(case):
    write, module = LEFT[case]
    program = capture_program(module.eval(), X)
    assert write(program) == (program, None)


@pytest.mark.parametrize("target", ["xnnpack", "onednn"])
def test_a_decoder_is_exported(target):
    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = nn.ConvTranspose2d(6, 12, 4, 2, 1)
            self.out = nn.ConvTranspose2d(12, 1, (5, 3), (2, 3), (2, 1))

        def forward(self, x):
            return self.out(torch.relu(self.up(x)))

    proved = prove(Decoder().eval(), (X,), target)
    assert proved.exit_code == 0, proved.reason
    assert "write_phases" in proved.rewrites
