"""Runs that a search for branches compares: what they leave behind, what they note, and how inputs are varied."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from edgex.export.capture.branches.runs import alike, run_listening, run_plain, vary_call

X = torch.randn(2, 8, generator=torch.Generator().manual_seed(0))


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("most", torch.tensor(9.0))

    def forward(self, x):
        x.add_(1)
        self.count += 1
        if self.count > 5:
            x = x * 2
        if x.max() > self.most:
            raise ValueError("too large")
        while self.most < 1:
            pass
        return x


def test_a_run_leaves_buffers_and_inputs_as_they_were():
    model, x = Counted(), X.clone()
    run = run_listening(model, ((x,), {}), {}, ["count"], lazy_items=False)
    assert run.outputs is not None and torch.equal(run.outputs[0], X + 1)
    assert model.count == 0 and torch.equal(x, X)
    assert alike(run_plain(model, ((x,), {})), run)


def test_what_comes_from_inputs_or_state_is_not_constant():
    run = run_listening(Counted(), ((X,), {}), {}, ["count"], lazy_items=False)
    lines = sorted((site.line, list(said), site in run.constant) for site, said in run.said.items())
    assert [entry[1:] for entry in lines] == [([False], False), ([False], False), ([False], True)]


def test_what_is_written_through_a_view_is_not_constant():
    class Filled(nn.Module):
        def forward(self, x):
            seen, other = torch.zeros(3, 8), torch.ones(3)
            seen[1].copy_(x[0])
            return x * 2 if seen.any() or other.all() else x

    run = run_listening(Filled(), ((X,), {}), {}, (), lazy_items=False)
    assert list(run.said.values()) == [[True]] and not run.constant
    run = run_listening(Filled(), ((X * 0,), {}), {}, (), lazy_items=False)
    assert list(run.said.values()) == [[False], [True]] and len(run.constant) == 1


def test_memory_that_was_given_back_says_nothing_of_what_comes_to_lie_there():
    class Reused(nn.Module):
        def forward(self, x):
            for _ in range(4):
                (x * 2).add_(1)  # written to, and gone
            masks = [torch.ones(2, 8) for _ in range(8)]
            return x * 2 if all(mask.any() for mask in masks) else x

    run = run_listening(Reused(), ((X,), {}), {}, (), lazy_items=False)
    assert list(run.said.values()) == [[True] * 8] and len(run.constant) == 1


def test_the_check_that_ended_a_run_is_known():
    run = run_listening(Counted(), ((X,), {}), {}, ["count"], lazy_items=False)
    check = next(site for site in run.said if site not in run.constant and site.line > min(s.line for s in run.said))
    ended = run_listening(Counted(), ((X,), {}), {check: True}, ["count"], lazy_items=False)
    assert ended.outputs is None and check in ended.refused_by


def test_a_loop_without_an_end_is_left():
    model = Counted()
    run = run_listening(model, ((X,), {}), {}, ["count"], lazy_items=False)
    answers = {next(iter(run.constant)): True}
    run = run_listening(model, ((X,), {}), answers, ["count"], lazy_items=False)
    answers |= dict.fromkeys(run.constant, True)  # Python asks at a loop's end in another place than at its beginning
    ended = run_listening(model, ((X,), {}), answers, ["count"], lazy_items=False, most_answers=50)
    assert ended.outputs is None and not ended.refused_by


@pytest.mark.parametrize(
    ("found", "same"),
    [(X, True), (X * (1 + 1e-6), True), (X * 1.01, False), (X.double(), False), (X[:1], False), (X / 0, False)],
)
def test_outputs_are_alike_but_for_rounding(found, same):
    model = nn.Identity()
    assert alike(run_plain(model, ((X,), {})), run_plain(model, ((found,), {}))) is same


def test_nothing_is_like_a_run_that_raised():
    raised = run_plain(nn.Linear(3, 3), ((X,), {}))
    assert raised.outputs is None and not alike(raised, raised)


@pytest.mark.parametrize(
    "tensor", [X, X > 0, torch.arange(8), torch.tensor(3), torch.zeros(0, 3), X.to(torch.complex64)]
)
def test_variations_keep_shape_and_dtype(tensor):
    varied = list(vary_call(((X, tensor), {})))
    assert len(varied) >= 4
    for (first, second), _ in varied:
        assert (first.shape, first.dtype) == (X.shape, X.dtype)
        assert (second.shape, second.dtype) == (tensor.shape, tensor.dtype)
    if tensor.numel() > 1:
        assert any(not torch.equal(second, tensor) for (_, second), _ in varied)
