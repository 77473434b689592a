"""What XNNPACK leaves out: one reason a test, with its line and the way around it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from pte_support import Call, captured
from torch import nn

from edgex.delegates.base import CapturedProgram
from edgex.delegates.plan import REASON_CODES
from edgex.delegates.xnnpack.delegate import XnnpackDelegate, XnnpackOptions
from edgex.errors import LoweringError

HERE = Path(__file__).parent
OPTIONS = XnnpackOptions()
delegate = XnnpackDelegate()


def line_of(text: str, file: Path = Path(__file__)) -> int:
    """Number of the line in this file that holds `text` first."""
    return next(at for at, line in enumerate(file.read_text().splitlines(), 1) if text in line)


def only_fallback(program: CapturedProgram, op: str):
    """The one fallback of an operator."""
    (found,) = [fallback for fallback in delegate.plan(program, OPTIONS).fallbacks if fallback.op == op]
    return found


def test_dtype():
    def forward(self, x):
        return x + 1  # of integers

    found = only_fallback(captured(Call(forward), torch.arange(4)), "aten.add.Tensor")
    assert found.code == "dtype"
    assert found.reason == "XNNPACK takes float32 and float16 here; the input x is int64"
    assert found.source == f"delegates/xnnpack/test_xnnpack_reasons.py:{line_of('return x + 1  # of integers')}"


def test_dtype_of_an_operator_that_has_no_half_version():
    module = Call(lambda self, x: F.gelu(self.m[0](x)), nn.Linear(4, 4).half())
    found = only_fallback(captured(module, torch.randn(2, 4).half()), "aten.gelu.default")
    assert (found.code, found.reason) == ("dtype", "XNNPACK has no float16 GELU")


def test_dynamic_shape_of_a_slice():
    shapes = {"x": {0: torch.export.Dim("batch", min=3, max=8)}}
    program = captured(Call(lambda self, x: x[1:] * 2), torch.randn(4, 8), dynamic_shapes=shapes)
    found = only_fallback(program, "aten.slice_copy.Tensor")
    assert found.code == "dynamic_shape"
    assert re.fullmatch(r"XNNPACK slices static shapes only, not \[s\d+, 8\]", found.reason)


def test_dynamic_shape_of_a_result():
    shapes = {"x": {2: torch.export.Dim("height", min=2, max=8)}}
    resize = Call(lambda self, x: F.interpolate(x, scale_factor=2.0, mode="bilinear"))
    program = captured(resize, torch.randn(1, 2, 4, 4), dynamic_shapes=shapes)
    found = only_fallback(program, "aten.upsample_bilinear2d.vec")
    assert found.code == "dynamic_shape"
    assert re.fullmatch(r"XNNPACK resizes to a static size only, not to \[1, 2, 2\*s\d+, 8\]", found.reason), found


def test_dynamic_shape_as_an_argument():
    shapes = {"x": {0: torch.export.Dim("batch", min=2, max=8)}}
    program = captured(Call(lambda self, x: x.reshape(x.shape[0] * 2, 4) * 2), torch.randn(4, 8), dynamic_shapes=shapes)
    found = only_fallback(program, "aten.view_copy.default")
    assert found.code == "dynamic_shape"
    assert "a size known only when the model runs" in found.reason
    size = only_fallback(program, "operator.mul")
    assert size.reason == "XNNPACK has no operator operator.mul: the runtime itself computes and checks sizes"
    assert "nothing to do" in size.workaround


def test_rank():
    found = only_fallback(captured(Call(lambda self, x: x.mean((1, 2))), torch.randn(2, 3, 4)), "aten.mean.dim")
    assert (found.code, found.reason) == ("rank", "XNNPACK averages tensors of 4 dimensions only, not of 3")


REFUSED = {
    "aten.add.Tensor": (lambda x: torch.add(x, x, alpha=3), "with alpha=1 only, not alpha=3"),
    "aten.pow.Tensor_Scalar": (lambda x: x.pow(3), "to the power 2 only, not 3"),
    "aten.slice_copy.Tensor": (lambda x: x[..., ::2], "with step 1 only, not 2"),
    "aten._softmax.default": (lambda x: torch.softmax(x, 1), "over the last dimension only, not dim=1"),
    "aten.mean.dim": (lambda x: x.mean((1, 2)), "over dimensions 2 and 3 only, not [1, 2]"),
    "aten.avg_pool2d.default": (lambda x: F.avg_pool2d(x, 3, 1, 1), "does not average padding=[1, 1] in"),
    "aten.constant_pad_nd.default": (lambda x: F.pad(x, (-1, 1)), "does not crop: pad=[-1, 1]"),
    "aten.unsqueeze_copy.default": (lambda x: x.unsqueeze(1), "at the end only, not at dim=1"),
    "aten.max.dim": (lambda x: x.max(1).indices, "gives no indices"),
    "aten.max_pool2d_with_indices.default": (
        lambda x: F.max_pool2d(x, 2, 3),
        "part of aten.max_pool2d.default: XNNPACK: stride ([3, 3]) must be less than or equal to kernel size ([2, 2])",
    ),
    "aten.abs.default": (lambda x: x[:, :0].abs(), "takes no empty tensor"),
}


@pytest.fixture(scope="module")
def refused():
    """One program with every operator of `REFUSED`: what lowering it, and what planning it, left out."""

    def forward(self, x):
        return tuple(function(x) for function, _ in REFUSED.values())

    program = captured(Call(forward), torch.randn(1, 3, 6, 6))
    plan = delegate.lower(program, OPTIONS).plan
    assert delegate.plan(program, OPTIONS) == plan
    return plan.fallbacks


@pytest.mark.parametrize("op", REFUSED)
def test_attribute(op, refused):
    found = [fallback.reason for fallback in refused if fallback.op == op and fallback.code == "attribute"]
    assert any(REFUSED[op][1] in reason for reason in found), found


WORKAROUNDS = {
    "aten.add.Tensor": ("two operations", "split_alpha"),
    "aten.pow.Tensor_Scalar": ("x * x * x", None),
    "aten._softmax.default": ("to the end first", None),
    "aten.mean.dim": ("average over (2, 3)", None),
}


@pytest.mark.parametrize("op", WORKAROUNDS)
def test_what_helps_comes_with_the_reason(op, refused):
    words, rewrite = WORKAROUNDS[op]
    found = [fallback for fallback in refused if fallback.op == op and words in (fallback.workaround or "")]
    assert [fallback.rewrite for fallback in found] == [rewrite], refused


def test_non_constant_weight():
    found = only_fallback(
        captured(Call(lambda self, x, y: x @ y), torch.randn(2, 3), torch.randn(3, 4)), "aten.mm.default"
    )
    assert found.code == "non_constant_weight"
    assert found.reason == "XNNPACK needs a constant weight here; this one is the input y"
    assert found.workaround == "make the weight a parameter"


def test_non_constant_weight_that_is_state():
    """Lowered as a constant, such a program would crash the process that loads it."""

    def forward(self, x):
        y = F.linear(x, self.weight)
        self.weight.mul_(2)
        return y

    found = only_fallback(captured(Call(forward, weight=torch.randn(4, 8)), torch.randn(2, 8)), "aten.mm.default")
    assert found.code == "non_constant_weight"
    assert (
        found.reason == "XNNPACK needs a constant weight here; this one is the buffer weight, which the model changes"
    )


def test_no_kernel_names_all_operators_at_once_with_their_lines():
    def forward(self, x):
        x = torch.sort(x)[0]  # in Core ATen, without a kernel
        return torch.special.bessel_j0(x)  # outside Core ATen

    program = captured(Call(forward), torch.randn(2, 8))
    plan = delegate.plan(program, OPTIONS)
    assert {(item.op, item.code, item.fatal) for item in plan.fatal} == {
        ("aten.sort.default", "no_kernel", True),
        ("aten.special_bessel_j0.default", "no_kernel", True),
    }
    with pytest.raises(LoweringError) as caught:
        delegate.lower(program, OPTIONS)
    error = caught.value
    assert error.exit_code == 5
    assert "aten.sort.default, aten.special_bessel_j0.default" in error.what
    lines = {"aten::sort.values": "x = torch.sort(x)[0]", "aten::special_bessel_j0.out": "bessel_j0(x)  #"}
    for operator, line in lines.items():
        assert operator in error.why
        assert f"delegates/xnnpack/test_xnnpack_reasons.py:{line_of(line)}" in error.why
    assert "`edgex why MODEL -t onnx-cpu,reference`" in error.fix


def test_no_kernel_where_the_kernel_is_too_narrow():
    found = only_fallback(
        captured(Call(lambda self, x: self.m[0](x), nn.Conv3d(2, 3, 2)), torch.randn(1, 2, 4, 4, 4)),
        "aten.convolution.default",
    )
    assert (found.code, found.fatal) == ("no_kernel", True)
    assert "not over 3" in found.reason


def test_no_kernel_where_no_out_variant_exists():
    with torch.library._scoped_library("edgex_test", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        library.impl("twice", lambda x: torch.empty_like(x), "Meta")
        program = captured(Call(lambda self, x: torch.ops.edgex_test.twice(x)), torch.randn(2, 3))
        (found,) = delegate.plan(program, OPTIONS).fatal
        assert found.code == "no_kernel"
        assert "no out variant" in found.reason
        with pytest.raises(LoweringError, match=r"cannot run edgex_test\.twice\.default"):
            delegate.lower(program, OPTIONS)


def test_operators_inside_a_branch_are_counted_and_not_kept_whole():
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: self.m[0](x), lambda x: x - 1, (x,))

    program = captured(Call(forward, nn.Linear(4, 4)), torch.randn(2, 4))
    plan = delegate.lower(program, OPTIONS).plan
    assert plan == delegate.plan(program, OPTIONS)
    inside = {item.op for item in plan.fallbacks if "inside a branch of torch.cond" in item.reason}
    assert {"aten.addmm.default", "aten.sub.Tensor"} <= inside


def test_a_loop_over_values_is_refused_before_anything_is_lowered():
    def forward(self, x):
        count = torch.tensor(0)
        return torch.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (count, x))[1]

    program = captured(Call(forward), torch.randn(2, 4))
    (found,) = delegate.plan(program, OPTIONS).fatal
    assert (found.op, found.code) == ("while_loop", "no_kernel")
    with pytest.raises(LoweringError, match="cannot run while_loop"):
        delegate.lower(program, OPTIONS)


def test_every_code_of_the_rules_is_known():
    from edgex.delegates.xnnpack.reasons import RULES

    assert {rule.code for rule in RULES} <= set(REASON_CODES)
