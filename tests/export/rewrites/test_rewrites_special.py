"""Special functions in elementary ones: their digits over the whole range, and their values at the ends of it."""

from __future__ import annotations

import math

import pytest
import torch
from rewriting import Calls, capture_program, check_vals, run_program
from torch.nn import functional as F

from edgex.export.rewrites.operators.elementary import write_elementary
from edgex.export.rewrites.operators.logarithms import steady_logarithms
from edgex.export.rewrites.operators.special_functions import write_special_functions

ENDS = torch.tensor([0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e30, -1e30, 3.0, -3.0])
LINE = torch.cat([torch.linspace(-9.1, 12.3, 700), torch.logspace(-6, 2, 40), ENDS])
POSITIVE = LINE[LINE > 0]
SHARES = torch.cat([torch.linspace(-0.1, 1.1, 300), torch.logspace(-7, -1, 50), ENDS])
ERFINV = torch.cat([torch.linspace(-1, 1, 200), 1 - torch.logspace(-7, -1, 50), ENDS])
CASES = {
    "erfc": (torch.special.erfc, LINE),
    "erfcx": (torch.special.erfcx, LINE),
    "ndtr": (torch.special.ndtr, LINE),
    "log_ndtr": (torch.special.log_ndtr, LINE),
    "erfinv": (torch.erfinv, ERFINV),
    "ndtri": (torch.special.ndtri, SHARES),
    "i0": (torch.i0, LINE),
    "i0e": (torch.special.i0e, LINE),
    "i1": (torch.special.i1, LINE),
    "i1e": (torch.special.i1e, LINE),
    "lgamma": (torch.lgamma, LINE),
    "digamma": (torch.digamma, LINE),
    "trigamma": (lambda x: torch.polygamma(1, x), POSITIVE),
    "mvlgamma": (lambda x: torch.mvlgamma(x, 3), POSITIVE + 1),
    "xlog1py": (torch.special.xlog1py, LINE, LINE.flip(0)),
}
STEADY = {
    "log1p": (lambda x: torch.log1p(x * 1e-6) * 1e6, LINE),
    "log1p far": (torch.log1p, LINE),
    "expm1": (lambda x: torch.expm1(x * 1e-6) * 1e6, LINE),
    "expm1 far": (torch.expm1, LINE),
    "cross entropy": (
        lambda x, y, w: F.binary_cross_entropy_with_logits(x, y, pos_weight=w, reduction="sum"),
        *(LINE[:700] * 9, LINE[:700].flip(0).sigmoid(), LINE[:700].exp().clamp(max=9)),
    ),
}
HYPERBOLIC = {
    "sinh": (torch.sinh, torch.cat([LINE, torch.tensor([89.0, -89.0, 90.0])])),
    "cosh": (torch.cosh, torch.cat([LINE, torch.tensor([89.0, -89.0, 90.0])])),
}
WRITTEN = {name: (write_special_functions, *case) for name, case in CASES.items()} | {
    name: (run, *case)
    for run, cases in ((steady_logarithms, STEADY), (write_elementary, HYPERBOLIC))
    for name, case in cases.items()
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_special_function_keeps_its_digits(name):
    run, function, *args = WRITTEN[name]
    before = capture_program(Calls(function), *args)
    after, rewrite = run(before)
    assert rewrite is not None and rewrite.count == 1
    after.exported.validate()
    check_vals(after)
    assert run(after) == (after, None)
    ((expected,), (found,)) = run_program(before, *args), run_program(after, *args)
    if name in HYPERBOLIC:  # of 89 PyTorch itself gives infinity on processors without AVX-512
        expected = function(args[0].double()).float()
    # A relative error of the function's own size, and float32's of its argument where that runs away.
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=2e-6, equal_nan=True)


def test_other_functions_of_the_family_and_float64_are_left_alone():
    for function, x in ((lambda x: torch.polygamma(2, x), POSITIVE), (torch.lgamma, POSITIVE.double())):
        before = capture_program(Calls(function), x)
        assert write_special_functions(before) == (before, None)
