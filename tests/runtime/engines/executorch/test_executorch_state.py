"""State of ExecuTorch's programs: where it starts, what a reset is, and that sessions have their own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from pte_support import Call, assert_close, captured, write_artifact
from torch import nn

from edgex.runtime.engines.executorch import engine as engine_module
from edgex.runtime.engines.loading import load


@pytest.fixture(autouse=True)
def all_sessions_closed():
    """A session that a test leaves open would fix the thread count of the next."""
    from edgex.runtime.engines.executorch.threads import POOL

    yield
    assert POOL._open_sessions == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("artifacts")


class Counter(nn.Module):
    """Starts at 5; `count2` only has a name that begins alike, `total` starts at zero."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.tensor([5.0]))
        self.register_buffer("count2", torch.tensor([7.0, 9.0]))
        self.register_buffer("total", torch.zeros(2))
        self.register_buffer("steps", torch.tensor(3))

    def forward(self, x):
        self.count.add_(1)
        self.total.add_(x)
        self.steps.add_(2)
        return self.count * self.count2 + self.total, self.steps + 0


class Cache(nn.Module):
    """A static key-value cache."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(8, 8)
        self.register_buffer("keys", torch.full((1, 6, 8), 0.5))
        self.register_buffer("values", torch.arange(48.0).reshape(1, 6, 8) / 48)

    def forward(self, x, at):
        self.keys.index_copy_(1, at, self.project(x))
        self.values.index_copy_(1, at, x)
        weights = torch.softmax(x @ self.keys.transpose(1, 2), -1)
        return weights @ self.values


@pytest.fixture(scope="module")
def counter(folder):
    write_artifact(captured(Counter(), torch.ones(2)), folder / "counter.edgex")
    return folder / "counter.edgex"


def counter_steps(inputs):
    module = Counter()
    return [tuple(output.clone().numpy() for output in module(x)) for x in inputs]


def assert_steps(session, inputs, expected):
    for x, reference in zip(inputs, expected, strict=True):
        for actual, wanted in zip(session.run(x), reference, strict=True):
            np.testing.assert_allclose(actual, wanted, rtol=1e-6)


def test_a_counter_starts_where_the_model_does(counter):
    inputs = [torch.randn(2) for _ in range(4)]
    expected = counter_steps(inputs)
    assert expected[0][1] == 5
    with load(counter) as session:
        assert_steps(session, inputs, expected)


def test_reset_in_mid_sequence_and_twice(counter):
    inputs = [torch.randn(2) for _ in range(4)]
    expected = counter_steps(inputs)
    with load(counter) as session:
        for length in (3, 1, 0, 4):
            session.reset()
            assert_steps(session, inputs[:length], expected[:length])
        session.reset()
        session.reset()
        assert_steps(session, inputs, expected)


def test_two_sessions_have_a_state_each(counter):
    inputs = [torch.randn(2) for _ in range(3)]
    expected = counter_steps(inputs)
    with load(counter) as one, load(counter) as two:
        assert_steps(one, inputs[:2], expected[:2])
        assert_steps(two, inputs[:1], expected[:1])
        one.reset()
        assert_steps(two, inputs[1:], expected[1:])
        assert_steps(one, inputs, expected)


def test_a_key_value_cache_over_steps_and_after_reset(folder):
    torch.manual_seed(0)
    module = Cache().eval()
    reference = Cache().eval()
    reference.load_state_dict(module.state_dict())
    write_artifact(captured(module, torch.randn(1, 1, 8), torch.tensor([0])), folder / "cache.edgex")
    steps = [(torch.randn(1, 1, 8), torch.tensor([at])) for at in (0, 1, 2, 5, 2)]
    with torch.no_grad():
        expected = [reference(*step) for step in steps]
    assert not torch.allclose(expected[0], expected[1])
    with load(folder / "cache.edgex") as session:
        for round_ in range(2):
            for step, wanted in zip(steps[: 3 if round_ == 0 else None], expected, strict=False):
                assert_close(session.run(*step)[0], wanted)
            session.reset()


def test_a_weight_that_is_state(folder):
    def forward(self, x):
        y = F.linear(x, self.weight)
        self.weight.mul_(2)
        return y

    torch.manual_seed(0)
    module = Call(forward, weight=torch.randn(4, 8))
    weight, x = module.weight.clone(), torch.randn(2, 8)
    write_artifact(captured(module, x), folder / "weight.edgex")
    with load(folder / "weight.edgex") as session:
        for step in range(3):
            assert_close(session.run(x)[0], F.linear(x, weight * 2**step))


def test_a_state_that_is_equal_everywhere_is_kept_as_one_number():
    assert engine_module._compact(torch.zeros(4, 4)).shape == ()
    assert engine_module._compact(torch.arange(4)).shape == (4,)
    assert engine_module._compact(torch.full((2,), float("nan"))).shape == (2,)
    assert engine_module._compact(torch.tensor(5)).shape == ()
