"""Weights in pieces: the very numbers of the whole weight at once, and little memory beside them."""

import pytest
import torch
import torchao.quantization.quant_primitives  # noqa: F401  # torch.ops.torchao
from torch import fx

from edgex.delegates.recipes import pieces
from edgex.export.quantization.linear import conversion
from edgex.export.quantization.linear.conversion import ConvertingInPieces, convert

DEQUANTIZE = torch.ops.torchao.dequantize_affine.default


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", 1000)
    monkeypatch.setattr(conversion, "PIECE", 1000)


def quantized(rows, columns, group):
    generator = torch.Generator().manual_seed(0)
    values = torch.randint(-8, 8, (rows, columns), generator=generator, dtype=torch.int8)
    scale = torch.rand(rows, columns // group, generator=generator)
    zero_point = torch.randint(-2, 2, scale.shape, generator=generator, dtype=torch.int8)
    return values, [1, group], scale, zero_point, torch.int8, -8, 7


@pytest.mark.parametrize(("rows", "columns", "group"), [(7, 320, 32), (100, 64, 64), (3, 2048, 32), (33, 32, 32)])
def test_converted_weights_are_the_same_bits(rows, columns, group):
    arguments = quantized(rows, columns, group)
    expected = DEQUANTIZE(*arguments)
    assert torch.equal(convert(DEQUANTIZE, arguments, {}), expected)
    assert convert(DEQUANTIZE, arguments, {}).dtype == torch.float32


def test_what_has_no_scale_a_row_is_converted_at_once():
    """An activation's scales: one a token, in a block of all dimensions but the last."""
    values, _, _, _, *rest = quantized(64, 64, 64)
    block, scale, zero = [64, 64], torch.tensor([[0.5]]), torch.tensor([[1]], dtype=torch.int8)
    expected = DEQUANTIZE(values, block, scale, zero, *rest)
    assert torch.equal(convert(DEQUANTIZE, (values, block, scale, zero, *rest), {}), expected)
    assert convert(torch.add, (torch.ones(2), 1), {"alpha": 2}).tolist() == [3.0, 3.0]


def test_graphs_run_as_they_do_anyway():
    graph = fx.Graph()
    weight, scale, zero, x = (graph.placeholder(name) for name in ("weight", "scale", "zero", "x"))
    wide = graph.call_function(DEQUANTIZE, (weight, [1, 32], scale, zero, torch.int8, -8, 7))
    graph.output(graph.call_function(torch.ops.aten.linear.default, (x, wide)))
    module = fx.GraphModule(torch.nn.Module(), graph)
    values, _, scales, zeros, *_ = quantized(100, 64, 32)
    inputs = (values, scales, zeros, torch.rand(5, 64, generator=torch.Generator().manual_seed(1)))
    assert torch.equal(ConvertingInPieces(module).run(*inputs), fx.Interpreter(module).run(*inputs))
