"""What XNNPACK's quantizer annotates of graphs that rewrites have changed, and of those that a caller leaves out."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from edgex.delegates.onednn.delegate import OneDnnDelegate
from edgex.delegates.recipes.observers import make_xnnpack_quantizer
from edgex.delegates.recipes.quantizers import SymmetricInt8


class Pooled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.pool, self.head = nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d((2, 2)), nn.Linear(32, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.pool(self.conv(x).relu()).flatten(1))


class Joined(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.last = nn.Conv2d(3, 4, 1), nn.Conv2d(3, 4, 1), nn.Conv2d(8, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.cat([self.one(x), self.two(x)], 1))


class Recurrent(nn.Module):
    """Of which only the first output is used."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.head = nn.GRU(8, 16, batch_first=True), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.gru(x)[0])


def _convert(
    module: nn.Module, x: torch.Tensor, takes=lambda _node: True, *, pooled_by_average: bool = False, tables=()
):
    traced = torch.export.export(module.eval(), (x,)).module()
    if pooled_by_average:
        for node in traced.graph.find_nodes(op="call_function", target=torch.ops.aten.adaptive_avg_pool2d.default):
            node.target, node.args = torch.ops.aten.avg_pool2d.default, (node.args[0], [3, 3], [3, 3])
        traced.recompile()
    prepared = prepare_pt2e(traced, make_xnnpack_quantizer("minmax", takes, dynamic=False, tables=tables))
    prepared(x)
    return convert_pt2e(prepared)


@pytest.mark.parametrize("pooled_by_average", [False, True])
def test_what_a_rewrite_put_in_place_of_a_pooling_is_no_pooling(pooled_by_average: bool) -> None:
    x = torch.randn(1, 3, 8, 8)
    module = Pooled().eval()
    found = _convert(module, x, pooled_by_average=pooled_by_average)(x)
    assert F.cosine_similarity(found, module(x)).item() > 0.99
    torch.testing.assert_close(found, module(x), atol=0.05, rtol=0.1)


def test_joins_are_left_out_where_they_are_not_taken() -> None:
    x = torch.randn(1, 3, 4, 4)
    for taken in (True, False):
        converted = _convert(Joined(), x, lambda node, taken=taken: taken or "cat" not in node.name)
        (join,) = converted.graph.find_nodes(op="call_function", target=torch.ops.aten.cat.default)
        assert all("dequantize" in str(one.target) for one in join.all_input_nodes) is True
        # Left out, its result goes into the last layer's own observer, and what it reads is not made to share one.
        quantized = next(user for user in join.users if "quantize" in str(user.target))
        scales = {str(one.args[1]) for one in join.all_input_nodes}
        assert (scales == {str(quantized.args[1])}) is taken


def test_a_module_whose_second_output_nobody_reads() -> None:
    x = torch.randn(1, 6, 8)
    assert _convert(Recurrent(), x)(x).shape == (1, 6, 4)


@pytest.mark.parametrize(
    ("layer", "shape", "spared"),
    [
        (nn.Conv2d(64, 8, 1), (1, 64, 8, 6), True),
        (nn.Conv1d(64, 8, 1), (2, 64, 48), True),
        (nn.Conv2d(64, 8, 1), (1, 64, 6, 6), True),
        (nn.Conv2d(64, 8, 1), (1, 64, 3, 9), True),
        (nn.Conv2d(64, 8, 1), (1, 64, 6, 5), False),
        (nn.Conv3d(96, 8, 1, stride=2), (1, 96, 8, 6, 8), True),
        (nn.Conv2d(48, 8, 1), (1, 48, 8, 6), False),
        (nn.Conv2d(64, 8, 1), (1, 64, 7, 7), False),
        (nn.Conv2d(64, 8, 3, padding=1), (1, 64, 8, 6), False),
        (nn.Linear(64, 8), (1, 48, 64), False),
    ],
)
def test_what_onednn_gets_wrong_with_amx_stays_in_float(layer: nn.Module, shape: tuple[int, ...], spared: bool) -> None:
    """Only there: the other engines have kernels of their own."""
    quantizer = OneDnnDelegate().quantizer("int8")
    assert isinstance(quantizer, SymmetricInt8)
    graph = torch.export.export(layer.eval(), (torch.randn(shape),)).graph
    (node,) = [node for node in graph.nodes if node.op == "call_function"]
    reason = quantizer.refusal(node)
    assert (reason is not None and "AMX" in reason) is spared
    assert SymmetricInt8().refusal(node) is None


def test_a_number_of_places_that_varies_may_be_48() -> None:
    shapes = ({2: torch.export.Dim("length", min=4, max=99)},)
    program = torch.export.export(nn.Conv1d(64, 8, 1).eval(), (torch.randn(1, 64, 20),), dynamic_shapes=shapes)
    (node,) = [node for node in program.graph.nodes if node.target == torch.ops.aten.conv1d.default]
    quantizer = OneDnnDelegate().quantizer("int8")
    assert isinstance(quantizer, SymmetricInt8) and quantizer.refusal(node) is not None


def test_pieces_of_what_a_table_gives_keep_its_range() -> None:
    """XNNPACK slices from one range to the same one only."""

    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(8, 16), nn.Linear(8, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = F.gelu(self.one(x))
            return self.two(y[..., :8] * y[..., 8:])

    x = torch.randn(4, 8) * torch.linspace(0.1, 3, 4)[:, None]
    graph = _convert(Gated(), x, tables=("gelu",)).graph
    pieces = graph.find_nodes(op="call_function", target=torch.ops.aten.slice.Tensor)
    assert len(pieces) == 2
    for piece in pieces:
        (quantized,) = piece.users
        assert quantized.args[1:3] == piece.args[0].args[1:3]


def test_computed_weights_stay_in_float() -> None:
    class Modulated(nn.Module):
        def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
            return F.conv2d(x, torch.ones(4, 3, 1, 1) * scale) + F.linear(x, torch.ones(8, 8) * scale)[:, :1]

    graph = torch.export.export(Modulated(), (torch.randn(1, 3, 8, 8), torch.ones(1))).graph
    layers = [node for node in graph.nodes if str(node.target).startswith(("aten.conv", "aten.linear"))]
    assert [SymmetricInt8().refusal(node) for node in layers] == ["its weights are computed in every run"] * 2
