"""Functions that XNNPACK computes by others: eager's numbers, in the delegate, and at the points that it gets wrong."""

from __future__ import annotations

import math

import pytest
import torch
from rewriting import Calls, capture_program, check_rewrite, operators, run_program

from benchmarks.operators.proof import prove
from edgex.delegates.xnnpack.delegate import XnnpackDelegate, XnnpackOptions
from edgex.export.rewrites import apply_rewrites, wanted_rewrites
from edgex.export.rewrites.operators.portable_functions import LEAST, spare_portable_functions

SIGNED = torch.randn(4, 257, generator=torch.Generator().manual_seed(0)) * 3
POSITIVE = torch.cat([SIGNED.abs(), torch.tensor([[0.0, LEAST, LEAST / 8, 1e-30, 1e30]]).expand(4, 5)], 1)

FUNCTIONS = {
    "sqrt": (torch.sqrt, POSITIVE),
    "erf": (torch.erf, SIGNED),
    "log1p": (torch.log1p, torch.cat([POSITIVE, torch.full((4, 1), -0.75)], 1)),
    "expm1": (torch.expm1, SIGNED),
    "round": (torch.round, torch.cat([SIGNED * 2, torch.tensor([[0.5, 1.5, -2.5, 4.2e6, -3e9]]).expand(4, 5)], 1)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_computed_by_others(name):
    function, x = FUNCTIONS[name]
    before = capture_program(Calls(function), x)
    after, rewrite = spare_portable_functions(before)
    check_rewrite(before, after, x)
    assert rewrite is not None
    assert f"aten.{name}.default" not in operators(after) or name == "sqrt"


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 20.0])
@pytest.mark.parametrize("function", [torch.log1p, torch.expm1, torch.erf])
def test_small_numbers_keep_their_digits(function, scale):
    x = torch.rand(1000, generator=torch.Generator().manual_seed(1)) * scale
    before = capture_program(Calls(lambda x: function(x) / scale), x)
    after, _ = spare_portable_functions(before)
    check_rewrite(before, after, x, min_sqnr_db=118.0)


LEFT = {
    "what is kept from 0": lambda x: torch.sqrt(x + 1e-8) + torch.rsqrt(x.clamp(min=1e-12)),
    "whole numbers": lambda x: torch.round(x.long()),
}
WRITTEN = {
    "what may be zero at a point": lambda x: torch.sqrt(x.cos() + 1.0),
    "what a bound makes zero": lambda x: torch.sqrt(x.clamp(min=-1e-6) + 1e-6),
    "a bound above alone": lambda x: torch.sqrt(x.clamp(max=1.0)),
}


@pytest.mark.parametrize("case", LEFT)
def test_what_needs_none_stays(case):
    program = capture_program(Calls(LEFT[case]), POSITIVE)
    assert spare_portable_functions(program) == (program, None)


@pytest.mark.parametrize("case", WRITTEN)
def test_a_root_of_what_may_be_zero_is_written(case):
    before = capture_program(Calls(WRITTEN[case]), POSITIVE)
    after, rewrite = spare_portable_functions(before)
    check_rewrite(before, after, POSITIVE)
    assert rewrite.count == 1


ENDS = torch.tensor([0.0, -0.0, math.inf, 3e38, 1.0])


@pytest.mark.parametrize("function", [torch.sqrt, torch.rsqrt, torch.log1p, torch.expm1, torch.erf, torch.round])
def test_zeros_and_infinities_are_those_of_torch(function):
    before = capture_program(Calls(function), ENDS)
    after, _ = spare_portable_functions(before)
    (found,) = run_program(after, ENDS)
    expected = function(ENDS)
    assert torch.equal(found == 0, expected == 0)
    assert torch.equal(found.abs() == math.inf, expected.abs() == math.inf)
    assert not found.isnan().any()


def test_distances_are_compared_with_zero():
    def inverse(x):
        lengths = (x[:, None] - x[None]).square().sum(-1).sqrt()
        return torch.where(lengths == 0, 0.0, 1.0 / lengths)

    x = SIGNED[:, :3].contiguous()
    before = capture_program(Calls(inverse), x)
    after, _ = spare_portable_functions(before)
    check_rewrite(before, after, x)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_xnnpack_computes_them_in_one_region(name):
    function, x = FUNCTIONS[name]
    program, _ = apply_rewrites(capture_program(Calls(function), x), wanted_rewrites(XnnpackDelegate()))
    plan = XnnpackDelegate().plan(program, XnnpackOptions())
    assert (plan.delegate_calls, plan.fallbacks) == (1, ())
    proved = prove(Calls(function), (x,), "xnnpack")
    assert proved.exit_code == 0, proved.reason
    assert "spare_portable_functions" in proved.rewrites
