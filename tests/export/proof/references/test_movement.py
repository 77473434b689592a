"""Eager's own answer where last bits move: of inputs, and of weights as every layer's rounding would."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from edgex.export.capture.program import capture
from edgex.export.proof.references.movement import measure_movement_db, moved_weights
from edgex.runtime.artifact.golden import Case, Step


def test_where_the_last_bits_decide_eager_moves_as_far() -> None:
    norms = nn.Sequential(*(layer for _ in range(3) for layer in (nn.Conv1d(4, 4, 3), nn.InstanceNorm1d(4)))).eval()
    x = torch.randn(1, 4, 40, generator=torch.Generator().manual_seed(0))
    found = {}
    for name, module in (("norms", norms), ("one layer", norms[0])):
        eager = capture(module, (x,), source_root=Path(__file__).parent).eager
        (answer,) = eager.run([torch.zeros_like(x)])
        zero = Case(
            "stress: zero", "compare", (Step({"input": 0 * x.numpy()}, {eager.outputs[0].name: answer.numpy()}),)
        )
        moved = measure_movement_db(zero, [Case("example", "compare", (Step({"input": x.numpy()}, {}),)), zero], eager)
        assert moved is not None
        (found[name],) = moved.values()
    assert found["one layer"] > 110, found
    assert found["norms"] < 60, found


class Saturated(nn.Module):
    """Attention among two nearly equal scores: the last bits of the inputs leave these as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.keys = nn.Parameter(torch.tensor([[1.0, 3e-8], [1.0, -3e-8]]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = (x.sign() * 1e9) @ self.keys.T
        return (scores.softmax(-1) * torch.tensor([1.0, -1.0])).sum(-1)


def test_rounding_within_the_network_shows_by_its_weights() -> None:
    eager = capture(Saturated(), (torch.ones(4, 2),), source_root=Path(__file__).parent).eager
    x = np.full((4, 2), 16, np.float32)
    (answer,) = eager.run([torch.from_numpy(x)])
    case = Case("stress: large", "compare", (Step({"x": x}, {eager.outputs[0].name: answer.numpy()}),))
    moved = measure_movement_db(case, [case], eager)
    assert moved is not None
    assert min(moved.values()) < 20, moved


@pytest.mark.parametrize("seed", [0, 1])
def test_weights_move_by_their_last_bit_and_are_what_they_were(seed: int) -> None:
    layer = nn.Linear(8, 4)
    before, weight = layer.weight.data.clone(), layer.weight.data
    with moved_weights(layer, seed):
        moved = layer.weight.data.clone()
    assert layer.weight.data is weight or torch.equal(layer.weight.data, before)
    assert not torch.equal(moved, before)
    torch.testing.assert_close(moved, before, rtol=3e-7, atol=0)
