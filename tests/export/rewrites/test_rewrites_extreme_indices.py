"""Where the largest number along a dimension is, found with maxima."""

import pytest
import torch

from benchmarks.operators.proof import prove
from edgex.export.rewrites.precision import convert_precision
from edgex.export.rewrites.reductions.extreme_indices import weigh_extremes
from tests.support.rewriting import Calls, capture_program, check_rewrite, operators, run_program

IMAGES = torch.randn(2, 21, 24, 20, generator=torch.Generator().manual_seed(0))
CASES = {
    "largest": lambda x: x.argmax(1),
    "smallest, kept": lambda x: x.argmin(-3, keepdim=True),
    "both": lambda x: x.max(1),
    "both, of the smallest, kept": lambda x: x.min(1, keepdim=True),
    "the index alone": lambda x: x.max(1)[1],
    "of rows": lambda x: (
        x.flatten(2).transpose(1, 2).contiguous().reshape(2, 480, 21).argmin(1)
        if x.shape[1] > 31
        else x.flatten(0, 1).argmax(0)
    ),
    "of halves": lambda x: (x * 0.5).sigmoid().argmax(1),
}
LEFT = {
    "the last": lambda x: x.argmax(-1),
    "of all": lambda x: x.argmax(),
    "few classes": lambda x: x[:, :3].argmax(1),
    "short rows": lambda x: x.reshape(2, 840, 12).argmax(1),
    "small": lambda x: x[:, :, :4].argmax(1),
    "integers": lambda x: (x * 100).to(torch.int64).argmax(1),
    "the value alone": lambda x: x.max(1)[0],
}


@pytest.mark.parametrize("case", CASES)
def test_indices_are_those_of_eager(case):
    before = capture_program(Calls(CASES[case]), IMAGES)
    after, rewrite = weigh_extremes(before)
    assert rewrite.count == 1
    assert check_rewrite(before, after, IMAGES) == 300
    assert not {"aten.argmax.default", "aten.argmin.default", "aten.max.dim", "aten.min.dim"} & set(operators(after))


def test_the_first_of_equal_ones_is_found():
    before = capture_program(Calls(lambda x: (x.argmax(1), x.argmin(1))), IMAGES)
    after, _ = weigh_extremes(before)
    steps = IMAGES.round()
    smallest = torch.where(IMAGES > 0, 2.0**-149, 0.0)
    endless = torch.where(IMAGES > 1, torch.inf, torch.where(IMAGES < -1, -torch.inf, IMAGES))
    largest = torch.where(IMAGES > 0, torch.finfo(torch.float32).max, -IMAGES)
    for x in (steps, smallest, endless, largest):
        for found, expected in zip(run_program(after, x), run_program(before, x), strict=True):
            assert torch.equal(found, expected)


@pytest.mark.parametrize("case", LEFT)
def test_other_indices_stay(case):
    program = capture_program(Calls(LEFT[case]), IMAGES)
    assert weigh_extremes(program) == (program, None)


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("classes", [40, 256])
def test_weights_are_right_in_lower_precisions(classes, precision):
    x = torch.randn(1, classes, 24, 20, generator=torch.Generator().manual_seed(1))

    class Weighted(torch.nn.Module):  # what no parameter went into stays in float32
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1))

        def forward(self, x):
            y = x * self.weight
            return y.argmax(1), y.argmin(1)

    program, rewrite = weigh_extremes(capture_program(Weighted(), x))
    assert rewrite.count == 2
    converted = convert_precision(program, precision)
    (weight,) = converted.exported.state_dict.values()
    rounded = (x.to(weight.dtype) * weight).float()
    found = run_program(converted, x)
    assert torch.equal(found[0], rounded.argmax(1)) and torch.equal(found[1], rounded.argmin(1))


def test_more_weights_than_bfloat16_holds_are_not_given():
    program = capture_program(Calls(lambda x: x.argmax(1)), torch.randn(1, 257, 16, 16))
    assert weigh_extremes(program) == (program, None)


@pytest.mark.parametrize("target", ["xnnpack", "onnx-cpu", "onednn"])
def test_classes_of_pixels(target):
    class Head(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(21, 21, 1)

        def forward(self, x):
            y = self.conv(x)
            return y.argmax(1), *y.min(1)

    proved = prove(Head(), (IMAGES * 4,), target)
    assert proved.exit_code == 0, proved.reason
    assert "weigh_extremes" in proved.rewrites
