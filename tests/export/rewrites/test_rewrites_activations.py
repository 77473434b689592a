"""Activations that forward writes by hand get their names, and powers, logarithms and whole numbers simpler forms."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from rewriting import Calls, capture_program, check_rewrite, operators, program_of, run_program

from edgex.export.rewrites.activations.by_hand import name_activations
from edgex.export.rewrites.activations.simpler import write_activations
from edgex.export.rewrites.composites import expand_composites
from edgex.export.rewrites.numbers.scalars import name_floats
from edgex.export.rewrites.operators.elementary import write_elementary
from edgex.export.rewrites.operators.formulas import write_formulas
from edgex.export.rewrites.operators.powers import write_powers

X = torch.randn(3, 4, 50, generator=torch.Generator().manual_seed(0)) * 3
ROOT = torch.tensor(2.0).sqrt()


class Biased(torch.nn.Module):
    """Attention with linear biases, by whole numbers."""

    def __init__(self):
        super().__init__()
        self.register_buffer("distances", torch.arange(50))

    def forward(self, x):
        return x - self.distances


GELUS = {
    "half last": lambda x: x * (1.0 + torch.erf(x / math.sqrt(2.0))) * 0.5,
    "half first": lambda x: 0.5 * x * (1 + torch.erf(x * 0.7071067811865475)),
    "half between": lambda x: x * 0.5 * (1.0 + torch.erf(x / ROOT)),
    "a distribution": lambda x: x * (0.5 * (1.0 + torch.erf(x / 1.41421))),
    "of a product": lambda x: 0.5 * (x * 2) * (1 + torch.erf((x * 2) / math.sqrt(2))),
    "divided by two": lambda x: x * (torch.erf(x / 2**0.5) + 1) / 2,
}


@pytest.mark.parametrize("case", GELUS)
def test_gelu_is_found(case):
    before = capture_program(Calls(GELUS[case]), X)
    after, rewrite = name_activations(before)
    check_rewrite(before, after, X, min_sqnr_db=90)
    assert rewrite.count == 1
    assert "aten.gelu.default" in operators(after)
    assert "aten.erf.default" not in operators(after)


LEAKY = {
    "above": lambda x: torch.where(x > 0, x, x * 0.2),
    "below": lambda x: torch.where(x < 0, 0.2 * x, x),
    "not above": lambda x: torch.where(x <= 0, x / 5, x),
}


@pytest.mark.parametrize("case", LEAKY)
def test_leaky_relu_is_found(case):
    before = capture_program(Calls(LEAKY[case]), X)
    after, _ = name_activations(before)
    check_rewrite(before, after, X)
    assert operators(after) == ["aten.leaky_relu.default"]


def written_between(x):
    h = x.relu()
    e = torch.erf(h / math.sqrt(2))
    h[0].add_(1)
    return 0.5 * h * (1 + e)


def long_product(x):
    for _ in range(1200):
        x = x * 1.0
    for _ in range(30):
        x = x * x.sign()
    return x


OTHERS = {
    "written between": written_between,
    "a long product": long_product,
    "complex": lambda x: (torch.complex(x, x) * 1j).real,
    "another root": lambda x: x * 0.5 * (1 + torch.erf(x / 1.5)),
    "another half": lambda x: x * (1 + torch.erf(x / math.sqrt(2))),
    "another x": lambda x: 0.5 * x.exp() * (1 + torch.erf(x / math.sqrt(2))),
    "another one": lambda x: 0.5 * x * (2 + torch.erf(x / math.sqrt(2))),
    "a difference": lambda x: 0.5 * x * torch.sub(torch.erf(x / math.sqrt(2)), 1),
    "a third factor": lambda x: 0.5 * x * (1 + torch.erf(x / math.sqrt(2))) * x,
    "a divisor": lambda x: 0.5 * (1 + torch.erf(x / math.sqrt(2))) / x,
    "float64": lambda x: 0.5 * x.double() * (1 + torch.erf(x.double() / math.sqrt(2))),
    "another limit": lambda x: torch.where(x > 1, x, x * 0.2),
    "other sides": lambda x: torch.where(x > 0, x * 0.2, x),
    "a steep slope": lambda x: torch.where(x > 0, x, x * 2),
    "a number": lambda x: torch.where(x > 0, x, 0.2),
    "two tensors": lambda x: torch.where(x > 0, x, x * x),
}


@pytest.mark.parametrize("case", OTHERS)
def test_others_are_left(case):
    program = capture_program(Calls(OTHERS[case]), X)
    after, _ = name_activations(program)
    assert not {"aten.leaky_relu.default"} & set(operators(after))
    assert case == "a third factor" or after is program
    check_rewrite(program, after, X)


POWERS = {
    "three quarters": (lambda x: x**0.75, 1),
    "cube root": (lambda x: x ** (1 / 3), 1),
    "below zero": (lambda x: x**-1.5, 1),
}


@pytest.mark.parametrize("case", POWERS)
def test_powers_are_exponentials(case):
    function, count = POWERS[case]
    x = torch.rand(500, generator=torch.Generator().manual_seed(0)) * 5 + 1e-3
    before = capture_program(Calls(function), x)
    after, rewrite = write_powers(before)
    check_rewrite(before, after, x)
    assert rewrite.count == count
    assert "aten.pow.Tensor_Scalar" not in operators(after)


@pytest.mark.parametrize("case", POWERS)
def test_powers_of_special_numbers_are_as_before(case):
    x = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, -1.0, 1.0, 1e-42, 3e38])
    before = capture_program(Calls(POWERS[case][0]), x)
    after, _ = write_powers(before)
    (expected,), (found,) = run_program(before, x), run_program(after, x)
    # Of minus infinity C has infinity or zero, and of no other number below zero any power.
    expected[3] = math.nan
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=0, equal_nan=True)


@pytest.mark.parametrize("exponent", [5, 17.5, -20.25, 7.0])
def test_other_powers_are_left(exponent):
    program = capture_program(Calls(lambda x: x**exponent), X)
    assert write_powers(program) == (program, None)


ELEMENTARY = {
    "both bounds": lambda x: torch.clamp(x, x.mean() - 1, x.mean() + 0.5),
    "the least": lambda x: torch.clamp(x, min=x.mean(-1, keepdim=True)),
    "the most": lambda x: torch.clamp_max(x, x.mean(0)),
    "between, by a number": lambda x: torch.lerp(x, x.exp(), 0.3),
    "beyond, by a number": lambda x: torch.lerp(x, x.exp(), 0.75),
    "between, by a tensor": lambda x: torch.lerp(x, x.exp(), x.sigmoid()),
    "a cross product": lambda x: torch.linalg.cross(x[:, :3], x.exp()[:, 1:4], dim=1),
    "a cross product of the first": lambda x: torch.cross(x, x.exp(), 0),
}


@pytest.mark.parametrize("case", ELEMENTARY)
def test_bounds_mixtures_and_cross_products_are_elementary(case):
    before = capture_program(Calls(ELEMENTARY[case]), X)
    after, rewrite = write_elementary(before)
    check_rewrite(before, after, X)
    assert rewrite.count == 1
    assert not {"clamp", "clamp_max", "lerp", "linalg_cross"} & {name.split(".")[1] for name in operators(after)}


def test_a_cosine_is_a_formula():
    before = capture_program(Calls(lambda x: F.cosine_similarity(x, x.exp()[:1], 1)), X)
    after, rewrite = write_formulas(before)
    check_rewrite(before, after, X)
    assert rewrite.count == 1
    assert "aten.cosine_similarity.default" not in operators(after)


@given(st.integers(-2, 1), st.floats(-80, 80), st.booleans())
@settings(max_examples=examples(20), deadline=None)
def test_logarithms_of_softmax_are_differences(dim, offset, of_images):
    x = (X if of_images else X[0]) + offset
    before = capture_program(Calls(lambda x: F.log_softmax(x, dim)), x)
    after, _ = write_activations(before)
    check_rewrite(before, after, x)
    assert not any("log_softmax" in name for name in operators(after))


@pytest.mark.parametrize("keepdim", [True, False])
@pytest.mark.parametrize("dims", [[1], [-1], [0, 2]])
def test_logarithms_of_sums_are_of_smaller_ones(dims, keepdim):
    x = X * 30
    before = capture_program(Calls(lambda x: torch.logsumexp(x, dims, keepdim)), x)
    after, rewrite = write_activations(before)
    check_rewrite(before, after, x)
    assert rewrite.count == 1
    assert "aten.logsumexp.default" not in operators(after)


def test_logarithms_of_sums_of_infinity_are_as_before():
    x = torch.tensor([[0.0, -math.inf, 1.0], [math.nan, 0.0, 1.0], [math.inf, 0.0, 1.0], [-math.inf] * 3])
    before = capture_program(Calls(lambda x: torch.logsumexp(x, 1)), x)
    after, _ = write_activations(before)
    (expected,), (found,) = run_program(before, x), run_program(after, x)
    torch.testing.assert_close(found, expected, equal_nan=True)


def test_what_has_no_chance_is_not_a_number_or_minus_infinity_as_before():
    x = torch.tensor([[0.0, -math.inf, 1.0], [math.nan, 0.0, 1.0], [math.inf, 0.0, 1.0], [-math.inf] * 3])
    before = capture_program(Calls(lambda x: F.log_softmax(x, 1)), x)
    after, _ = write_activations(before)
    (expected,), (found,) = run_program(before, x), run_program(after, x)
    torch.testing.assert_close(found, expected, equal_nan=True)


def test_whole_numbers_beside_floats_are_floats():
    before = capture_program(Calls(lambda x: (1 - x) * 3 + 2 - (x - 4) / 5), X)
    after, rewrite = name_floats(before)
    check_rewrite(before, after, X)
    assert rewrite.count == 5
    literals = [arg for node in after.exported.graph.nodes for arg in node.args if isinstance(arg, int)]
    assert literals == []


def test_constants_of_whole_numbers_beside_floats_are_floats():
    before = capture_program(Biased(), X)
    after, rewrite = name_floats(before)
    check_rewrite(before, after, X)
    assert rewrite.count == 1
    (subtraction,) = after.exported.graph.find_nodes(op="call_function", target=torch.ops.aten.sub.Tensor)
    assert {node.meta["val"].dtype for node in subtraction.all_input_nodes} == {torch.float32}


def test_whole_numbers_beside_whole_ones_stay():
    program = capture_program(Calls(lambda x, y: (y + 1, x * 2.0)), X, torch.arange(3))
    assert name_floats(program) == (program, None)


def test_what_a_formula_writes_to_is_its_own():
    """`nanmean` turns a mask around in place, which programs that were taken apart do not allow."""
    x = torch.where(X > -6, X, math.nan)
    exported = torch.export.export(Calls(lambda x: torch.nanmean(x * 2, 1)), (x,))
    before = program_of(exported, (x,))
    after, _ = expand_composites(before)
    check_rewrite(before, after, x)
    assert "aten.logical_not.default" in operators(after)
    assert "aten.logical_not_.default" not in operators(after)
