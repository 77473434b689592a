"""Operators written in terms of others: the operator goes, the numbers stay, NaN and infinity among them."""

from __future__ import annotations

import math

import pytest
import torch
from rewriting import Calls, capture_program, check_vals, operators, run_program
from torch.nn import functional as F

from edgex.export.rewrites.activations.simpler import write_activations, write_gelu
from edgex.export.rewrites.folding.literals import fold_literals
from edgex.export.rewrites.indexing.diagonal import slice_diagonals
from edgex.export.rewrites.indexing.mirrors import write_mirrors
from edgex.export.rewrites.indexing.padding import slice_padding
from edgex.export.rewrites.indexing.pieces import slice_pieces
from edgex.export.rewrites.indexing.pixels import permute_pixels
from edgex.export.rewrites.indexing.reductions import name_dimensions
from edgex.export.rewrites.indexing.rolling import slice_apart
from edgex.export.rewrites.indexing.sorting import sort_by_topk
from edgex.export.rewrites.indexing.writes import fill_memory, return_writes
from edgex.export.rewrites.norms.batch_statistics import write_batch_statistics
from edgex.export.rewrites.norms.flat_softmax import flatten_softmax
from edgex.export.rewrites.norms.group_norm import write_group_norm
from edgex.export.rewrites.norms.softmax import move_softmax
from edgex.export.rewrites.operators.arctangent import write_angles
from edgex.export.rewrites.operators.divisions import divide_as_eager
from edgex.export.rewrites.operators.elementary import write_elementary
from edgex.export.rewrites.operators.identities import drop_identities
from edgex.export.rewrites.operators.logarithms import steady_logarithms
from edgex.export.rewrites.operators.powers import write_powers
from edgex.export.rewrites.operators.scans import write_scans
from edgex.export.rewrites.operators.statistics import write_statistics, write_variances
from edgex.export.rewrites.pooling.average import pad_averages, write_average_pools
from edgex.export.rewrites.pooling.ceilings import pad_ceilings
from edgex.export.rewrites.pooling.folds import write_folds
from edgex.export.rewrites.pooling.maximum import write_max_pools
from edgex.export.rewrites.pooling.planes import write_plane_means
from edgex.export.rewrites.products.batches import write_batches
from edgex.export.rewrites.products.conv3d import flatten_conv3d
from edgex.export.rewrites.products.depthwise import split_depthwise
from edgex.export.rewrites.products.einsum import split_einsum
from edgex.export.rewrites.products.experts import write_experts
from edgex.export.rewrites.products.nearest import repeat_by_products, repeat_pixels
from edgex.export.rewrites.products.phases import write_phases
from edgex.export.rewrites.products.sampling import gather_samples
from edgex.export.rewrites.reductions.channel_means import write_channel_means
from edgex.export.rewrites.reductions.large_norms import write_large_norms
from edgex.export.rewrites.scattering.sums import scatter_by_sums, scatter_extremes
from edgex.export.rewrites.weights.bounds import write_bounds
from edgex.export.rewrites.weights.order import order_weights
from edgex.export.rewrites.weights.returned import copy_returned_constants

SPECIAL = torch.tensor([
    0.0, -0.0, 1.0, -1.0, 2.5, -3.7, math.inf, -math.inf, math.nan, 1e30, -1e30, 20.0, -20.0, -100.0, 0.3, -0.3, 5.0
])  # fmt: skip
LEFT, RIGHT = SPECIAL.repeat(len(SPECIAL)), SPECIAL.repeat_interleave(len(SPECIAL))
SIGNED, DIVISORS = torch.arange(-20, 20), torch.tensor([3, -3, 5, -5] * 10)
PLACES = torch.tensor([[0, 1, 1], [2, 0, 0]])


class Clamped(torch.nn.Module):
    """Between buffers without dimensions."""

    def __init__(self, least, most):
        super().__init__()
        self.register_buffer("least", None if least is None else torch.tensor(least))
        self.register_buffer("most", None if most is None else torch.tensor(most))

    def forward(self, x):
        return torch.clamp(x * 2, self.least, self.most)


def rand(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


ELEMENTARY = {
    "exp2": (torch.exp2, SPECIAL),
    "rrelu": (F.rrelu, SPECIAL),
    "clamp by a whole number and another": (lambda x: x.clamp(0, 1.5), SPECIAL),
    "whether all are": (lambda x: torch._is_all_true(x > 0), SPECIAL),
    "fmax": (torch.fmax, LEFT, RIGHT),
    "fmin": (torch.fmin, LEFT, RIGHT),
    "hypot": (torch.hypot, LEFT, RIGHT),
    "copysign": (torch.copysign, LEFT, RIGHT),
    "copysign of a number": (lambda x: torch.copysign(x, -0.0), SPECIAL),
    "signbit": (torch.signbit, SPECIAL),
    "ldexp": (torch.ldexp, SPECIAL, torch.arange(len(SPECIAL)) - 5),
    "round": (lambda x: torch.round(x, decimals=2), SPECIAL),
    "round to tens": (lambda x: torch.round(x, decimals=-1), SPECIAL),
}
SCANS = {
    "cumprod": (lambda x: torch.cumprod(x, 1), rand(3, 7)),
    "logcumsumexp": (lambda x: torch.logcumsumexp(x, 0), rand(9, 2) * 90),
    "cummax": (lambda x: torch.cummax(x, 1).values, rand(3, 7)),
    "cummin": (lambda x: torch.cummin(x, 0).values, rand(3, 7)),
    "places of cummax": (lambda x: torch.cummax(x, -1), torch.stack([SPECIAL, SPECIAL.flip(0)])),
    "places of whole numbers": (lambda x: torch.cummin(x, 0).indices, torch.tensor([[3, 3, 1, 2, 1]]).mT),
}
LOGARITHMS = {
    "logsigmoid": (F.logsigmoid, SPECIAL),
    "logaddexp": (torch.logaddexp, LEFT, RIGHT),
    "a sigmoid's logarithm": (lambda x: torch.log(torch.sigmoid(x) * 2), SPECIAL),
    "a sigmoid that is returned": (lambda x: torch.sigmoid(x * 2).unsqueeze(1), SPECIAL),
    "a sigmoid as denominator": (lambda x: 1 / torch.sigmoid(x), SPECIAL),
}
DIVISIONS = {
    "floor of floats": (torch.floor_divide, LEFT, RIGHT),
    "rounding mode": (lambda a, b: torch.div(a, b, rounding_mode="floor"), LEFT, RIGHT),
    "remainder of integers": (torch.remainder, SIGNED, DIVISORS),
    "remainder by a number": (lambda a: a % -3, SIGNED),
}
SORTS = {
    "values": (lambda x: x.sort(1).values, rand(3, 5)),
    "indices": (lambda x: x.argsort(0, descending=True), rand(3, 5)),
    "msort": (torch.msort, rand(3, 5)),
    "stable": (lambda x: torch.sort(x, stable=True).values, rand(3, 5)),
    **{
        f"stable order{', falling' if falling else ''}": (
            lambda x, d=falling: torch.sort(x, stable=True, dim=1, descending=d).indices,
            torch.cat([rand(2, 17), SPECIAL[None], SPECIAL[None].flip(1), torch.ones(1, 17)]),
        )
        for falling in (False, True)
    },
    "a stable order of integers": (lambda x: x.argsort(dim=0, stable=True), torch.tensor([[3, 1], [1, 1], [3, 0]])),
    "a long stable order": (
        lambda x: torch.sort(x, dim=0, stable=True, descending=True).indices,
        torch.cat([rand(3000, 2).round(decimals=1), SPECIAL[:, None].repeat(60, 2)]),
    ),
    "a long stable order of integers, falling": (
        lambda x: torch.sort(x, stable=True, dim=1, descending=True),
        torch.randint(-90, 90, (2, 5000), generator=torch.Generator().manual_seed(3)),
    ),
    "kthvalue": (lambda x: x.kthvalue(2).values, rand(3, 5)),
    "median": (lambda x: x.median(1).values, torch.cat([rand(3, 6), SPECIAL[:6][None]])),
    "median with NaN": (lambda x: x.median(0).values, SPECIAL.reshape(17, 1)),
    "median of all": (torch.median, rand(3, 6)),
    "median of numbers": (lambda x: x.nanmedian(0).values, SPECIAL.reshape(17, 1).repeat(1, 2)),
    "median of the numbers among all": (torch.nanmedian, SPECIAL),
    "median of no number": (lambda x: x.nanmedian(1, keepdim=True).values, torch.full((2, 3), math.nan)),
    "mode": (lambda x: x.mode(0).values, torch.tensor([[2.0, 1, 1], [1, 3, 2], [2, 3, 3], [1, 0, math.nan]])),
    "quantile": (lambda x: torch.quantile(x, 0.3, 1), rand(3, 6)),
    "quantile of all": (lambda x: torch.quantile(x, 0.95, keepdim=True), rand(3, 7)),
    "quantile with NaN": (lambda x: torch.quantile(x, 0.25, 0, interpolation="higher"), SPECIAL),
    "the nearest quantile": (lambda x: torch.quantile(x, 0.5, 0, interpolation="nearest"), rand(6)),
}


def _scattered(*reductions):
    return {
        f"{reduce}{', and what was there' if own else ''}": (
            lambda x, s, r=reduce, o=own: torch.scatter_reduce(x, 1, PLACES, s, r, include_self=o),
            rand(2, 4),
            rand(2, 3),
        )
        for reduce in reductions
        for own in (False, True)
    }


SCATTERS = {
    **_scattered("sum", "mean"),
    "bags in rows": (lambda w, i: F.embedding_bag(i, w, mode="mean"), rand(4, 5), torch.tensor([[0, 1], [3, 2]])),
    "bags by starts": (
        lambda w, i, o: F.embedding_bag(i, w, o, mode="sum"), rand(4, 5), torch.arange(4), torch.tensor([0, 3])
    ),
    "a histogram": (lambda x: torch.histc(x, 5, -1, 2), torch.cat([rand(50), torch.tensor([-1.0, 2.0, 0.2, 9.0])])),
    "rows by mean": (lambda x, s: x.index_reduce(0, PLACES[1], s, "mean"), rand(3, 4), rand(3, 4) * 2),
    "columns by maximum": (lambda x, s: x.index_reduce(-1, PLACES[0], s, "amax"), rand(2, 4), rand(2, 3)),
    "an empty bag": (
        lambda w, i, o: F.embedding_bag(i, w, o), rand(4, 5), torch.tensor([0, 1, 3, 2]), torch.tensor([0, 2, 2])
    ),
}  # fmt: skip


@torch.library.custom_op("transformers::grouped_mm_fallback", mutates_args=())
def multiply_by_expert(x: torch.Tensor, weights: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """What transformers registers when it is imported, which is no dependency of these tests."""
    starts = [0, *ends.tolist()[:-1]]
    return torch.cat([x[start:end] @ w for start, end, w in zip(starts, ends.tolist(), weights, strict=True)])


multiply_by_expert.register_fake(lambda x, weights, ends: x.new_empty(x.shape[0], weights.shape[2]))
MIXTURES = {
    "few rows": (multiply_by_expert, rand(3, 8), rand(4, 8, 5), torch.tensor([1, 1, 3, 3])),
    "many rows": (multiply_by_expert, rand(9, 8), rand(4, 8, 5), torch.tensor([2, 2, 7, 9])),
}
FILLED = {
    "empty_like": (lambda x: torch.where(x > 9, torch.empty_like(x), x), rand(2, 3)),
    "zeros_like": (lambda x: torch.zeros_like(x, dtype=torch.int64) + x, rand(2, 3)),
    "ones_like": (lambda x: torch.ones_like(x) + x, rand(2, 3).double()),
    "full_like": (lambda x: torch.full_like(x, 1.5) + x, rand(2, 3)),
    "a range from a whole number": (lambda x: torch.arange(1, 4.0) * x, rand(2, 3)),
    "new_full": (lambda x: x.new_full((3,), -math.inf) + x, rand(2, 3)),
}
VIDEO, IMAGE, LAST = rand(2, 3, 4, 8, 8), rand(2, 3, 12, 12), torch.channels_last_3d
AVERAGES = {
    "ceil_mode": (lambda x: F.avg_pool2d(x, 2, 2, ceil_mode=True), IMAGE),
    "a divisor": (lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=5), IMAGE),
    "a divisor, a ceiling that counts": (
        lambda x: F.avg_pool2d(x, 4, (2, 3), 1, ceil_mode=True, count_include_pad=False, divisor_override=2),
        rand(1, 3, 9, 9),
    ),
    "three dimensions, a divisor, a ceiling": (
        lambda x: F.avg_pool3d(x, 2, 1, 1, ceil_mode=True, count_include_pad=False, divisor_override=2),
        VIDEO,
    ),
    "adaptive": (lambda x: F.adaptive_avg_pool2d(x, (4, 6)), IMAGE),
    "three dimensions": (lambda x: F.avg_pool3d(x, 3, 2, 1), VIDEO),
    "three adaptive ones": (lambda x: F.adaptive_avg_pool3d(x, (2, 1, 4)), VIDEO),
    "three that do not divide": (lambda x: F.adaptive_avg_pool3d(x, (3, None, 5)), VIDEO),
    "flat windows, a divisor": (lambda x: F.avg_pool3d(x, (1, 2, 2), divisor_override=3), VIDEO),
    "local response": (lambda x: F.local_response_norm(x, 3), IMAGE),
}
MAXIMA = {
    "ceil_mode": (lambda x: F.max_pool2d(x, 3, 3, ceil_mode=True), IMAGE),
    "adaptive": (lambda x: F.adaptive_max_pool2d(x, (4, 6)), IMAGE),
    "one dimension": (lambda x: F.adaptive_max_pool1d(x, 4), IMAGE[0]),
    "one that does not divide": (lambda x: F.adaptive_max_pool1d(x, 5), IMAGE[0]),
    "windows that do not divide": (lambda x: F.adaptive_max_pool2d(x, (5, 7)), IMAGE),
    "more than there are": (lambda x: F.adaptive_max_pool2d(x, (30, None)), IMAGE),
    "three that do not divide": (lambda x: F.adaptive_max_pool3d(x, (3, 2, 5)), VIDEO),
    "three dimensions": (lambda x: F.max_pool3d(x, 3, 2, 1), VIDEO),
    "three adaptive ones": (lambda x: F.adaptive_max_pool3d(x, (2, 1, 4)), VIDEO),
    "holes": (lambda x: F.max_pool3d(x, 2, 1, 0, 2), VIDEO),
}
CLIP = rand(2, 4, 5, 6, 6)
CONVOLUTIONS = {
    "patches": (torch.nn.Conv3d(4, 8, (2, 3, 3), (2, 3, 3)), CLIP[:, :, :4]),
    "strides and padding": (torch.nn.Conv3d(4, 8, (3, 2, 3), (2, 1, 2), (1, 0, 1)), CLIP),
    "groups and holes": (torch.nn.Conv3d(4, 8, (2, 3, 3), groups=2, dilation=(2, 1, 1)), CLIP),
    "depth 1": (torch.nn.Conv3d(4, 8, (1, 3, 3), bias=False), CLIP),
    "the same size": (torch.nn.Conv3d(4, 8, 3, padding="same"), CLIP),
    "enlarged": (torch.nn.ConvTranspose3d(4, 6, 2, 2), CLIP),
    "enlarged with overlaps": (torch.nn.ConvTranspose3d(4, 6, 3, (2, 2, 1), 1, (1, 1, 0), groups=2, bias=False), CLIP),
    "enlarged with holes": (torch.nn.ConvTranspose3d(4, 6, (2, 3, 3), dilation=(2, 1, 1)), CLIP),
}
MIRRORS = {
    "reflected": (lambda x: F.pad(x, (1, 2, 3, 0), "reflect"), IMAGE),
    "reflected far": (torch.nn.ReflectionPad1d((9, 11)), IMAGE[0]),
    "replicated": (lambda x: F.pad(x, (1, 12, 3, 0), "replicate"), IMAGE),
    "wrapped": (lambda x: F.pad(x, (1, 2, 3, 0), "circular"), IMAGE),
    "three dimensions": (torch.nn.ReplicationPad3d(1), VIDEO),
}
STATISTICS = {
    "variance": (lambda x: x.var((1, 2)), IMAGE),
    "of all": (lambda x: x.var(), IMAGE),
    "deviation": (lambda x: x.std(2, keepdim=True), IMAGE),
    "another correction": (lambda x: x.std(dim=-1, correction=3), IMAGE),
    "the maximum": (lambda x: x.max(2)[0], IMAGE),
    "the minimum": (lambda x: x.min(-1, keepdim=True).values, IMAGE),
}
ACTIVATIONS = {
    "mish": (F.mish, SPECIAL),
    "slopes of a sequence": (F.prelu, rand(2, 6, 5), rand(6)),
    "one slope": (F.prelu, SPECIAL, torch.tensor([0.2])),
    "softplus": (F.softplus, SPECIAL),
    "a sharper softplus": (lambda x: F.softplus(x, 2.5), SPECIAL),
    "logsigmoid": (F.logsigmoid, SPECIAL),
    "selu": (F.selu, SPECIAL),
    "celu": (lambda x: F.celu(x, 0.4), SPECIAL),
    "celu that is elu": (F.celu, SPECIAL),
    "elu with scales": (lambda x: torch.ops.aten.elu(x, 0.7, 2.0, 1.5), SPECIAL),
}
SOFTMAXES = {
    "of channels": (lambda x: x.softmax(1), rand(2, 5, 3, 4)),
    "of rows": (lambda x: x.softmax(-2), rand(2, 5, 3)),
    "of a table": (lambda x: x.softmax(0), rand(5, 3)),
}
FLAT_SOFTMAXES = {
    "of channels": (lambda x: x.softmax(1), rand(2, 13, 3, 4)),
    "of keys": (lambda x: x.softmax(-2), rand(2, 3, 14, 4)),
    "of the first": (lambda x: x.softmax(0), rand(12, 3, 5)),
    "of few numbers, often": (lambda x: x.softmax(1), rand(2, 5, 16, 16)),
    "of two, large ones": (lambda x: x.softmax(1), 1e4 * rand(1, 2, 256)),
}
PIXELS = {
    "as tokens": (lambda x: x.flatten(2).transpose(1, 2), rand(2, 5, 3, 4)),
    "as tokens by a permute": (lambda x: x.view(2, 5, 12).permute(0, 2, 1), rand(2, 5, 3, 4)),
    "out of channels": (lambda x: F.pixel_shuffle(x, 2), rand(2, 12, 3, 4)),
    "into channels": (lambda x: F.pixel_unshuffle(x, 2), rand(2, 3, 6, 4)),
    "among channels": (lambda x: F.channel_shuffle(x, 3), rand(2, 12, 3, 4)),
    "of tokens": (lambda x: x.transpose(-1, 1).unflatten(2, (3, 4)), rand(2, 12, 5)),
    "of tokens by a transpose": (lambda x: x.transpose(1, 2).reshape(2, 5, 3, 4), rand(2, 12, 5)),
}
PLACES_OF_SAMPLES = rand(2, 4, 3, 2)
SAMPLES = {
    f"{padding}{', corners' if corners else ''}": (
        lambda x, g, p=padding, c=corners: F.grid_sample(x, g, padding_mode=p, align_corners=c),
        rand(2, 8, 6, 7), PLACES_OF_SAMPLES,
    )
    for padding in ("zeros", "border") for corners in (False, True)
}  # fmt: skip
PHASES = {
    "of images": (torch.nn.ConvTranspose2d(3, 3, 4, 2, 1, groups=3), rand(1, 3, 5, 4)),
    "of odd kernels": (torch.nn.ConvTranspose2d(3, 3, (3, 5), 2, (0, 1), (1, 0), groups=3), rand(2, 3, 5, 4)),
    "of a sequence": (torch.nn.ConvTranspose1d(4, 4, 12, 2, 5, groups=4, bias=False), rand(1, 4, 9)),
    "of kernels below the stride": (torch.nn.ConvTranspose1d(4, 4, 2, 3, groups=4), rand(1, 4, 9)),
}
NEAREST = {
    "twice": (lambda x: F.interpolate(x, scale_factor=2), rand(2, 5, 3, 4)),
    "to a size": (lambda x: F.interpolate(x, size=(9, 4)), rand(2, 5, 3, 4)),
    "a sequence": (lambda x: F.interpolate(x, scale_factor=3), rand(2, 5, 4)),
}
WINDOWS = {
    "apart": (lambda x: F.unfold(x, (2, 3), stride=(2, 3)), rand(2, 5, 5, 7)),
    "sharing elements": (lambda x: F.unfold(x, (3, 2), (2, 1), (1, 2), (2, 1)), rand(2, 5, 8, 7)),
    "of one image": (lambda x: F.unfold(x, 2, padding=1), rand(5, 4, 4)),
    "of whole strides": (lambda x: F.unfold(x, (4, 6), 1, (1, 2), (2, 3)), rand(2, 5, 9, 13)),
    "of whole strides, put back": (lambda x: F.fold(x, (9, 14), (4, 6), 1, (1, 2), (2, 3)), rand(2, 48, 20)),
    "of audio, put back": (lambda x: F.fold(x, (1, 203), (1, 80), stride=(1, 20)), rand(2, 160, 7)),
    "put back": (lambda x: F.fold(x, (8, 8), 2, stride=2), rand(2, 12, 16)),
    "put back, padding dropped": (lambda x: F.fold(x, (6, 6), 2, padding=1, stride=2), rand(2, 12, 16)),
    "put back short of the end": (lambda x: F.fold(x, (9, 8), 2, stride=2), rand(2, 12, 16)),
    "added up": (lambda x: F.fold(x, (8, 7), 3, 1, 1, 2), rand(2, 18, 16)),
    "added up, apart": (lambda x: F.fold(x, (9, 8), 2, (1, 3), 0, (3, 2)), rand(12, 9)),
    "added up by ones": (lambda x: F.fold(x, (4, 5), (2, 3), padding=(0, 1)), rand(1, 12, 15)),
}
REST = {
    "diagonal": (slice_diagonals, lambda x: x.diagonal(-1, 1, 2), rand(2, 3, 5, 2)),
    "diagonal above": (slice_diagonals, lambda x: x.diagonal(2, 0, -1), rand(4, 3, 5)),
    "diagonal beside infinity": (slice_diagonals, torch.diagonal, torch.tensor([[1, math.inf], [math.nan, 2]])),
    "cropping": (slice_padding, lambda x: F.pad(x, (-1, 2, 1, -2)), rand(2, 5, 6)),
    "a piece counted from the end": (slice_padding, lambda x: torch.narrow_copy(x, -1, 2, 3), rand(2, 6)),
    "cropping only": (slice_padding, lambda x: F.pad(x, (-1, -2)), rand(2, 6)),
    "amax": (name_dimensions, torch.amax, rand(2, 3)),
    "a squeeze of nothing": (name_dimensions, lambda x: x.squeeze(1), rand(2, 3)),
    "a squeeze of one of two": (name_dimensions, lambda x: x.squeeze((0, 1)) * 2, rand(1, 3)),
    "group norm": (write_group_norm, torch.nn.GroupNorm(2, 4), rand(2, 4, 3, 3)),
    "instance norm": (write_group_norm, F.instance_norm, rand(2, 4, 3, 3)),
    "a ceiling": (
        pad_ceilings,
        lambda x: F.avg_pool2d(x, 2, 2, ceil_mode=True, count_include_pad=False),
        IMAGE[..., 1:],
    ),
    "a ceiling, padding counted": (pad_ceilings, lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), IMAGE),
    "a ceiling, padding left out": (
        pad_ceilings,
        lambda x: F.avg_pool2d(x, (3, 2), (2, 3), (1, 0), True, False),
        IMAGE,
    ),
    "a ceiling, a divisor": (pad_ceilings, lambda x: F.avg_pool2d(x, 5, 2, ceil_mode=True, divisor_override=3), IMAGE),
    "a stack of products": (write_batches, torch.matmul, rand(2, 3, 4, 5), rand(2, 3, 5, 2)),
    "a product of computed matrices": (write_batches, torch.mm, rand(4, 5), rand(5, 2)),
    "rows by a computed matrix": (write_batches, lambda a, b: a @ (b * 2).t(), rand(2, 4, 5), rand(3, 5)),
    "a computed weight": (write_batches, F.linear, rand(2, 4, 5), rand(3, 5), rand(3)),
    "a new dimension": (slice_pieces, lambda x: x.unsqueeze(1) * 2, rand(2, 4)),
    "a dimension less": (slice_pieces, lambda x: x.squeeze((0, 2)) * 2, rand(1, 4, 1)),
    "constant bounds": (write_bounds, Clamped(-0.5, 0.25), rand(2, 4)),
    "one constant bound, no end": (write_bounds, Clamped(None, math.inf), rand(2, 4)),
    "a join with nothing": (drop_identities, lambda x: torch.cat([x.new_empty(0), x * 2], 1) * 2, rand(2, 4)),
    "a join of two with nothing": (drop_identities, lambda x: torch.cat([x, x[:, :0], x * 2], 1), rand(2, 4)),
    "the dtype that it has": (drop_identities, lambda x: (x * 2).to(torch.float32) * 2, rand(2, 4)),
    "channels of a volume last": (drop_identities, lambda x: (x * 2).contiguous(memory_format=LAST), VIDEO),
    "a dtype with channels last": (drop_identities, lambda x: (x * 2).to(torch.float64, memory_format=LAST) * 2, VIDEO),
    "dropout that is off": (drop_identities, lambda x: F.dropout(x.mT, 0.5, False) * 2, rand(2, 4, 3)),
    "repetition by its reader": (drop_identities, lambda x, y: x / y.expand(2, 4), rand(2, 4), rand(2, 1)),
    "windows shifted": (slice_apart, lambda x: x.roll((-1, 2), (1, 2)), rand(2, 4, 5)),
    "every second row": (slice_apart, lambda x: x[:, 1::2] * 2, rand(2, 4, 5)),
    "a norm": (write_powers, lambda x: x.norm(dim=-1, keepdim=True), rand(2, 4)),
    "expansion": (repeat_by_products, lambda x: torch.cat([x, x[:, :1].expand(2, 3, 4)], 1), rand(2, 5, 4)),
    "the size that it has": (drop_identities, lambda x: x.expand(2, -1) * 2, rand(2, 4)),
    "batch statistics": (
        write_batch_statistics,
        lambda x: F.batch_norm(x, None, None, training=True),
        rand(2, 4, 3, 3),
    ),
    "one of a dimension": (slice_pieces, lambda x: x.select(1, -1), rand(2, 3, 4)),
    "all of a dimension": (slice_pieces, lambda x: torch.stack(x.unbind(1)[1:], 2), rand(2, 3, 4)),
    "pieces of a size": (slice_pieces, lambda x: x.split(2, 1)[1] * 2, rand(2, 5, 4)),
    "pieces of sizes": (slice_pieces, lambda x: x.split([1, 4], 1)[1] * 2, rand(2, 5, 4)),
    "a number of pieces": (slice_pieces, lambda x: x.chunk(2, -1)[1] * 2, rand(2, 5, 4)),
    "a slice of everything": (drop_identities, lambda x: (x * 2)[:, :5, :] + 1, rand(2, 5, 4)),
    "padding averaged in": (pad_averages, lambda x: F.avg_pool2d(x, 3, 2, 1), IMAGE),
    "atan2": (write_angles, torch.atan2, LEFT, RIGHT),
    "gelu": (write_gelu, lambda x: F.gelu(x, approximate="tanh"), SPECIAL),
    "ellipsis": (split_einsum, lambda a, b: torch.einsum("...ij,...jk->...ik", a, b), rand(2, 3, 4, 5), rand(3, 5, 2)),
}
POWERS = {f"{power}": (lambda x, p=power: x**p, rand(3, 4).abs() + 0.5) for power in (-1, -0.5, 0.5, 3, 4)}
DEPTHWISE = {
    "7 x 7": (torch.nn.Conv2d(3, 3, 7, padding=3, groups=3), rand(2, 3, 9, 8)),
    "7 x 7, less padding": (torch.nn.Conv2d(3, 3, 7, padding=2, groups=3), rand(2, 3, 9, 8)),
    "7 x 7, a stride, holes": (torch.nn.Conv2d(3, 6, 7, 2, (6, 5), 2, 3), rand(2, 3, 15, 15)),
    "a stride, holes": (torch.nn.Conv2d(3, 6, (9, 4), (2, 1), (4, 1), (1, 2), 3, False), rand(1, 3, 14, 9)),
    "two ways": (torch.nn.Conv2d(3, 3, 11, padding="same", groups=3), rand(1, 3, 8, 8)),
    "a sequence": (torch.nn.Conv1d(3, 3, 31, padding=15, groups=3), rand(1, 3, 40)),
    "no padding": (torch.nn.Conv1d(3, 3, 27, 2, "valid", groups=3), rand(1, 3, 40)),
}
CHANNELS = {
    "mean": (lambda x: x.mean(1, keepdim=True), rand(2, 5, 3, 4)),
    "sum of a sequence": (lambda x: x.sum(-2), rand(2, 5, 4)),
}
PLANES = {
    "mean": (lambda x: x.mean((2, 3)), rand(2, 5, 3, 4)),
    "sum": (lambda x: x.sum((-1, -2), keepdim=True), rand(2, 5, 3, 4)),
    "sum of pixels": (lambda x: x.sum((1, 2), keepdim=True), rand(2, 5, 3, 4)),
    "mean of pixels": (lambda x: x.mean((1, 2)), rand(2, 5, 3, 4)),
}
COLUMN = rand(5)
LARGE = rand(2, 4, 256, 512)
LARGE_NORMS = {
    "groups": (lambda x: F.group_norm(x, 2, COLUMN[:4], COLUMN[1:5], 1e-6), LARGE),
    "groups of one batch": (lambda x: F.group_norm(x[:1], 1), LARGE),
    "channels": (lambda x: F.instance_norm(x, weight=COLUMN[:4], bias=COLUMN[1:5]), LARGE),
    "sequences": (lambda x: F.group_norm(x.flatten(2), 4, COLUMN[:4]), LARGE),
    "images as rows": (lambda x: F.layer_norm(x, [4, 256, 512], x[1], x[0]), LARGE),
}
VARIANCES = {
    "over channels": (lambda x: x.std(1, keepdim=True), rand(2, 5, 3)),
    "over planes": (lambda x: x.var((-1, -2), correction=0), rand(2, 5, 3, 4)),
    "over rows": (lambda x: x.var(-1, keepdim=True), rand(2, 5, 7)),
    "over rows of a matrix": (lambda x: x.std(1), rand(5, 7)),
}
TABLES = {
    write_large_norms: LARGE_NORMS,
    write_variances: VARIANCES,
    split_depthwise: DEPTHWISE,
    write_channel_means: CHANNELS,
    write_plane_means: PLANES,
    write_powers: POWERS,
    write_elementary: ELEMENTARY,
    write_scans: SCANS,
    steady_logarithms: LOGARITHMS,
    divide_as_eager: DIVISIONS,
    sort_by_topk: SORTS,
    scatter_by_sums: SCATTERS,
    scatter_extremes: _scattered("amax", "amin"),
    write_experts: MIXTURES,
    fill_memory: FILLED,
    write_average_pools: AVERAGES,
    write_max_pools: MAXIMA,
    flatten_conv3d: CONVOLUTIONS,
    write_mirrors: MIRRORS,
    write_statistics: STATISTICS,
    write_activations: ACTIVATIONS,
    move_softmax: SOFTMAXES,
    flatten_softmax: FLAT_SOFTMAXES,
    permute_pixels: PIXELS,
    repeat_pixels: NEAREST,
    write_phases: PHASES,
    write_folds: WINDOWS,
    gather_samples: SAMPLES,
}
CASES = REST | {
    f"{run.__name__}, {name}": (run, *case) for run, cases in TABLES.items() for name, case in cases.items()
}


@pytest.mark.parametrize("name", CASES)
def test_the_operator_is_gone_and_its_numbers_stay(name):
    run, function, *args = CASES[name]
    module = function if isinstance(function, torch.nn.Module) else Calls(function)
    before = capture_program(module, *args)
    after, rewrite = run(before)
    assert rewrite is not None
    assert (rewrite.name, rewrite.count) == (run.__name__, 1)
    assert rewrite.sources == () or len(rewrite.sources) == 1
    after.exported.validate()
    check_vals(after)
    if run is not divide_as_eager:  # which keeps the division where nothing is zero
        assert run(after) == (after, None)
    for expected, found in zip(run_program(before, *args), run_program(after, *args), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=5e-6, equal_nan=True)


def test_a_place_that_is_no_number_is_a_place_in_the_table():
    grid = PLACES_OF_SAMPLES.clone()
    grid[0, 0, 0] = torch.nan
    function, x, _ = SAMPLES["zeros"]
    after, rewrite = gather_samples(capture_program(Calls(function), x, PLACES_OF_SAMPLES))
    assert rewrite is not None
    (found,), expected = run_program(after, x, grid), function(x, grid)
    assert torch.isnan(found[0, :, 0, 0]).all()
    torch.testing.assert_close(found[1], expected[1], rtol=1e-5, atol=5e-6)


KEPT = {
    "groups of few numbers": (write_large_norms, lambda x: F.group_norm(x, 3), IMAGE),
    "a prime number of numbers": (write_large_norms, lambda x: F.layer_norm(x, [131101]), rand(2, 131101)),
    "bounds for each column": (write_bounds, lambda x, y: torch.clamp(x, y, y + 1), rand(2, 4), rand(4)),
    "indices that are used": (write_max_pools, lambda x: F.adaptive_max_pool2d(x, 4, return_indices=True)[1], IMAGE),
    "a ceiling that counts": (write_average_pools, lambda x: F.avg_pool2d(x, 5, 2, ceil_mode=True), IMAGE),
    "slopes of an image": (write_activations, F.prelu, IMAGE, rand(3)),
    "a variance of rows and columns": (write_variances, lambda x: x.var((1, 3)), IMAGE),
    "a mean of planes": (write_plane_means, lambda x: x.mean((2, 3), keepdim=True), IMAGE),
    "a mean over height": (write_channel_means, lambda x: x.mean(2), IMAGE),
    "a depthwise kernel of 25": (split_depthwise, torch.nn.Conv2d(3, 3, 5, groups=3), IMAGE),
    "a maximum with its place": (write_statistics, lambda x: x.max(1), IMAGE),
    "nearest samples": (
        gather_samples,
        lambda x, g: F.grid_sample(x, g, "nearest", align_corners=False),
        rand(2, 8, 6, 7),
        PLACES_OF_SAMPLES,
    ),
    "groups of channels": (write_phases, torch.nn.ConvTranspose2d(6, 6, 4, 2, groups=3), rand(1, 6, 4, 4)),
    "samples of few channels": (
        gather_samples,
        lambda x, g: F.grid_sample(x, g, align_corners=False),
        IMAGE,
        PLACES_OF_SAMPLES,
    ),
    "elu": (write_activations, F.elu, SPECIAL),
    "an early threshold": (write_activations, lambda x: F.softplus(x, threshold=5), SPECIAL),
    "softmax of few rows as it is quickest": (flatten_softmax, lambda x: x.softmax(1), rand(3, 13, 4)),
    "softmax of the last, flat": (flatten_softmax, lambda x: x.softmax(-1), IMAGE),
    "softmax of the last dimension": (move_softmax, lambda x: x.softmax(-1), IMAGE),
    "other rows as columns": (permute_pixels, lambda x: x.reshape(2, 12, 36).transpose(1, 2), IMAGE),
    "the nearest of a half": (repeat_pixels, lambda x: F.interpolate(x, scale_factor=1.5), IMAGE),
    "the other gelu": (write_gelu, F.gelu, SPECIAL),
    "a sigmoid whose digits do not count": (steady_logarithms, lambda x: (x * torch.sigmoid(x)).unsqueeze(1), SPECIAL),
    "floor division by a number": (divide_as_eager, lambda x: x // 2.5, SPECIAL),
    "a diagonal that is written to": (slice_diagonals, lambda x: x.clone().diagonal().fill_(0), rand(3, 3)),
    "windows of 81 that share elements": (write_folds, lambda x: F.unfold(x, 9), rand(1, 1, 12, 12)),
    "bags of maxima": (scatter_by_sums, lambda w, i: F.embedding_bag(i, w, i, mode="max"), rand(4, 5), torch.arange(3)),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_does_not_fit_stays_as_it_is(name):
    run, function, *args = KEPT[name]
    before = capture_program(Calls(function), *args)
    assert run(before) == (before, None)


def test_a_bound_that_is_nan_stays():
    before = capture_program(Clamped(-1.0, math.nan), rand(2, 4), randomise=False)
    assert write_bounds(before) == (before, None)


BATCH = torch.export.Dim("batch", min=1, max=9)
OF_ANY_BATCH = {
    "pooling": (write_average_pools, lambda x: F.avg_pool3d(x, 2), VIDEO),
    "large kernel": (split_depthwise, torch.nn.Conv2d(3, 3, 7, groups=3), rand(2, 3, 8, 9)),
    "channels": (write_channel_means, lambda x: x.mean(1), IMAGE),
    "softmax": (move_softmax, lambda x: x.softmax(1), IMAGE),
    "flat softmax": (flatten_softmax, lambda x: x.softmax(1), IMAGE),
    "convolution": (flatten_conv3d, torch.nn.Conv3d(3, 4, 3), VIDEO),
    "group norm": (write_group_norm, torch.nn.GroupNorm(3, 3), IMAGE),
    "sort": (sort_by_topk, lambda x: x.median(1).values, rand(2, 7)),
    "scan": (write_scans, lambda x: x.cumprod(1), rand(2, 7)),
    "diagonal": (slice_diagonals, lambda x: x.diagonal(0, 1, 2), rand(2, 4, 4)),
    "mirror": (write_mirrors, torch.nn.ReflectionPad2d(2), IMAGE),
    "variance": (write_statistics, lambda x: x.var((1, 2)), IMAGE),
    "windows": (write_folds, torch.nn.Unfold(3, padding=1), IMAGE),
    "windows put back": (write_folds, torch.nn.Fold((8, 8), 3, padding=1, stride=2), rand(2, 18, 16)),
}


@pytest.mark.parametrize("name", OF_ANY_BATCH)
def test_a_dynamic_batch_stays_dynamic(name):
    run, function, x = OF_ANY_BATCH[name]
    module = function if isinstance(function, torch.nn.Module) else Calls(function)
    shapes = ({0: BATCH},) if isinstance(function, torch.nn.Module) else {"args": ({0: BATCH},)}
    before = capture_program(module, x, dynamic_shapes=shapes)
    after, rewrite = run(before)
    assert rewrite is not None
    for size in (1, 2, 7):
        given = x[:1].repeat(size, *([1] * (x.dim() - 1))) * torch.arange(1, size + 1).reshape(-1, *[1] * (x.dim() - 1))
        (expected,), (found,) = run_program(before, given), run_program(after, given)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("mode", "most"), [("reflect", 2), ("reflect", 9), ("replicate", 12), ("circular", 3)])
def test_padding_with_what_is_there_is_written_for_sizes_that_vary(mode, most):
    sizes = {1: torch.export.Dim("height", min=12, max=40), 2: torch.export.Dim("width", min=12, max=40)}
    function = Calls(lambda x: F.pad(x, (1, most, most, 0), mode))
    before = capture_program(function, rand(3, 16, 18), dynamic_shapes={"args": (sizes,)})
    after, rewrite = write_mirrors(before)
    assert rewrite is not None and write_mirrors(after) == (after, None)
    assert str(after.exported.range_constraints) == str(before.exported.range_constraints)
    for given in (rand(3, 16, 18), rand(3, 12, 40), rand(3, 40, 12)):
        (expected,), (found,) = run_program(before, given), run_program(after, given)
        assert torch.equal(found, expected)


@pytest.mark.parametrize("function", [F.softplus, lambda x: -F.logsigmoid(-x)], ids=["softplus", "logsigmoid"])
def test_a_softplus_keeps_its_digits_far_below_zero(function):
    x = torch.linspace(-80, 30, 500)
    after, _ = write_activations(capture_program(Calls(function), x))
    (found,) = run_program(after, x)
    torch.testing.assert_close(found.double(), F.softplus(x.double()), rtol=5e-7, atol=0)


def test_kernels_of_convolutions_are_constants():
    before = capture_program(torch.nn.Conv3d(4, 8, (2, 3, 3)), CLIP)
    after, _ = flatten_conv3d(before)
    (convolution,) = after.exported.graph.find_nodes(op="call_function", target=torch.ops.aten.conv2d.default)
    assert convolution.args[1].op == "placeholder"
    assert "weight" not in after.exported.state_dict


def test_weights_are_laid_out_in_order():
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten()).to(memory_format=torch.channels_last)
    before = capture_program(module, rand(1, 3, 6, 6))
    assert not before.exported.state_dict["0.weight"].is_contiguous()
    after, rewrite = order_weights(before)
    assert rewrite is not None and rewrite.count == 1
    assert after.exported.state_dict["0.weight"].is_contiguous()
    assert not before.exported.state_dict["0.weight"].is_contiguous()
    torch.testing.assert_close(run_program(after, rand(1, 3, 6, 6)), run_program(before, rand(1, 3, 6, 6)))


def test_a_weight_that_is_an_output_is_there_twice():
    class Returns(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(4))

        def forward(self, x):
            return x + self.w, self.w

    before = capture_program(Returns(), rand(3, 4))
    after, rewrite = copy_returned_constants(before)
    assert rewrite is not None and rewrite.count == 1
    total, weight = after.exported.graph.output_node().args[0]
    assert weight.op == "placeholder" and weight not in total.all_input_nodes
    torch.testing.assert_close(run_program(after, rand(3, 4)), run_program(before, rand(3, 4)))
    assert operators(after) == operators(before)


class Anchors(torch.nn.Module):
    """Writes to slices of a table of literals, and of what it computes."""

    def forward(self, x):
        table = torch.zeros(3, 4)
        table[:, 1] = 5
        table[1:, 2:] += 2
        y = x * 2
        y[:, :2] -= table[:, :2]
        return y + table


def test_writes_into_slices_return_new_values_and_tables_become_constants():
    before = capture_program(Anchors(), rand(3, 4))
    after, rewrite = return_writes(before)
    assert rewrite is not None and rewrite.name == "return_writes"
    after.exported.validate()
    check_vals(after)
    assert return_writes(after) == (after, None)
    folded, _ = fold_literals(after)
    assert not {"aten.zeros.default", "aten.fill.Tensor", "aten.select.int"} & set(operators(folded))
    for program in (after, folded):
        torch.testing.assert_close(run_program(program, rand(3, 4)), run_program(before, rand(3, 4)))


def test_state_is_written_to_as_before():
    class Counts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(2))

        def forward(self, x):
            self.count[0] += 1
            return x + self.count

    before = capture_program(Counts(), rand(3, 2), state=("count",))
    assert return_writes(before) == (before, None)
