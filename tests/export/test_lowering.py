"""What a target's lowering refuses, with the rewrite that would have written it otherwise."""

import pytest
import torch
from torch import nn

import edgex
from edgex.errors import LoweringError


class Grouped(nn.Module):
    """Tokens in the order of their largest channel, as attention over groups of alike tokens has them."""

    def __init__(self, stable):
        super().__init__()
        self.stable = stable

    def forward(self, x):
        order = torch.sort(x.argmax(-1), dim=-1, stable=self.stable).indices
        return torch.gather(x, 1, order[..., None].expand_as(x))


TOKENS = torch.randn(1, 200, 8, generator=torch.Generator().manual_seed(0))


def test_a_stable_sort_of_equals_is_proved(tmp_path):
    artifact = edgex.export_model(Grouped(True), (TOKENS,), target="xnnpack", output=tmp_path)
    assert artifact.manifest.verification["passed"]


def test_a_sort_that_counts_on_an_order_of_equals_says_so(tmp_path):
    """Without `stable` PyTorch puts any of the equals first, which no engine does alike."""
    if torch.equal(Grouped(True)(TOKENS), Grouped(False)(TOKENS)):
        pytest.skip("PyTorch sorts equal numbers in their order on this processor")
    with pytest.raises(LoweringError) as error:
        edgex.export_model(Grouped(False), (TOKENS,), target="xnnpack", output=tmp_path)
    assert "aten.sort.stable" in error.value.what
    assert "sort_by_topk was dropped" in error.value.why and "stable=True" in error.value.why
