"""Branches that values decide: the side that holds for every input, checks that raise, and those that stay refused."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

from edgex.errors import CaptureError
from edgex.export.capture.program import Capture, capture

X = torch.randn(2, 8, generator=torch.Generator().manual_seed(0))
MASK = torch.arange(16).view(2, 8) > 12
TOKENS = torch.tensor([[5, 6, 7, 8, 9, 4, 3, 2]])


class Run(nn.Module):
    """`forward` is a function of the module and its inputs."""

    def __init__(self, function):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("wide", torch.linspace(0, 1, 100))
        self.embedding = nn.Embedding(10, 4)
        self.embedding.weight.data = torch.linspace(-1, 1, 40).view(10, 4)
        self._function = function

    def forward(self, *inputs):
        return self._function(self, *inputs)


def _capture(function, *inputs, **options) -> Capture:
    return capture(Run(function).eval(), inputs, source_root=Path(__file__).parent, **options)


def _check(captured: Capture, *calls: tuple[torch.Tensor, ...]) -> None:
    """Eager's numbers on other inputs, too."""
    program, model = captured.program.exported.module(), captured.eager.module
    for inputs in calls:
        torch.testing.assert_close(program(*inputs)[0], model(*inputs))


def _masked(_self, x, mask):
    if not mask.any():
        mask = None
    if mask is not None:
        x = x.masked_fill(mask, 0.0)
    return x.cumsum(-1)


def _masked_by_item(_self, x, mask):
    padded = mask.any().item()
    return x.masked_fill(mask, 0.0).cumsum(-1) if padded else x.cumsum(-1)


def _masked_twice(_self, x, mask):
    if mask.any():
        x = x + x.masked_fill(mask, 0.0)
    return x * 0.5 if mask.any() else x


def _padded(self, tokens):
    padding = tokens.eq(1)
    x = self.embedding(tokens)
    if padding.any():
        x = x * (~padding).unsqueeze(-1)
    return x.sum(1)


def _scaled(_self, x, _mask):
    largest = x.abs().max()
    if largest > 0:
        x = x / largest.clamp(min=1)
    return x


def _until_it_stands_still(_self, x, _mask):
    x = x.sigmoid()
    for _ in range(6):
        moved = x.clamp(0.4, 0.6)
        if torch.allclose(moved, x):
            break
        x = moved
    return x


@pytest.mark.parametrize("mask", [MASK, torch.zeros_like(MASK)], ids=["some", "none"])
@pytest.mark.parametrize("function", [_masked, _masked_by_item, _scaled, _until_it_stands_still])
def test_the_side_that_holds_for_every_input_is_taken(function, mask):
    captured = _capture(function, X, mask)
    notice = captured.notices[-1]
    assert "goes one way for all inputs: inputs that take its other side give the same" in notice, captured.notices
    assert notice.startswith("the branch at test_settle.py:"), notice
    _check(captured, (X, mask), (X * 3, MASK), (X, ~MASK), (-X, torch.zeros_like(MASK)), (X * 0, MASK))


def test_an_example_without_padding_is_no_reason_to_do_without():
    captured = _capture(_padded, TOKENS)
    _check(captured, (TOKENS,), (torch.tensor([[5, 1, 7, 1, 1, 1, 1, 1]]),), (torch.ones_like(TOKENS),))


def test_questions_that_belong_together_are_answered_together():
    """One answered otherwise than the other gives something else."""
    captured = _capture(_masked_twice, X, MASK)
    _check(captured, (X, MASK), (X, torch.zeros_like(MASK)), (X * 2, ~MASK))


def test_tensors_that_are_compared_whole():
    captured = _capture(lambda _self, x, y: x * 2 if torch.equal(x, y) else x + y, X, X.clone())
    _check(captured, (X, X), (X, X + 1))


def _raises(_self, x, _mask):
    if x.max() > 1e9:
        raise ValueError("too large")
    return x * 2


def _asserts(_self, x, _mask):
    if not ((x < 1e9).all() or (x > -1e9).all()):  # pytest writes an `assert` of this file anew
        raise AssertionError("too large")
    return x * 2


def _raises_by_item(_self, x, _mask):
    if x.max().item() > 1e9 or x.min().item() < -1e9:
        raise ValueError("too large")
    return x * 2


def _helper(x):
    if not torch.isfinite(x).all():
        raise ValueError("not finite")


def _asks_a_helper(_self, x, _mask):
    _helper(x)
    return x * 2


@pytest.mark.parametrize("function", [_raises, _asserts, _raises_by_item, _asks_a_helper])
def test_checks_that_raise_are_left_out_and_said(function):
    captured = _capture(function, X, MASK)
    assert any("the model raises on its other side, and the artifact does not check" in one for one in captured.notices)
    _check(captured, (X, MASK), (X * 100, ~MASK))


def _other_numbers(_self, x, _mask):
    return x * 2 if x.mean() > 0 else x


def _divided(_self, x, _mask):
    largest = x.abs().max()
    return x / largest if largest > 1 else x


def _until_it_is_large(_self, x, _mask):
    while x.abs().sum() < 1000:
        x = x * 2
    return x


def _raises_elsewhere(_self, x, mask):
    """The other side raises, for what it is given there: no check of this truth."""
    return _spread(x, mask) if mask.all() else x


def _spread(x, mask):
    if not mask.any():
        raise ValueError("nothing to spread")
    if not mask.all():
        raise ValueError("too little to spread")
    return x * 3


def _depends_on_state(self, x, _mask):
    self.seen += 1
    return x * 2 if self.seen > 2 else x


@pytest.mark.parametrize(
    "function", [_other_numbers, _divided, _until_it_is_large, _raises_elsewhere, _depends_on_state]
)
def test_sides_that_differ_are_refused(function):
    with pytest.raises(CaptureError) as caught:
        _capture(function, X, MASK)
    assert caught.value.what == "data-dependent control flow"
    assert caught.value.where.startswith("test_settle.py:"), caught.value.where


def test_the_refusal_says_that_its_sides_differ():
    with pytest.raises(CaptureError) as caught:
        _capture(_other_numbers, X, MASK)
    assert caught.value.why.endswith("an exported program has one path; its sides give different outputs")


def test_values_that_come_from_no_input_are_known():
    """Of more numbers than are carried along while tracing; they decide for every input alike."""

    def function(self, x, _mask):
        steps = torch.cumsum(self.wide, 0)
        count = int(torch.ceil(steps[-1] / 20))
        if steps.max() > 1:
            x = x * 2
        return x.repeat(1, count) + steps.argmax()

    captured = _capture(function, X, MASK)
    assert not any("goes one way" in notice for notice in captured.notices), captured.notices
    assert captured.program.outputs[0].shape == (2, 24)
    _check(captured, (X, MASK), (-X, ~MASK))


def test_a_question_about_inputs_leaves_what_comes_of_none_known():
    """As transformers look for padding in what comes without a mask, and make a mask of ones then."""

    def function(self, tokens):
        if not torch.compiler.is_exporting() and 0 in tokens[:, [-1, 0]]:
            warnings.warn("padding without a mask", stacklevel=2)
        mask = torch.ones(1, 100)
        mask[mask == 2] = -1.0
        x = self.embedding(tokens).sum(-1)
        return x.flip(-1) if (mask < 0).any().item() else x.cumsum(-1)

    captured = _capture(function, TOKENS)
    _check(captured, (TOKENS,), (TOKENS.flip(-1),))


def test_sizes_may_vary():
    batch = torch.export.Dim("batch", min=2, max=6)
    captured = _capture(_masked, X, MASK, dynamic_shapes=(({0: batch}, {0: batch}),))
    wide = torch.cat([X, X * 2])
    _check(captured, (X, MASK), (wide, torch.cat([MASK, ~MASK])), (wide, torch.zeros(4, 8, dtype=torch.bool)))


def test_state_is_as_it_was():
    def function(self, x, mask):
        self.seen += 1
        return _masked(self, x, mask) + self.seen

    captured = _capture(function, X, MASK)
    assert captured.eager.module.seen == 0
    assert torch.equal(captured.eager.module(X, MASK), _masked(None, X, MASK) + 1)
