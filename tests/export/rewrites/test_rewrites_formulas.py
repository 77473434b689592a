"""Operators that are a short formula of others: the operator goes, the numbers stay."""

from __future__ import annotations

import math

import pytest
import torch
from rewriting import Calls, capture_program, operators, run_program
from torch import nn
from torch.nn import functional as F

from edgex.export.rewrites.operators.formulas import write_formulas

_RANDOM = torch.Generator().manual_seed(0)


def _draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=_RANDOM)


A, B, ROW = _draw(3, 4, 5), _draw(3, 5, 6), _draw(4)
INDEX = torch.tensor([[0, 1, 1, 2], [2, 0, 1, 0]])
EDGES = torch.tensor([math.inf, 88.0, 1e-3, 0.0])
WEIGHT, BIAS = _draw(7, 4, 5), _draw(7)

CASES = {
    "addbmm": (lambda x, a, b: torch.addbmm(x, a, b, beta=0.5, alpha=2), (_draw(4, 6), A, B)),
    "addmv": (torch.addmv, (_draw(4), _draw(4, 5), _draw(5))),
    "dist 2": (lambda a, b: torch.dist(a, b), (A, _draw(3, 4, 5))),
    "dist 1": (lambda a, b: torch.dist(a, b, 1), (A, _draw(3, 4, 5))),
    "dist inf": (lambda a, b: torch.dist(a, b, math.inf), (A, _draw(3, 4, 5))),
    "bilinear": (lambda a, b: F.bilinear(a, b, WEIGHT, BIAS), (_draw(2, 3, 4), _draw(2, 3, 5))),
    "bilinear without bias": (lambda a, b: F.bilinear(a, b, WEIGHT), (_draw(3, 4), _draw(3, 5))),
    "angle": (torch.angle, (torch.tensor([1.0, -2.0, 0.0, math.nan, -math.inf]),)),
    "logaddexp": (torch.logaddexp, (_draw(4, 5) * 40, _draw(4, 5) * 40)),
    "logaddexp of equals and infinities": (
        lambda x, y: torch.logaddexp(torch.cat([x, x, -EDGES]), torch.cat([x, y, -EDGES])),
        (_draw(4), _draw(4) * 1e-3),
    ),
    "a swoosh": (lambda x: torch.logaddexp(torch.zeros(()), x - 4) - 0.08 * x, (_draw(4, 5) * 40,)),
    "logaddexp2": (torch.logaddexp2, (_draw(4, 5) * 40, _draw(4, 5) * 40)),
    "scatter add": (lambda x, s: x.scatter(0, INDEX, s, reduce="add"), (_draw(3, 4), _draw(2, 4))),
    "scatter multiply": (lambda x, s: x.scatter(0, INDEX, s, reduce="multiply"), (_draw(3, 4), _draw(2, 4))),
    "scatter a number": (lambda x: x.scatter(0, INDEX, 2.5, reduce="add"), (_draw(3, 4),)),
    "gather": (lambda x, at: x.gather(0, at), (_draw(3, 4), INDEX.int())),
    "aminmax": (torch.aminmax, (A,)),
    "aminmax of rows": (lambda x: torch.aminmax(x, dim=1, keepdim=True), (A,)),
    "vander": (lambda x: torch.vander(x, 5), (ROW,)),
    "vander as its length": (lambda x: torch.linalg.vander(x), (A,)),
    "a diagonal": (lambda x, y: torch.diagonal_scatter(x, y), (_draw(4, 5), ROW)),
    "a diagonal below": (lambda x, y: torch.diagonal_scatter(x, y, -1, 0, 2), (_draw(5, 3, 4), _draw(3, 4))),
    "a diagonal above": (lambda x, y: torch.diagonal_scatter(x, y, 2), (_draw(4, 5), _draw(3))),
    "steps through memory": (lambda x, y: torch.as_strided_scatter(x, y, (4,), (6,), 1), (_draw(4, 5), ROW)),
    "put": (lambda x, y: torch.put(x, torch.tensor([[0, -1], [7, 3]]), y), (_draw(4, 5), _draw(2, 2))),
    "put and add": (lambda x, y: x.put(INDEX, y, accumulate=True), (_draw(4, 5), _draw(2, 4))),
    "fake quantizer": (lambda x: torch.fake_quantize_per_tensor_affine(x, 0.05, 3, 0, 255), (A * 9,)),
    "fake quantizer by tensors": (
        lambda x, s: torch.fake_quantize_per_tensor_affine(x, s.abs(), torch.tensor(-2, dtype=torch.int32), -8, 7),
        (A, torch.tensor(0.3)),
    ),
    "fake quantizer of channels": (
        lambda x, s: torch.fake_quantize_per_channel_affine(x, s.abs(), INDEX[0].int(), 1, -128, 127),
        (A, ROW),
    ),
    "loss of probabilities": (lambda x, y: F.cross_entropy(x, y.softmax(1)), (_draw(4, 5), _draw(4, 5))),
    "weighed loss of probabilities": (
        lambda x, y, w: F.cross_entropy(x, y.softmax(1), weight=w, label_smoothing=0.2, reduction="sum"),
        (_draw(4, 5, 3), _draw(4, 5, 3), _draw(5).abs()),
    ),
    "loss of smoothed labels": (
        lambda x: F.cross_entropy(x, INDEX[:, :3], label_smoothing=0.1, ignore_index=1),
        (_draw(2, 4, 3),),
    ),
    "weighed loss of smoothed labels": (
        lambda x, w: F.cross_entropy(x, INDEX[0], label_smoothing=0.1, weight=w),
        (_draw(4, 5), _draw(5).abs()),
    ),
    "losses of smoothed labels": (
        lambda x: F.cross_entropy(x, INDEX[0], label_smoothing=0.1, reduction="none"),
        (_draw(4, 5),),
    ),
    "to float64": (lambda x: x.to(torch.float64, non_blocking=True) * 2, (ROW,)),
    "to the same": (lambda x: (x * 2).to("cpu", non_blocking=True), (ROW,)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_formula_computes_the_same(name):
    call, inputs = CASES[name]
    before = capture_program(Calls(call), *inputs)
    after, rewrite = write_formulas(before)
    assert rewrite is not None
    assert write_formulas(after) == (after, None)  # nothing is left of it
    for got, expected in zip(run_program(after, *inputs), run_program(before, *inputs), strict=True):
        torch.testing.assert_close(got, expected, rtol=2e-5, atol=1e-5, equal_nan=True)


def test_an_ordinary_gather_and_conversion_are_left_alone():
    program = capture_program(Calls(lambda x: x.gather(0, INDEX).to(torch.float64)), _draw(3, 4))
    assert write_formulas(program) == (program, None)


def test_a_bilinear_layer_keeps_its_weights_as_constants():
    program = capture_program(nn.Bilinear(4, 5, 7), _draw(3, 4), _draw(3, 5))
    after, _ = write_formulas(program)
    assert "aten.bilinear.default" not in operators(after)


def test_beside_a_finite_number_nothing_is_chosen() -> None:
    before = capture_program(Calls(lambda x: torch.logaddexp(x, torch.full((), 0.5))), _draw(4, 5))
    after, rewrite = write_formulas(before)
    assert rewrite is not None
    assert not {"aten.where.self", "aten.log.default", "aten.log1p.default"} & set(operators(after))
    edges = torch.tensor([math.inf, -math.inf, math.nan, 1e38, -1e38, -20.0]).expand(4, 6)[:, :5].contiguous()
    (found,) = run_program(after, edges)
    torch.testing.assert_close(found, torch.logaddexp(edges, torch.tensor(0.5)), equal_nan=True)
    both = capture_program(Calls(lambda x: torch.logaddexp(x, torch.full((), math.inf))), _draw(4, 5))
    assert "aten.where.self" in operators(write_formulas(both)[0])
