"""Equal operators of equal arguments run once; what only looks equal runs as often as it is written."""

from __future__ import annotations

import pytest
import torch
from rewriting import capture_program, check_rewrite, operators
from torch import nn

import edgex
from edgex.export.rewrites.folding.duplicates import join_duplicates
from edgex.export.rewrites.operators.portable_functions import spare_portable_functions

X = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(0))


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.randn(8, generator=torch.Generator().manual_seed(1)))
        self.tied = self.weight
        self.register_buffer("steps", torch.zeros(8))
        self.register_buffer("one_half", torch.tensor(0.5))
        self.register_buffer("other_half", torch.tensor(0.5))

    def forward(self, x):
        return self.function(self, x)


def filter_bank(_, x):
    """Each filter transforms the same input."""
    filters = [torch.hann_window(8), torch.hamming_window(8), torch.blackman_window(8)]
    return torch.stack([torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(window)) for window in filters])


def masks_of_layers(model, x):
    for _ in range(3):
        mask = (x.detach().sum(-1, keepdim=True) > -100) & (model.weight > 0)
        x = x + torch.where(x[:, :1] * 0 + 1 > 0, mask.to(x.dtype), 0.0)
    return x


JOINED = {
    "filters of one input": (filter_bank, 2),
    "tied weights": (lambda m, x: (x * m.weight).relu() + (x * m.tied).relu().sin(), 2),
    "results of one operator": (lambda _, x: x.max(-1)[0] + x.max(-1)[0].neg() + x.max(-1)[1], 2),
    "equal numbers": (lambda m, x: (x * m.one_half).exp() + (x * m.other_half).sin(), 1),
}


@pytest.mark.parametrize("case", JOINED)
def test_what_is_computed_again_is_computed_once(case):
    function, least = JOINED[case]
    program = capture_program(Function(function), X, randomise=False)
    rewritten, rewrite = join_duplicates(program)
    check_rewrite(program, rewritten, X)
    assert rewrite is not None
    assert rewrite.count >= least
    assert rewrite.sources
    assert len(operators(rewritten)) <= len(operators(program)) - least
    assert join_duplicates(rewritten) == (rewritten, None)


def write_between(model, x):
    before = model.steps.sum()
    model.steps.add_(1)
    return x * before + model.steps.sum()


def write_to_a_copy(_, x):
    one, other = x.clone(), x.clone()
    one.add_(1)
    return one * other


LEFT = {
    "a write between": write_between,
    "copies that are written to": write_to_a_copy,
    "random numbers": lambda _, x: x + torch.rand(8) * 0 + torch.rand(8) * 0,
    "another number": lambda _, x: (x * 0.0).cos() / (x * -0.0).cos() + x.clamp(min=0) + x.clamp(max=0),
    "another type of number": lambda _, x: x.sum(-1, keepdim=False).cos() + x.sum(-1, keepdim=True).cos().mean(),
    "two outputs": lambda _, x: (x.exp(), x.exp()),
}


@pytest.mark.parametrize("case", LEFT)
def test_what_only_looks_equal_stays(case):
    program = capture_program(Function(LEFT[case]), X, randomise=False)
    assert join_duplicates(program) == (program, None)


def test_layers_share_their_mask():
    program = capture_program(Function(masks_of_layers), X)
    rewritten, _ = join_duplicates(program)
    check_rewrite(program, rewritten, X)
    count = operators(program).count("aten.gt.Scalar") - operators(rewritten).count("aten.gt.Scalar")
    assert count == 2, operators(rewritten)


@pytest.mark.parametrize(
    "rows",
    [lambda x, chosen: x[chosen], torch.masked_select, lambda x, chosen: torch.nonzero(chosen)[:, 0]],
)
@pytest.mark.parametrize("target", ["xnnpack", "onnx-cpu"])
def test_layers_that_choose_by_one_mask(rows, target, tmp_path):
    """Each layer makes the same mask: its rows have a number that only the run finds, with a symbol for each."""

    class Layers(nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = nn.Parameter(torch.randn(4, generator=torch.Generator().manual_seed(2)))

        def forward(self, x, numbers):
            for _ in range(3):
                chosen = rows(numbers, numbers > 2)
                x = x + (chosen.sum() * self.bias).sin()
            return x

    numbers = torch.arange(36).reshape(6, 6) % 7
    program = capture_program(Layers(), torch.randn(3, 4), numbers)
    rewritten, _ = join_duplicates(program)
    masks = operators(program).count("aten.gt.Scalar")
    assert masks == 3, operators(program)
    assert operators(rewritten).count("aten.gt.Scalar") == 3, operators(rewritten)
    artifact = edgex.export_model(Layers(), (torch.randn(3, 4), numbers), target=target, output=tmp_path)
    assert artifact.manifest.verification["min_sqnr_db"] > 80


def test_a_mask_that_gives_no_size_is_joined_to_one_that_does():
    """Of three equal masks the second joins the first, and the third, which gives a second size, stays."""

    class Masks(nn.Module):
        def forward(self, x):
            first = torch.where(x > 0, x, 0.5)
            return first + x[x > 0].sum() + x[(x > 0)].mean() + torch.where(x > 0, 2.0, x)

    program = capture_program(Masks(), X, randomise=False)
    rewritten, _ = join_duplicates(program)
    assert torch.equal(*(one.exported.module()(X) for one in (program, rewritten)))
    assert operators(rewritten).count("aten.gt.Scalar") == 2, operators(rewritten)


def test_few_numbers_of_any_type_are_compared():
    class Halves(nn.Module):
        def __init__(self):
            super().__init__()
            for name in ("one", "other"):
                self.register_buffer(name, torch.tensor(0.5, dtype=torch.bfloat16))

        def forward(self, x):
            return (x * self.one).sin() + (x * self.other).cos()

    program = capture_program(Halves(), X, randomise=False)
    rewritten, _ = join_duplicates(program)
    check_rewrite(program, rewritten, X)
    assert operators(rewritten).count("aten.mul.Tensor") == 1


def test_what_recipes_leave_alone_stays_apart():
    """The parts of `log1p` are not those that the user wrote, which recipes may quantize."""
    program = capture_program(Function(lambda _, x: torch.log(x.abs() + 1.0) * 2 + torch.log1p(x.abs())), X)
    rewritten, _ = join_duplicates(spare_portable_functions(program)[0])
    assert operators(rewritten).count("aten.log.default") == 3
