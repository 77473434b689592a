"""Copies that XNNPACK leaves out of its partitions: every way in which one can be a result."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import edgex


class Ends(nn.Module):
    """Its results are made of one value by a function."""

    def __init__(self, end):
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.end = nn.Linear(8, 8), end

    def forward(self, x):
        return self.end(x, self.linear(x).relu(), self.linear)


ENDS = {
    "beside what it copies": lambda x, k, _: (k, k.clone()),
    "a copy of a copy": lambda x, k, _: (k, k.clone(), k.clone().clone()),
    "of an input": lambda x, k, _: (k, x.clone()),
    "expanded to the same size": lambda x, k, _: (k, k.expand(4, 8)),
    "a result that is read": lambda x, k, _: (k.clone(), k.clone() * 2, k.sigmoid()),
    "read outside and inside": lambda x, k, linear: (torch.cumsum(k.clone(), 1), k, linear(k.clone())),
    "written to": lambda x, k, _: (k, k.clone().index_fill_(1, torch.tensor([1]), 0.0)),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_each_copy_is_a_result(end, tmp_path):
    module, x = Ends(end).eval(), torch.randn(4, 8)
    artifact = edgex.export_model(module, (x,), target="xnnpack", output=tmp_path, name="ends")
    with edgex.load(artifact.path) as session:
        found = session(x.numpy())
    for own, expected in zip(found, module(x), strict=True):
        torch.testing.assert_close(torch.from_numpy(own), expected)


def test_what_reads_a_copy_stays_in_one_partition_with_it(tmp_path):
    end = ENDS["a result that is read"]
    artifact = edgex.export_model(Ends(end).eval(), (torch.randn(4, 8),), target="xnnpack", output=tmp_path, name="one")
    assert artifact.manifest.delegation["delegate_calls"] == 1
