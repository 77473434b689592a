"""Strided views of memory read what eager reads, wherever a target's tensors lie."""

from __future__ import annotations

import pytest
import torch
from examples import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from rewriting import Calls, capture_program, check_rewrite, operators
from torch import nn

from benchmarks.operators.proof import prove
from edgex.export.rewrites.strided import read_strided

TARGETS = ("xnnpack", "onnx-cpu", "onednn")


def rand(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


class Windows(nn.Module):
    """Windows that overlap by half, as Longformer has them: strided views of a permuted tensor's memory."""

    def __init__(self):
        super().__init__()
        self.keys, self.values = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x):
        split = x.shape[0], x.shape[1], 4, 8
        keys, values = (
            self.cut(layer(x).view(split).transpose(1, 2).reshape(split[0] * 4, split[1], 8))
            for layer in (self.keys, self.values)
        )
        return torch.einsum("bcxd,bcyd->bcxy", keys, values).softmax(-1)

    @staticmethod
    def cut(x):
        parts = x.view(x.shape[0], x.shape[1] // 8, 8, x.shape[2])
        size, stride = list(parts.shape), list(parts.stride())
        size[1], stride[1] = size[1] * 2 - 1, stride[1] // 2
        return parts.as_strided(size=size, stride=stride)


@pytest.mark.parametrize("batch", [1, 2])  # of one, `reshape` gives a view: its elements lie apart
def test_windows_that_overlap(batch):
    x = rand(batch, 32, 32)
    before = capture_program(Windows(), x)
    after, rewrite = read_strided(before)
    check_rewrite(before, after, x)
    assert rewrite.count == 2 and not any("as_strided" in name for name in operators(after))


@pytest.mark.parametrize("target", TARGETS)
def test_targets_read_what_eager_reads(target):
    proved = prove(Windows().eval(), (rand(1, 32, 32),), target)
    assert proved.exit_code == 0, proved.reason
    assert "read_strided" in proved.rewrites


CASES = {
    "frames of a signal": (lambda x: x.as_strided((7, 6), (3, 1)), rand(24)),
    "every third element": (lambda x: x.as_strided((4,), (3,), 1), rand(3, 5)),
    "rows of the transposed": (lambda x: x.mT.as_strided((4, 3), (5, 1)), rand(4, 5)),
    "one element for all": (lambda x: x.as_strided((2, 3), (0, 0), 7), rand(3, 5)),
    "behind a slice": (lambda x: x[1:].as_strided((2, 3), (5, 2)), rand(4, 5)),
    "ahead of a slice": (lambda x: (x * 2)[:, 1:].as_strided((2, 2), (5, 1), 6), rand(4, 5)),
    "Toeplitz": (lambda x: x.as_strided((6, 5), (1, 1)), rand(10)),
    "of an expanded tensor": (lambda x: x.expand(3, 4).as_strided((2, 4), (0, 1)), rand(1, 4)),
}


@pytest.mark.parametrize("case", CASES)
def test_the_same_elements(case):
    function, x = CASES[case]
    before = capture_program(Calls(function), x)
    after, rewrite = read_strided(before)
    check_rewrite(before, after, x)
    assert rewrite.count == 1 and not any("as_strided" in name for name in operators(after))


@given(st.data())
@settings(max_examples=examples(150), deadline=None)
def test_any_strides(data):
    shape = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    x = torch.arange(1, torch.Size(shape).numel() + 6.0)[data.draw(st.integers(0, 5)) :]
    x = x[: torch.Size(shape).numel()].view(shape).permute(data.draw(st.permutations(range(len(shape)))))
    steps = st.sampled_from(sorted({0, 1, 2, *x.stride(), *(2 * step for step in x.stride())}))
    size, stride = zip(*data.draw(st.lists(st.tuples(st.integers(1, 4), steps), min_size=1, max_size=4)), strict=True)
    offset = x.storage_offset() + data.draw(st.integers(0, 4))
    last = offset - x.storage_offset() + sum((count - 1) * by for count, by in zip(size, stride, strict=True))
    assume(last < x.numel())
    before = capture_program(Calls(lambda x: (x + 0).as_strided(size, stride, offset - x.storage_offset())), x)
    after, rewrite = read_strided(before)
    if rewrite is not None:
        check_rewrite(before, after, x)


LEFT = {
    "memory outside of the tensor": (lambda x: x[:1].as_strided((2, 3), (3, 1)), rand(2, 3)),
    "between the elements": (lambda x: x[:, ::2].as_strided((2, 2), (4, 1), 1), rand(2, 4)),
    "what was written to": (lambda x: x.add_(1).as_strided((2, 3), (3, 1)), rand(2, 3)),
    "a view that is written to": (lambda x: x.mul(2).as_strided((2, 3), (3, 1)).add_(1), rand(2, 3)),
}


@pytest.mark.parametrize("case", LEFT)
def test_others_are_left(case):
    function, x = LEFT[case]
    program = capture_program(Calls(function), x)
    assert read_strided(program) == (program, None)


def test_sizes_that_vary_are_left():
    x = rand(4, 6)
    shapes = ({0: torch.export.Dim("n", min=2, max=9)},)
    program = capture_program(Calls(lambda x: x.as_strided((x.shape[0], 3), (6, 1))), x, dynamic_shapes=(shapes,))
    assert read_strided(program) == (program, None)
