"""State whose initial values are the bytes of something else in the program."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from benchmarks.operators.proof import prove
from edgex.delegates.executorch.exporter.initial_state import initial_state_apart


class Cleared(nn.Module):
    """The natural way to begin anew: the zeros are a constant of the program, and what the state begins with."""

    state: torch.Tensor
    other: torch.Tensor

    def __init__(self, other: torch.Tensor | None) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("state", torch.zeros(1, 4))
        self.register_buffer("other", torch.zeros(1) if other is None else other)
        self.keeps = other is not None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = torch.where(x[0, 0] > 1e6, torch.zeros_like(self.state), self.state)
        mixed = torch.tanh(self.layer(x) + before)
        self.state.copy_(mixed)
        if self.keeps:
            mixed = mixed + self.other
            self.other.mul_(0.5)
        return mixed


@pytest.mark.parametrize("target", ["xnnpack", "onednn"])
@pytest.mark.parametrize("other", [None, torch.full((1, 4), 3.0), torch.zeros(1, 4)], ids=["none", "threes", "zeros"])
def test_state_that_begins_with_the_bytes_of_a_constant_begins_with_them(target: str, other: torch.Tensor | None):
    """It was looked for among the constants: no program could be loaded, or it began with other state's values."""
    torch.manual_seed(0)
    proved = prove(Cleared(other).eval(), (torch.randn(1, 4),), target)
    assert proved.error is None, proved.reason


def test_the_emitter_is_where_it_is_replaced():
    from executorch.exir.emit import _emitter

    before = _emitter._Emitter._tensor_spec_to_evalue
    with initial_state_apart():
        assert _emitter._Emitter._tensor_spec_to_evalue is not before
    assert _emitter._Emitter._tensor_spec_to_evalue is before
