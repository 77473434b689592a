"""Maxima and minima of many rows as poolings, for oneDNN."""

import pytest
import torch

import edgex
from benchmarks.operators.proof import prove
from edgex.export.rewrites.reductions.row_extremes import write_row_extremes
from tests.support.rewriting import Calls, capture_program, check_rewrite, operators

EDGES = torch.randn(2, 12, 15, 8, generator=torch.Generator().manual_seed(0))
ROWS = {
    "largest": lambda x: x.amax(-1),
    "smallest, kept": lambda x: x.amin((3,), keepdim=True),
    "of images": lambda x: x.reshape(8, 12, 5, 6).amax((-1, -2)),
    "of images, kept": lambda x: x.reshape(8, 12, 5, 6).amax((2, 3), keepdim=True),
    "of a matrix": lambda x: x.reshape(96, 30).amax(1),
    "no multiple of 16": lambda x: x.reshape(90, 32).amin(-1),
    "none below zero": lambda x: (-x.exp()).amax(-1),
}
LEFT = {
    "the first": lambda x: x.amax(0),
    "apart": lambda x: x.amax((1, 3)),
    "few rows": lambda x: x.reshape(32, 90).amax(-1),
    "a prime number of rows": lambda x: x.flatten()[:1515].reshape(101, 15).amax(-1),
    "rows of one number": lambda x: x[..., :1].amax(-1),
    "all": lambda x: x.amax(),
    "integers": lambda x: x.to(torch.int64).amax(-1),
}


@pytest.mark.parametrize("case", ROWS)
def test_extremes_of_many_rows_become_poolings(case):
    before = capture_program(Calls(ROWS[case]), EDGES)
    after, rewrite = write_row_extremes(before)
    assert rewrite.count == 1
    assert check_rewrite(before, after, EDGES) == 300
    assert not {"aten.amax.default", "aten.amin.default"} & set(operators(after))


@pytest.mark.parametrize("case", LEFT)
def test_other_extremes_are_left_alone(case):
    before = capture_program(Calls(LEFT[case]), EDGES)
    assert write_row_extremes(before) == (before, None)


def test_rows_whose_number_varies_are_left_alone():
    dim = torch.export.Dim("rows", min=2, max=128)
    before = capture_program(Calls(lambda x: x.amax(-1)), torch.randn(96, 8), dynamic_shapes=(({0: dim},),))
    assert write_row_extremes(before) == (before, None)


class Edges(torch.nn.Module):
    """What a graph network takes of the edges of each node."""

    def __init__(self):
        super().__init__()
        # In bfloat16 a bias leaves little of the difference for inputs near zero.
        self.layer = torch.nn.Conv2d(12, 16, 1, bias=False)

    def forward(self, x):
        return self.layer(x).max(-1).values - self.layer(x).amin(-1)


def test_they_run_on_onednn_in_bfloat16(tmp_path):
    made = edgex.export_model(
        Edges().eval(), (EDGES,), target="onednn", precision="bf16", output=tmp_path / "net.edgex"
    )
    assert "write_row_extremes" in [rewrite["name"] for rewrite in made.manifest.rewrites]
    assert made.manifest.verification["passed"]


def test_they_run_on_onednn():
    proved = prove(Edges().eval(), (EDGES,), "onednn")
    assert proved.exit_code == 0, proved.reason
    assert "write_row_extremes" in proved.rewrites
