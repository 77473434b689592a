"""What rewrites meet at the edge: nothing at all, numbers, dynamic sizes, half precision, what is written later."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from rewriting import Calls, capture_program, check_rewrite, run_program
from torch import nn

from benchmarks.operators.proof import prove
from edgex.export.rewrites.activations.by_hand import name_activations
from edgex.export.rewrites.activations.choices import bound_by_masks
from edgex.export.rewrites.activations.simpler import write_activations
from edgex.export.rewrites.complex.planes import keep_planes
from edgex.export.rewrites.operators.elementary import write_elementary
from edgex.export.rewrites.operators.formulas import write_formulas
from edgex.export.rewrites.operators.identities import drop_identities
from edgex.export.rewrites.pooling.maximum import write_max_pools
from edgex.export.rewrites.pooling.uneven import write_uneven_averages
from edgex.export.rewrites.stage import _wanted
from edgex.export.settings import ExportSettings, check_settings

X = torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(0))


def written_to_later(x):
    h = x * 2
    q = F.max_pool2d(h, 1, 2)
    h[:].add_(1)
    return q * 2 + h.mean()


class Beside(nn.Module):
    """A constant of one element, of a shape or dtype of its own."""

    def __init__(self, number, run):
        super().__init__()
        self.register_buffer("number", number)
        self.run = run

    def forward(self, x):
        return self.run(x, self.number)


HALF = torch.full((1, 1, 1, 1, 1), 0.5)
SAME = {
    "a pool of single elements": (write_max_pools, Calls(written_to_later)),
    "an average of nothing": (write_uneven_averages, Calls(lambda x: (F.adaptive_avg_pool2d(x, (0, 3)), x * 2))),
    "a softmax of nothing": (write_activations, Calls(lambda x: (F.log_softmax(x[:, :0], 1), x * 2))),
    "a sum of nothing": (write_activations, Calls(lambda x: (torch.logsumexp(x[:, :0], [1]), x * 2))),
    "a cosine of numbers": (write_formulas, Calls(lambda x: F.cosine_similarity(x.sum(), x.mean(), 0) + x)),
    "a mixture by truths": (write_elementary, Calls(lambda x: torch.lerp(x * 1e8, x, (x > 0).float()))),
    "a gelu of more dimensions": (
        name_activations,
        Beside(HALF, lambda x, half: half * x * (1 + torch.erf(x / 2**0.5))),
    ),
    "a gelu of another precision": (
        name_activations,
        Beside(HALF[0].double(), lambda x, half: half * x * (1 + torch.erf(x / 2**0.5))),
    ),
    "a slope of another precision": (
        name_activations,
        Beside(HALF[0].double(), lambda x, half: torch.where(x > 0, x, x * half)),
    ),
    "whole numbers with a slope": (
        name_activations,
        Calls(lambda x: (lambda y: torch.where(y > 0, y, y * 0.2))(x.long())),
    ),
    "a bound of another precision": (
        bound_by_masks,
        Beside(HALF[0].double() * -1e4, lambda x, low: torch.where(torch.ones(8, 8).tril() > 0, x, low)),
    ),
    "planes of a number": (keep_planes, Calls(lambda x: (torch.stack([x.sin(), x.cos()], -1) * 2.0)[..., 0])),
}


@pytest.mark.parametrize("case", SAME)
def test_the_numbers_are_the_same(case):
    rewrite, module = SAME[case]
    before = capture_program(module, X, randomise=False)
    after, _ = rewrite(before)
    for one, other in zip(run_program(before, X), run_program(after, X), strict=True):
        torch.testing.assert_close(other, one)


def of_one_size(x, y):
    return (y * 1).repeat(3, 1) * x.shape[0], torch.stack([y.sin(), y.cos()], -1).mul(x.shape[0])[..., 0]


@pytest.mark.parametrize("rewrite", [drop_identities, keep_planes])
def test_a_size_is_no_tensor(rewrite):
    x, y = torch.randn(3, 4), torch.randn(1, 4)
    shapes = ({0: torch.export.Dim("batch", min=2)}, None)
    before = capture_program(Calls(of_one_size), x, y, dynamic_shapes=(shapes,), randomise=False)
    after, _ = rewrite(before)
    for one, other in zip(run_program(before, x, y), run_program(after, x, y), strict=True):
        torch.testing.assert_close(other, one)


def test_a_place_that_a_run_finds_leaves_planes_stacked():
    def run(x, place):
        return torch.stack([x.sin(), x.cos()], -1).select(0, place.item())[..., 1] * 2

    program = capture_program(Calls(run), X, torch.tensor(1), randomise=False)
    assert keep_planes(program) == (program, None)


@pytest.mark.parametrize(
    ("given", "left_out"), [({"precision": "fp16"}, {"bound_by_masks"}), ({"quantize": "int8"}, {"split_sums"})]
)
def test_some_are_for_float32_alone(given, left_out):
    plain, other = ExportSettings(targets=("xnnpack",)), ExportSettings(targets=("xnnpack",), **given)
    (job,) = check_settings(plain, "net")
    assert left_out <= set(_wanted(job, plain))
    assert not left_out & set(_wanted(job, other))


def test_a_plane_of_inputs_is_checked():
    before = capture_program(Calls(lambda x: torch.stack([x.sin(), x], -1)[..., 1] * 2), X)
    after, _ = keep_planes(before)
    check_rewrite(before, after, X)


class Strongest(nn.Module):
    """A softmax over the edges of each node, as graph attention has it, without the edges from a node to itself."""

    def __init__(self, loops: bool):
        super().__init__()
        self.loops = loops

    def forward(self, x, edges, scores):
        count = x.shape[0]
        if self.loops:
            kept = edges[0] != edges[1]
            edges, scores = edges[:, kept], scores[kept]
            own = torch.arange(count)
            edges = torch.cat([edges, torch.stack([own, own])], 1)
            scores = torch.cat([scores, torch.ones(count, 2)])
        place = edges[1][:, None].expand_as(scores)
        most = scores.new_zeros(count, 2).scatter_reduce(0, place, scores, "amax", include_self=False)
        weights = (scores - most[edges[1]]).exp()
        total = scores.new_zeros(count, 2).scatter_add(0, place, weights)
        return x.new_zeros(count, 2).scatter_add(0, place, weights / total[edges[1]] * x[edges[0]])


@pytest.mark.parametrize("loops", [True, False])
@pytest.mark.parametrize("target", ["xnnpack", "onednn", "onnx-cpu"])
def test_extremes_over_a_number_of_edges_that_varies(target, loops):
    """With the number that a mask leaves, which is bounded by that of the edges, and with a dynamic one."""
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(0, 8, (2, 20), generator=generator)
    given = torch.randn(8, 2, generator=generator), edges, torch.randn(20, 2, generator=generator)
    number = torch.export.Dim("number", min=2, max=40)
    shapes = None if loops else {"x": None, "edges": {1: number}, "scores": {0: number}}
    proved = prove(Strongest(loops), given, target, dynamic_shapes=shapes)
    assert proved.exit_code == 0, proved.reason
