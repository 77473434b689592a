"""Means along rows as products: the numbers stay, and a block with RMS norms is one call of XNNPACK."""

from __future__ import annotations

import pytest
import torch
from rewriting import Untouched, capture_program, check_rewrite, operators
from torch import nn

from benchmarks.operators.proof import prove
from edgex.export.pipeline import export_to_targets
from edgex.export.rewrites.reductions.row_means import write_row_means
from edgex.export.settings import ExportSettings
from edgex.export.source.source import wrap_model

X = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(0))


TABLE = nn.Parameter(torch.randn(3, 4))


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.randn(12))

    def forward(self, x):
        return self.function(x, self.weight)


TAKEN = {
    "mean": lambda x, _: x.mean(-1),
    "sum": lambda x, _: x.sum(2, keepdim=True),
    "norm": lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w,
    "rms_norm": lambda x, w: nn.functional.rms_norm(x, [12], w, 1e-5),
    "rms_norm, plain": lambda x, _: nn.functional.rms_norm(x, [12]),
}
LEFT = {
    "another dimension": lambda x, _: x.mean(1),
    "two dimensions": lambda x, _: x.mean((1, 2)),
    "integers": lambda x, _: x.long().sum(-1),
    "a weight": lambda x, _: x * TABLE.sum(-1)[0],
    "one number": lambda x, _: x[..., :1].mean(-1),
    "a row alone": lambda x, _: x[0, 0].mean(-1),
    "rms_norm of two dimensions": lambda x, _: nn.functional.rms_norm(x, [5, 12]),
}


@pytest.mark.parametrize("name", TAKEN)
def test_the_numbers_stay(name):
    before = capture_program(Function(TAKEN[name]), X)
    untouched = Untouched(before, X)
    after, rewrite = write_row_means(before)
    check_rewrite(before, after, X, untouched=untouched)
    assert rewrite.count == 1
    assert "aten.linear.default" in operators(after)


@pytest.mark.parametrize("name", LEFT)
def test_what_is_no_row_is_left_alone(name):
    before = capture_program(Function(LEFT[name]), X)
    after, rewrite = write_row_means(before)
    assert after is before
    assert rewrite is None


def test_a_block_with_norms_is_one_call():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.layer = nn.RMSNorm(12), nn.Linear(12, 12)

        def forward(self, x):
            y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
            y = y + x * torch.rsqrt(x.var(-1, keepdim=True) + 1e-6)
            return x + nn.functional.silu(self.layer(self.norm(y * 3)))

    batch = torch.export.Dim("batch", min=2, max=40)
    proved = prove(Block(), (X,), "xnnpack", dynamic_shapes=({0: batch},))
    assert proved.exit_code == 0, proved.reason
    assert not [warning for warning in proved.warnings if "is called" in warning]


@pytest.mark.parametrize("recipe", ["8da8w", "int8-dynamic"])
def test_a_recipe_quantizes_the_models_layers_alone(recipe, tmp_path):
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.layer, self.memory = nn.RMSNorm(32), nn.Linear(32, 32), nn.GRU(32, 32, batch_first=True)

        def forward(self, x):
            return self.memory(self.layer(self.norm(x)))[0]

    x = torch.randn(2, 4, 32, generator=torch.Generator().manual_seed(0))
    report = export_to_targets(
        lambda: wrap_model(Block().eval(), (x,), {}, None, "block"),
        ExportSettings(("xnnpack",), tmp_path, quantize=recipe),
        name="block",
        stop_at_failure=True,
    )
    (artifact,) = report.artifacts
    written = {rewrite["name"] for rewrite in artifact.rewrites}
    assert "write_row_means" in written and "write_recurrences" not in written
    assert not [one for one in artifact.quantization["unquantized"] if "linear" in one["op"]]
    assert not [fallback for fallback in artifact.plan.fallbacks if "mean" in fallback.op]
