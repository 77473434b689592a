"""XNNPACK takes tensors whose size the program reads from another, where the program says that none is empty."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from executorch.backends.xnnpack.partition.config import xnnpack_config
from rewriting import randomise_weights
from torch import nn
from torch.export import Dim

from benchmarks.operators.proof import prove
from edgex.delegates.executorch import exir
from edgex.delegates.xnnpack.layout_pass import sizes_of_run_time_in_order
from edgex.delegates.xnnpack.partitioner import make_partitioner
from edgex.delegates.xnnpack.run_time_sizes import sizes_of_run_time


class Prefix(torch.nn.Module):
    def __init__(self, least: int) -> None:
        super().__init__()
        self.least = least

    def forward(self, x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        size = count.item()
        torch._check(size >= self.least)
        torch._check(size <= 64)
        return torch.sigmoid(x.narrow(1, 0, size))


@pytest.mark.parametrize(("least", "taken"), [(1, True), (0, False)])
def test_a_size_of_run_time_is_taken_where_it_is_at_least_one(least: int, taken: bool) -> None:
    program = torch.export.export(Prefix(least), (torch.randn(3, 64), torch.tensor([5])))
    edge = exir.lower_to_edge(program, make_partitioner(lambda _edge, _refuse: None))
    left = {str(node.target) for node in edge.exported_program().graph.nodes}
    assert any("sigmoid" in name for name in left) != taken, left


class Chosen(torch.nn.Module):
    """Counts what it chooses, and returns nothing of it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer(x)
        x[x.sum(-1) > 0].clamp(min=0)
        return self.layer(torch.relu(x))


def test_checks_of_sizes_are_gone_when_regions_are_lowered() -> None:
    program = torch.export.export(Chosen(), (torch.randn(5, 8),))
    assert any("assert" in str(node.target) for node in program.graph.nodes)
    edge = exir.lower_to_edge(program, make_partitioner(lambda _edge, _refuse: None))
    assert len(exir.regions_of(edge.exported_program())) == 1


def test_the_check_of_executorch_is_where_it_is_replaced() -> None:
    before = xnnpack_config.has_free_unbacked_symbols
    with sizes_of_run_time():
        assert xnnpack_config.has_free_unbacked_symbols is not before
    assert xnnpack_config.has_free_unbacked_symbols is before


class Latent(nn.Module):
    """Attention of DeepSeek over the filled part of a cache of one latent for all heads."""

    def forward(self, query: torch.Tensor, cache: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        seen = count.item()
        torch._check(seen >= 1)
        torch._check(seen <= 32)
        latent = cache.narrow(1, 0, seen)
        scores = torch.einsum("bshc,btc->bsht", query, latent).softmax(-1)
        return torch.einsum("bsht,btc->bshc", scores, latent)


class Layers(nn.Module):
    """A function of layers and inputs."""

    def __init__(self, function: Callable[..., torch.Tensor], **layers: nn.Module) -> None:
        super().__init__()
        self.function = function
        self.layers = nn.ModuleDict(layers)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.function(self.layers, x, y)


BATCH, COUNT, LENGTH = Dim("batch", min=1, max=4), Dim("count", min=2, max=9), Dim("length", min=2, max=40)


def test_scores_over_as_much_of_a_cache_as_only_the_run_knows_are_lowered() -> None:
    """ExecuTorch 1.5 asked in which order of dimensions `[1, s, heads, u]` lies, which nothing could answer."""
    args = torch.randn(1, 3, 4, 8), torch.randn(1, 32, 8), torch.tensor([5])
    proved = prove(Latent(), args, "xnnpack", dynamic_shapes=({1: COUNT}, None, None))
    assert proved.error is None, proved.reason


def test_the_question_for_the_order_is_where_it_is_replaced() -> None:
    from executorch.backends.xnnpack._passes.channels_last_tagged_reshape_pass import ChannelsLastTaggedReshapePass

    kind: Any = ChannelsLastTaggedReshapePass
    image = torch.randn(1, 3, 4, 5)
    with sizes_of_run_time_in_order():
        assert [kind._is_nhwc_tensor(image.to(memory_format=order)) for order in ORDERS] == [False, True]
    assert [kind._is_nhwc_tensor(image.to(memory_format=order)) for order in ORDERS] == [False, True]


ORDERS = (torch.contiguous_format, torch.channels_last)


def outer(_: nn.ModuleDict, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x[..., :1] * y[..., :1].mT).unsqueeze(-1).sigmoid() * 2


def latent(_: nn.ModuleDict, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    scores = torch.einsum("bshc,btc->bsht", x.unflatten(-1, (2, 4)), y[..., :4]).softmax(-1)
    return torch.einsum("bsht,btc->bshc", scores, y)


def decayed(_: nn.ModuleDict, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The dual form of Mamba 2."""
    sums = x.cumsum(1)
    decay = (sums[:, :, None] - sums[:, None]).sigmoid()
    return torch.einsum("bld,bsd,blsd,bsd->bld", x, x, decay, x) + y.mean(1, keepdim=True)


def convolved(layers: nn.ModuleDict, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x = layers["transposed"](layers["same"](layers["plain"](x.mT).relu()))
    return x.sigmoid().mean(-1) + y.mean(1)


def convolutions() -> dict[str, nn.Module]:
    return {
        "plain": nn.Sequential(nn.Conv1d(8, 12, 3, padding=1), nn.BatchNorm1d(12)),
        "same": nn.Conv1d(12, 12, 5, padding="same", groups=12, dilation=2),
        "transposed": nn.ConvTranspose1d(12, 8, 3, stride=2, padding=1, output_padding=1),
    }


@pytest.mark.parametrize(
    ("function", "layers"),
    [(outer, None), (latent, None), (decayed, None), (convolved, convolutions)],
    ids=lambda part: getattr(part, "__name__", ""),
)
def test_two_sizes_that_vary_are_no_reason_to_refuse_a_program(
    function: Callable[..., torch.Tensor], layers: Callable[[], dict[str, nn.Module]] | None
) -> None:
    """Its reshapes find one size: ExecuTorch 1.5 noticed behind the partitioner, and gave the program up."""
    torch.manual_seed(0)
    module = Layers(function, **({} if layers is None else layers())).eval()
    randomise_weights(module)
    shapes = {0: BATCH, 1: COUNT}, {0: BATCH, 1: LENGTH}
    proved = prove(module, (torch.randn(2, 6, 8), torch.randn(2, 9, 8)), "xnnpack", dynamic_shapes=shapes)
    assert proved.error is None, proved.reason
    assert proved.delegated


def test_a_convolution_that_is_not_rewritten_is_left_out_with_its_reason() -> None:
    shapes = ({0: BATCH, 2: LENGTH},)
    program = torch.export.export(nn.Conv1d(4, 8, 3, padding=1), (torch.randn(2, 4, 9),), dynamic_shapes=shapes)
    reasons: list[str] = []

    def read(edge: Any, refuse: Any) -> None:
        found = [node for node in edge.graph.nodes if "convolution" in str(node.target)]
        reasons.extend(refuse(node).reason for node in found)

    exir.lower_to_edge(program, make_partitioner(read))
    assert len(reasons) == 1
    assert "reshape finds one size at most" in reasons[0]
