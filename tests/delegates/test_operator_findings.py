"""Operators that came out wrong or were refused on some target, each exported and proved on it."""

from __future__ import annotations

import pytest
import torch
from rewriting import Calls, capture_program
from torch import nn
from torch.nn import functional as F

from benchmarks.operators.proof import prove
from edgex.delegates.registry import get_delegate
from edgex.errors import LoweringError


def rand(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


class ReturnsItsWeight(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.arange(4.0))

    def forward(self, x):
        return x + self.w, self.w


class RelativePositions(nn.Module):
    """Attention of Parakeet and Conformer: what a query has to do with a distance is slid into the mask."""

    def __init__(self):
        super().__init__()
        self.projection = nn.Linear(16, 48)
        self.distances = nn.Parameter(rand(2, 8, 15))

    def forward(self, x):
        q, k, v = (part.view(1, -1, 2, 8).transpose(1, 2) for part in self.projection(x).chunk(3, -1))
        slid = F.pad(q @ self.distances, (1, 0)).view(1, 2, -1, 8)[:, :, 1:].view(1, 2, 8, 15)[..., :8]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=slid * 0.35)
        return y.transpose(1, 2).reshape(1, 8, -1)


class ExpertsInALoop(nn.Module):
    """As Mixtral's was written: rows that a router sends to an expert, and none in some runs."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(8, 3, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 8)) for _ in range(3))

    def forward(self, x):
        weights, chosen = torch.topk(self.router(x).softmax(-1), 2)
        result = torch.zeros_like(x)
        for expert, rows in zip(self.experts, F.one_hot(chosen, 3).permute(2, 1, 0), strict=True):
            rank, row = torch.where(rows)
            result.index_add_(0, row, expert(x[None, row].reshape(-1, 8)) * weights[row, rank, None])
        return result


def channels_last():
    layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(64, 3))
    return layers.to(memory_format=torch.channels_last)


PLACES = torch.tensor([[0, 1, 1], [2, 0, 0]])
PADDING = torch.tensor([[True, True, False, False], [True] * 4])[:, None, None]
IMAGE = rand(1, 3, 12, 12)
RIGHT = {
    "experts in a loop": (ExpertsInALoop(), (rand(5, 8),), "xnnpack"),
    "a mask filled with falsehood": (
        lambda x: x * (x > -1).masked_fill(x > 1, False).float(),
        (rand(4, 5),),
        "onnx-cpu",
    ),
    "a mask's choice": (lambda x: torch.masked_select(x, x[0] > 0).sum() + x, (rand(4, 5),), "onnx-cpu"),
    "logsigmoid": (F.logsigmoid, (rand(4, 5).abs() * 4,), "onnx-cpu"),
    "a sigmoid's logarithm": (lambda x: torch.log(torch.sigmoid(x)), (rand(4, 5).abs() * 4,), "onnx-cpu"),
    "an epsilon that the optimizer takes for zero": (
        lambda x: (
            torch.log(1e-10 + x.relu())
            + F.relu(x).mean(-1, keepdim=True).add(1e-12).rsqrt()
            + x / (torch.linalg.vector_norm(x) + 1e-10)
            + (x.mean().relu() - -1e-12).log()
        ),
        (torch.cat([rand(3, 5), -torch.ones(1, 5)]),),
        "onnx-cpu",
    ),
    "gelu": (nn.Sequential(nn.Linear(8, 16), nn.GELU("tanh")), (rand(2, 3, 8),), "xnnpack"),
    "maximum": (lambda x: x.max(-1).values, (rand(2, 4, 5, 8),), "xnnpack"),
    "maximum that keeps its dimension": (lambda x: x.max(-1, keepdim=True).values, (rand(2, 4, 5, 8),), "xnnpack"),
    "maximum of channels": (lambda x: x.max(1, keepdim=True).values, (rand(2, 4, 5, 8),), "xnnpack"),
    "maximum that XNNPACK has": (lambda x: x.max(2, keepdim=True).values, (rand(2, 4, 5, 8),), "xnnpack"),
    "channels_last": (channels_last(), (rand(1, 3, 6, 6),), "xnnpack"),
    "PReLU of rows": (nn.PReLU(3), (rand(2, 3, 4),), "xnnpack"),
    "PReLU of numbers": (nn.PReLU(3), (rand(2, 3),), "xnnpack"),
    "rsqrt": (torch.rsqrt, (rand(3, 4).abs() + 0.5,), "xnnpack"),
    "resize": (nn.Upsample(scale_factor=1.5, mode="bilinear"), (rand(1, 3, 5, 7),), "xnnpack"),
    "a weight as output": (ReturnsItsWeight(), (rand(3, 4),), "onednn"),
    "einsum": (
        lambda a, b: torch.einsum("...ij,...jk->...ik", a, b), (rand(2, 3, 4, 5), rand(3, 5, 2)), "onnx-cpu"
    ),
    "a divisor": (lambda x: F.avg_pool2d(x, 3, 2, divisor_override=2), (IMAGE,), "onnx-cpu"),
    "angles": (torch.atan2, (rand(4, 5), rand(4, 5)), "onnx-cpu"),
    "logaddexp": (torch.logaddexp, (rand(4, 5) * 9, rand(5) * 9), "onnx-cpu"),
    "logcumsumexp": (lambda x: torch.logcumsumexp(x, 1), (rand(4, 5) * 9,), "onnx-cpu"),
    "a logarithm's and an exponential's last digits": (
        lambda x: torch.log1p(x) + torch.expm1(x + 1e-6), (rand(4, 5) * 1e-4,), "onnx-cpu"
    ),
    "relative positions": (RelativePositions(), (rand(1, 8, 16),), "onnx-cpu"),
    "a squeeze of nothing": (lambda x: (x * 2).squeeze(1), (rand(2, 3),), "onnx-cpu"),
    "scattered means": (
        lambda x, s: torch.scatter_reduce(x, 1, PLACES, s, "mean"), (rand(2, 4), rand(2, 3)), "onnx-cpu"
    ),
    "floor division": (torch.floor_divide, (rand(4, 5), rand(4, 5)), "xnnpack"),
    "remainder": (
        torch.remainder, (torch.tensor([7, -7, 7, -7, 0]), torch.tensor([3, 3, -3, -3, 5])), "onednn"
    ),
    "cropping": (lambda x: F.pad(x, (-1, 2, 1, -2)), (rand(3, 5, 6),), "xnnpack"),
    "group norm": (nn.GroupNorm(2, 8), (rand(1, 8, 24, 24) + 9,), "xnnpack"),
    "batch statistics": (
        lambda x: F.batch_norm(x, torch.zeros(3), torch.ones(3), training=True), (rand(2, 3, 4, 4),), "onnx-cpu"
    ),
    "batch statistics alone": (nn.BatchNorm2d(3, track_running_stats=False), (IMAGE,), "xnnpack"),
    "a constant mask": (lambda x: x[:, torch.tensor([True, False, True])], (IMAGE,), "onednn"),
    "dropout of a permuted tensor": (
        lambda x: F.dropout(x.permute(0, 2, 1), 0.1, False) + 1, (rand(2, 3, 4),), "xnnpack"
    ),
    "padding": (
        lambda x, mask: F.scaled_dot_product_attention(x, x, x, mask), (rand(2, 3, 4, 8), PADDING), "xnnpack"
    ),
    "an RMS norm": (nn.RMSNorm(8), (rand(2, 3, 8),), "onednn"),
    "adaptive maximum": (lambda x: F.adaptive_max_pool2d(x, 4), (IMAGE,), "onednn"),
    "local response": (nn.LocalResponseNorm(2), (IMAGE,), "xnnpack"),
    "video patches": (nn.Conv3d(3, 8, (2, 4, 4), (2, 4, 4)), (rand(1, 3, 4, 8, 8),), "xnnpack"),
    "embedding bag": (nn.EmbeddingBag(10, 6), (torch.tensor([[1, 2, 3], [4, 5, 9]]),), "onednn"),
    "median": (lambda x: x.median(1).values, (rand(4, 5),), "xnnpack"),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_what_was_wrong_or_refused_is_right(name):
    function, args, target = RIGHT[name]
    module = function if isinstance(function, nn.Module) else Calls(function)
    # An engine once ended the test process here, in which a thousand other tests had run.
    proved = prove(module, args, target, fresh=target in ("xnnpack", "onednn"))
    assert proved.exit_code == 0, proved.reason
    assert proved.verification["passed"]


@pytest.mark.parametrize(
    ("target", "words"), [("xnnpack", "torch.fft.rfft"), ("onednn", "torch.fft.rfft"), ("onnx-cpu", "view_as_real")]
)
def test_a_whole_spectrum_among_the_outputs_is_refused_before_lowering_with_what_to_write(target, words):
    program = capture_program(Calls(torch.fft.fft), rand(2, 16))
    delegate = get_delegate(target)
    assert any(left.fatal for left in delegate.plan(program, delegate.options_type()).fallbacks)
    with pytest.raises(LoweringError) as caught:
        delegate.lower(program, delegate.options_type())
    assert words in f"{caught.value.why} {caught.value.fix}"
    proved = prove(Calls(lambda x: torch.view_as_real(torch.fft.fft(x))), (rand(2, 16),), target)
    assert proved.exit_code == 0, proved.reason
