"""Linear layers in few bits, as artifacts: layers of one input run as one, and each is found again in a profile."""

from __future__ import annotations

import pytest
import torch
from onednn_support import needs_onednn
from torch import nn

import edgex
from edgex.runtime.measure.profile.collect import profile

pytestmark = needs_onednn


class _Mixed(nn.Module):
    """Three layers of one input, with and without a bias, a result that is read across, and one of another input."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(11)
        self.query, self.key, self.value = nn.Linear(64, 96), nn.Linear(64, 35, bias=False), nn.Linear(64, 640)
        self.back = nn.Linear(96, 640)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        x = x * 1.5
        query = self.query(x)
        gate = torch.sigmoid(query)
        return self.back(gate) * self.value(x), self.key(x).transpose(0, 1), query


@pytest.fixture(scope="module", params=["8da4w", "8da8w"])
def artifact(request, tmp_path_factory):
    rows = torch.export.Dim("rows", max=64)
    return edgex.export_model(
        _Mixed().eval(), (torch.randn(5, 64),), dynamic_shapes=({0: rows},), target="onednn", quantize=request.param,
        group_size=32 if request.param == "8da4w" else None, output=tmp_path_factory.mktemp("bits"), name="mixed",
    )  # fmt: skip


@pytest.mark.parametrize("rows", [1, 2, 33])
def test_layers_of_one_input_give_what_each_gives(artifact, rows):
    x = torch.randn(rows, 64, generator=torch.Generator().manual_seed(rows))
    with edgex.load(artifact.path, threads=2) as session:
        together = session(x.numpy())
        again = [session(x[row : row + 1].numpy()) for row in range(rows)]
    # A row's numbers do not depend on the rows beside it, nor on how many threads share the work.
    for output, alone in ((0, [one[0] for one in again]), (2, [one[2] for one in again])):
        for row in range(rows):
            assert abs(together[output][row] - alone[row][0]).max() < 1e-4, (output, row)
    for row in range(rows):
        assert abs(together[1][:, row] - again[row][1][:, 0]).max() < 1e-4, row


def test_a_profile_knows_the_modules_of_each(artifact):
    with edgex.load(artifact.path, threads=1) as session:
        report = profile(session, runs=3, fresh_processes=1)
    linear = [row for row in report.ops if "dynamic_linear" in row.op_type]
    assert [set(row.module_paths) for row in linear] == [{"query", "key", "value"}, {"back"}]
    assert all(row.map_confidence == "exact" and "test_onednn_low_bits.py" in row.source for row in linear)
