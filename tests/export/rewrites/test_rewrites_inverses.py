"""Triangles of many rows, and of as many as a run has: eager's numbers at every length."""

from __future__ import annotations

import pytest
import torch
from rewriting import Calls, capture_program, check_rewrite, operators, run_program, worst_sqnr_db
from torch import nn
from torch.nn import functional as F

from benchmarks.operators.proof import prove
from edgex.delegates.graph.values import largest_size
from edgex.export.rewrites.matrices.small import write_small_matrices

solve = torch.linalg.solve_triangular
LENGTHS = {"min": 1, "max": 32}


class DeltaRule(nn.Module):
    """As gated delta networks read a chunk of a text: keys of which each is freed of those before it."""

    def __init__(self, *, upper=False, left=True, ones=True):
        super().__init__()
        self.keys, self.options = nn.Linear(16, 16), {"upper": upper, "left": left, "unitriangular": ones}

    def forward(self, x):
        keys = F.normalize(self.keys(x), dim=-1)
        a = keys @ keys.mT
        a = a.triu(1) if self.options["upper"] else a.tril(-1)
        a = a if self.options["unitriangular"] else a + 2 * torch.eye(x.shape[1])
        return solve(a, x if self.options["left"] else x.mT, **self.options)


def texts(length):
    return torch.randn(2, length, 16, generator=torch.Generator().manual_seed(length))


@pytest.mark.parametrize("example", [12, 32])
@pytest.mark.parametrize(
    "options", [{}, {"upper": True, "ones": False}, {"left": False}, {"upper": True, "left": False, "ones": False}]
)
def test_every_length_of_a_range(options, example):
    """Also where the example is as long as the range allows, and nothing is padded for it."""
    model = DeltaRule(**options)
    before = capture_program(model, texts(example), dynamic_shapes=({1: torch.export.Dim("n", **LENGTHS)},))
    after, rewrite = write_small_matrices(before)
    assert rewrite is not None
    assert rewrite.count == 1
    assert "solve_triangular" not in " ".join(operators(after))
    for length in (1, 2, 7, 8, 9, 31, 32):
        found = worst_sqnr_db(run_program(before, texts(length)), run_program(after, texts(length)))
        assert found > 110, f"{found:.0f} dB at {length} rows"


@pytest.mark.parametrize("size", [129, 200])
@pytest.mark.parametrize("upper", [False, True])
def test_large_triangles_read_nothing_beside_them(size, upper):
    generator = torch.Generator().manual_seed(size)
    a = torch.randn(2, size, size, generator=generator) / 10 + 3 * torch.eye(size)
    hidden = a.tril(-1) if upper else a.triu(1)
    a = a + 1e3 * hidden
    b = torch.randn(2, size, 3, generator=generator)
    before = capture_program(Calls(lambda a, b: solve(a, b, upper=upper)), a, b)
    after, rewrite = write_small_matrices(before)
    assert rewrite is not None
    check_rewrite(before, after, a, b, min_sqnr_db=110)
    assert len(operators(after)) < 200


def test_keys_that_repeat_lose_nothing():
    """Powers of the triangle, which is how some write the inverse, would reach 2 ** 30 here."""
    a, b = torch.ones(1, 32, 32).tril(-1), texts(32)[:1]
    n = torch.export.Dim("n", **LENGTHS)
    function = Calls(lambda a, b: solve(a, b, upper=False, unitriangular=True))
    before = capture_program(function, a, b, dynamic_shapes=(({1: n, 2: n}, {1: n}),))
    after, _ = write_small_matrices(before)
    found = worst_sqnr_db(run_program(before, a, b), run_program(after, a, b))
    assert found > 110, f"{found:.0f} dB"


def test_lengths_without_a_bound_are_left_alone():
    before = capture_program(DeltaRule(), texts(12), dynamic_shapes=({1: torch.export.Dim("n", min=1)},))
    [size] = [node.meta["val"].shape[1] for node in before.exported.graph.nodes if node.name == "x"]
    assert largest_size(size) is None
    assert write_small_matrices(before) == (before, None)


@pytest.mark.parametrize("target", ["xnnpack", "onednn", "onnx-cpu"])
def test_targets_take_every_length(target):
    proved = prove(DeltaRule(), (texts(12),), target, dynamic_shapes=({1: torch.export.Dim("n", **LENGTHS)},))
    assert proved.exit_code == 0, proved.reason
    assert "write_small_matrices" in proved.rewrites
    assert proved.verification["min_sqnr_db"] > 100
