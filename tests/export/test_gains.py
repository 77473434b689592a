"""What rewrites won is the difference of two plans, at the lines that they changed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import edgex
from edgex.delegates.registry import get_delegate, parse_options
from edgex.export import gains
from edgex.export.capture.program import capture
from edgex.export.rewrites import apply_rewrites, wanted_rewrites
from edgex.runtime.artifact.artifact import open_artifact

HERE = Path(__file__).parent
X = torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(0))


class Images(nn.Module):
    """Operators that XNNPACK has only as rewrites make them, and one that it never has."""

    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8)

    def forward(self, x):
        x = self.norm(self.layer(x))
        x = nn.functional.elu(x)
        return torch.cumsum(x.amax(-1), -1).topk(3, dim=-1).values


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.GRU(16, 4)

    def forward(self, x):
        return self.layer(x)[0]


def _counted(module, args, target="xnnpack"):
    program = capture(module.eval(), args, source_root=HERE).program
    delegate = get_delegate(target)
    options = parse_options(delegate, {})
    rewritten, applied = apply_rewrites(program, wanted_rewrites(delegate))
    before, after = delegate.plan(program, options), delegate.plan(rewritten, options)
    counted = gains.count_gains(program, applied, after, delegate, options)
    return {rewrite.name: rewrite.won for rewrite in counted}, before, after


def test_each_rewrite_has_its_operators():
    won, before, after = _counted(Images(), (X,))
    assert won["write_plane_norms"] == 1 and won["pool_extremes"] == 1
    left = [sum(item.count for item in plan.fallbacks) for plan in (before, after)]
    assert sum(won.values()) == left[0] - left[1], "all operators that moved, and none twice"
    assert any(item.op == "aten.topk.default" for item in after.fallbacks)


def test_what_was_not_counted_is_none(monkeypatch):
    assert set(_counted(Layer(), (X[0],))[0].values()) == {None}
    monkeypatch.setattr(gains, "MOST_NODES", 3)
    assert set(_counted(Images(), (X,))[0].values()) == {None}


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_the_manifest_has_it(precision, tmp_path):
    artifact = edgex.export_model(
        Images(), (X,), target="xnnpack", precision=precision, output=tmp_path / "i.xnnpack.edgex"
    )
    rewrites = {one["name"]: one for one in artifact.manifest.rewrites}
    assert rewrites["write_plane_norms"]["won"] == (1 if precision == "fp32" else None)
    assert [*open_artifact(artifact.path).manifest.rewrites] == [*artifact.manifest.rewrites]
