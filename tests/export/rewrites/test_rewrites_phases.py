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


ONE_PHASE = {
    "one weight": nn.ConvTranspose2d(6, 40, 1),
    "uneven padding": nn.ConvTranspose2d(6, 20, (4, 3), padding=(1, 0)),
    "groups": nn.ConvTranspose2d(6, 12, 3, groups=3),
    "a channel a group": nn.ConvTranspose2d(6, 6, 5, padding=2, groups=6, bias=False),
    "holes": nn.ConvTranspose2d(6, 20, (3, 2), dilation=(2, 3), padding=(3, 1)),
    "of sequences": nn.ConvTranspose1d(6, 20, 7, padding=3),
}


@pytest.mark.parametrize("case", ONE_PHASE)
def test_without_a_stride_the_weights_are_turned(case):
    module = ONE_PHASE[case].eval()
    x = X if isinstance(module, nn.ConvTranspose2d) else X[:, :, 0]
    before = capture_program(module, x)
    after, rewrite = write_phases(before)
    assert rewrite.count == 1
    check_rewrite(before, after, x)
    assert not any("conv_transpose" in name for name in operators(after))


def test_a_size_that_a_run_knows_is_turned_too():
    module = nn.ConvTranspose2d(6, 20, 3, padding=1).eval()
    batch = torch.export.Dim("batch", max=8)
    proved = prove(module, (X,), "onednn", dynamic_shapes=({0: batch},))
    assert proved.exit_code == 0, proved.reason
    assert "write_phases" in proved.rewrites


LEFT = {
    "many channels": (write_phases, nn.ConvTranspose2d(6, 16, 4, 2, 1)),
    "no overlap": (write_dense_phases, nn.ConvTranspose2d(6, 16, 2, 2)),
    "many channels times zeros": (write_dense_phases, nn.ConvTranspose2d(6, 40, 3, 2)),
    "results that are cut off": (write_phases, nn.ConvTranspose2d(6, 4, 1, padding=1)),
    "results without a weight": (write_phases, nn.ConvTranspose2d(6, 4, 3, dilation=2, output_padding=1)),
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
