"""What kept networks from being one region of a target: the numbers stay, and a block is one call."""

from __future__ import annotations

import pytest
import torch
from onednn_support import needs_onednn
from rewriting import Untouched, capture_program, check_rewrite, operators
from torch import nn
from torch.nn import functional as F

from edgex.export.pipeline import export_to_targets
from edgex.export.rewrites.indexing.pieces import slice_pieces
from edgex.export.rewrites.indexing.rolling import slice_apart
from edgex.export.rewrites.norms.lengths import bound_lengths
from edgex.export.rewrites.norms.plane_norms import write_plane_norms
from edgex.export.rewrites.pooling.extremes import pool_extremes
from edgex.export.rewrites.products.resizes import write_resizes
from edgex.export.settings import ExportSettings
from edgex.export.source.source import wrap_model

IMAGE = torch.randn(2, 8, 9, 12, generator=torch.Generator().manual_seed(0))
TABLE = nn.Parameter(torch.randn(3, 4))


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.scale, self.shift = nn.Parameter(torch.randn(8)), nn.Parameter(torch.randn(8))

    def forward(self, x):
        return self.function(x, self.scale, self.shift)


def normal(x, groups, scale, shift):
    return F.group_norm(x * 3 + 1, groups, scale, shift)


TAKEN = {
    "maxima of planes": (pool_extremes, lambda x, *_: x.amax((2, 3))),
    "maxima of channels": (pool_extremes, lambda x, *_: x.max(1, keepdim=True)[0]),
    "maxima of rows": (pool_extremes, lambda x, *_: x.amax(-1)),
    "minima of columns": (pool_extremes, lambda x, *_: x.amin(2, keepdim=True)),
    "minima of sequences": (pool_extremes, lambda x, *_: x[0].min(1).values),
    "maximum of all but the batch": (pool_extremes, lambda x, *_: x.amax((1, 2, 3))),
    "instance norm": (write_plane_norms, lambda x, *w: F.instance_norm(x, None, None, *w)),
    "instance norm, plain": (write_plane_norms, lambda x, *_: F.instance_norm(x * 100)),
    "group norm": (write_plane_norms, lambda x, *w: normal(x, 4, *w)),
    "a group": (write_plane_norms, lambda x, *w: normal(x, 1, *w)),
    "groups without weights": (write_plane_norms, lambda x, *_: normal(x, 2, None, None)),
    "cosines": (bound_lengths, lambda x, *_: F.normalize(x, dim=-1)),
    "cosines of channels": (bound_lengths, lambda x, *_: F.normalize(x, dim=1, eps=3.0)),
    "every second channel, of what is not contiguous": (slice_apart, lambda x, *_: x.transpose(2, 3)[:, 1::2]),
    "every fifth column": (slice_apart, lambda x, *_: x[..., 2::5]),
    "the last ones": (slice_apart, lambda x, *_: x[:, 3::4]),
    "up to a place": (slice_apart, lambda x, *_: x[:, 1:-1:3]),
    "the last row of an odd number": (slice_pieces, lambda x, *_: x[:, :, ::2]),
    "groups longer than the tensor": (slice_pieces, lambda x, *_: x[:, :, ::8]),
    "the last columns of groups": (slice_pieces, lambda x, *_: x[..., 1::7]),
    "a size": (write_resizes, lambda x, *_: F.interpolate(x, size=(13, 25))),
    "a factor": (write_resizes, lambda x, *_: F.interpolate(x, scale_factor=1.5)),
    "smaller": (write_resizes, lambda x, *_: F.interpolate(x, size=(4, 12))),
    "sequences": (write_resizes, lambda x, *_: F.interpolate(x[0], size=31)),
}
LEFT = {
    "places that are used": (pool_extremes, lambda x, *_: x.max(1)[1]),
    "integers": (pool_extremes, lambda x, *_: x.long().amax(-1)),
    "a weight": (pool_extremes, lambda x, *_: x * TABLE.amax()),
    "dimensions apart": (pool_extremes, lambda x, *_: x.amax((1, 3))),
    "sequences of groups": (write_plane_norms, lambda x, *w: F.group_norm(x[0, None].flatten(2), 4, *w)),
    "other norms": (bound_lengths, lambda x, *_: F.normalize(x, p=1.0, dim=1)),
    "a bound too small": (bound_lengths, lambda x, *_: F.normalize(x, dim=1, eps=1e-30)),
    "no step": (slice_pieces, lambda x, *_: x[:, 2:7]),
    "whole factors": (write_resizes, lambda x, *_: F.interpolate(x, scale_factor=2)),
    "large images": (write_resizes, lambda x, *_: F.interpolate(x[:1, :1].repeat(1, 1, 20, 20), size=(100, 130))),
}
GONE = {
    pool_extremes: ("aten.amax.default", "aten.amin.default", "aten.max.dim", "aten.min.dim"),
    write_plane_norms: ("aten.group_norm.default", "aten.instance_norm.default"),
    bound_lengths: ("aten.linalg_vector_norm.default",),
}


@pytest.mark.parametrize("name", TAKEN)
def test_the_numbers_stay(name):
    write, function = TAKEN[name]
    before = capture_program(Function(function), IMAGE)
    untouched = Untouched(before, IMAGE)
    after, rewrite = write(before)
    check_rewrite(before, after, IMAGE, untouched=untouched)
    assert rewrite is not None
    assert not set(operators(after)) & set(GONE.get(write, ()))
    if write is write_resizes:
        assert operators(after).count("aten.linear.default") == len(function(IMAGE).shape) - 2
    if write in (slice_apart, slice_pieces):
        slices = after.exported.graph.find_nodes(op="call_function", target=torch.ops.aten.slice.Tensor)
        assert all(len(node.args) < 5 or node.args[4] == 1 for node in slices)


@pytest.mark.parametrize("name", LEFT)
def test_others_are_left_alone(name):
    write, function = LEFT[name]
    before = capture_program(Function(function), IMAGE)
    assert write(before) == (before, None)


class Attentive(nn.Module):
    """CBAM's maxima, between norms, on an image that was resized and subsampled."""

    def __init__(self, norm):
        super().__init__()
        self.first, self.norm, self.last = nn.Conv2d(8, 8, 3), norm, nn.Conv2d(8, 8, 1)

    def forward(self, x):
        x = self.norm(self.first(F.interpolate(x, size=(11, 15))))
        x = x * torch.sigmoid(x.amax((2, 3), keepdim=True)) * torch.sigmoid(x.max(1, keepdim=True)[0])
        return self.last(x)[:, :, ::2, 1::2]


class Cosine(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Linear(12, 12), nn.Linear(12, 12)

    def forward(self, x):
        query, key = F.normalize(self.query(x), dim=-1), F.normalize(self.key(x), dim=-1)
        return query @ key.transpose(-2, -1)


class Enlarged(nn.Module):
    """What oneDNN 3.2 has a slow kernel for: a transposed convolution of every channel by itself."""

    def __init__(self):
        super().__init__()
        self.layer, self.up = nn.Conv2d(8, 8, 1), nn.ConvTranspose2d(8, 8, 4, 2, 1, groups=8)

    def forward(self, x):
        return F.logsigmoid(self.up(self.layer(F.interpolate(x, size=(11, 15)))))


@pytest.mark.parametrize(
    ("target", "module"),
    [
        ("xnnpack", Attentive(nn.InstanceNorm2d(8, affine=True))),
        ("xnnpack", Attentive(nn.GroupNorm(4, 8))),
        ("xnnpack", Cosine()),
        pytest.param("onednn", Enlarged(), marks=needs_onednn),
    ],
    ids=["instance norm", "group norm", "cosine", "enlarged"],
)
def test_a_block_is_one_call(target, module, tmp_path):
    with torch.no_grad():
        for parameter in module.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    report = export_to_targets(
        lambda: wrap_model(module.eval(), (IMAGE,), {}, None, "block"),
        ExportSettings((target,), tmp_path),
        name="block",
        stop_at_failure=True,
    )
    (artifact,) = report.artifacts
    assert artifact.plan.fallbacks == ()
    assert artifact.plan.delegate_calls == 1
    if target == "onednn":
        assert "write_phases" in {rewrite["name"] for rewrite in artifact.rewrites}
