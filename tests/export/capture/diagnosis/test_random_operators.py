"""Models whose outputs differ from run to run are refused with the line that draws; what nothing depends on passes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from edgex.errors import CaptureError
from edgex.export.capture.program import capture

HERE = Path(__file__).parent
X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


class Drawing(nn.Module):
    def __init__(self, draw):
        super().__init__()
        self.linear, self.generator, self.draw = nn.Linear(4, 4), torch.Generator().manual_seed(0), draw

    def forward(self, x):
        return self.draw(self, self.linear(x))


def _own(self, x):
    return x + torch.randn(x.shape, generator=self.generator)  # own


def _own_in_place(self, x):
    return x + torch.empty_like(x).normal_(generator=self.generator)  # own in place


def _choice(self, x):
    return torch.multinomial(torch.softmax(x, -1), 2, generator=self.generator)  # choice


def _torchs(self, x):
    torch.zeros(3)  # torch.rand in a comment is no draw
    return x + x.new_empty(x.shape).uniform_()  # torch's


def _bernoulli(self, x):
    return x * x.sigmoid().bernoulli()  # bernoulli


def _normal(self, x):
    return torch.normal(x, 1.0)  # normal


def _dropout(self, x):
    return F.dropout(x, 0.5)  # dropout


def _dropout_of_attention(self, x):
    return F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.5)  # attention


def _distribution(self, x):
    return torch.distributions.Normal(x, 1.0).rsample()  # distribution


DRAWS = {
    _own: ("a torch.Generator, with aten.randn.generator", "own", "noise as an input"),
    _own_in_place: ("a torch.Generator, with aten.normal_", "own in place", "noise as an input"),
    _choice: ("a torch.Generator, with aten.multinomial", "choice", "return the probabilities"),
    _torchs: ("torch's generator, with aten.uniform_", "torch's", "noise as an input"),
    _bernoulli: ("torch's generator, with aten.bernoulli", "bernoulli", "noise < p"),
    _normal: ("torch's generator, with aten.normal.", "normal", "noise as an input"),
    _dropout: ("torch's generator, with aten.bernoulli_", "dropout", "training=self.training"),
    _dropout_of_attention: ("torch's generator", "attention", "dropout_p=0.0"),
    _distribution: ("torch's generator, with aten.normal_", "distribution", "noise as an input"),
}


@pytest.mark.parametrize("draw", DRAWS)
def test_a_draw_is_refused_with_its_line(draw):
    said, mark, advice = DRAWS[draw]
    with pytest.raises(CaptureError) as caught:
        capture(Drawing(draw).eval(), (X,), source_root=HERE)
    assert said in caught.value.what
    assert caught.value.where.startswith("test_random_operators.py:") and caught.value.where.endswith(f"# {mark}")
    assert advice in caught.value.fix and "nothing can be proved" in caught.value.why


def test_every_line_that_draws_is_named():
    def both(self, x):
        x = x + torch.rand(4)  # one
        return x + torch.randn_like(x)  # other

    with pytest.raises(CaptureError) as caught:
        capture(Drawing(both).eval(), (X,), source_root=HERE)
    (other,) = caught.value.others
    assert caught.value.where.endswith("# one") and other.where.endswith("# other")


def _seeded(self, x):
    torch.manual_seed(0)
    return x + torch.randn_like(x)  # the same


def _seeded_generator(self, x):
    return x + torch.randn(x.shape, generator=torch.Generator().manual_seed(3))  # the same


@pytest.mark.parametrize("draw", [_seeded, _seeded_generator])
def test_the_same_draw_at_every_run_belongs_into_a_buffer(draw):
    with pytest.raises(CaptureError, match="the same random numbers at every run") as caught:
        capture(Drawing(draw).eval(), (X,), source_root=HERE)
    assert caught.value.where.endswith("# the same") and "register_buffer" in caught.value.fix


@pytest.mark.parametrize(
    "draw",
    [
        lambda self, x: F.dropout(x, 0.5, training=self.training),
        lambda self, x: F.dropout(x, 0.0),
        lambda self, x: (torch.rand(3), x)[1],
        lambda self, x: x + torch.randn(x.shape, generator=self.generator) * 0.0,
    ],
)
def test_what_no_output_depends_on_passes(draw):
    capture(Drawing(draw).eval(), (X,), source_root=HERE)


def test_outputs_that_differ_for_another_reason_name_the_module():
    class Clock(nn.Module):
        def forward(self, x):
            return x * (1.0 + time.perf_counter_ns() % 100_000)

    class Timed(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.clock = nn.Linear(4, 4), Clock()

        def forward(self, x):
            return self.clock(self.linear(x))

    with pytest.raises(CaptureError, match="differ from run to run in eager") as caught:
        capture(Timed().eval(), (X,), source_root=HERE)
    assert "module clock" in caught.value.where and "the time" in caught.value.fix
