"""What Python reads out of a module's own tensors is known while tracing; what a run changes, or is given, is not."""

import pytest
import torch
from capture_checks import HERE, X, assert_signature_holds, captured, module_of
from torch import nn
from torch.nn import functional as F

from edgex.errors import CaptureError
from edgex.export.capture.program import capture


def flagged(self, x):
    """A codebook's flag: the other branch is for a training."""
    if not self.initted:
        x = x * 2
    return self.linear(x)


def padded(self, x):
    """As in audio codecs: sizes are computed with tensors."""
    frames = torch.ceil((x.shape[1] - self.kernel + self.stride) / self.stride).to(torch.int64)
    extra = frames * self.stride + self.kernel - x.shape[1]
    return self.linear(F.pad(x, (self.stride, extra))[:, : self.kernel])


def counted_here(self, x):
    """A table that is written to in forward, and made there."""
    sizes = torch.zeros(2, dtype=torch.int64)
    sizes[0] = self.kernel
    sizes += 1
    return self.linear(x)[: int(sizes[0]) - 3, : sizes.tolist()[1]]


@pytest.mark.parametrize("forward", [flagged, padded, counted_here])
def test_buffers_answer_python(forward):
    result = captured(
        forward, (X,), initted=torch.tensor(True), stride=torch.tensor(2), kernel=torch.tensor(4), other=torch.zeros(0)
    )
    assert not result.strict
    assert_signature_holds(result)


def test_the_branch_is_the_one_that_the_buffer_takes():
    results = [captured(flagged, (X,), initted=torch.tensor(value)) for value in (True, False)]
    first, second = (result.program.exported.module()(X)[0] for result in results)
    assert not torch.allclose(first, second)


def test_plain_tensors_and_parameters():
    model = module_of(lambda self, x: self.linear(x)[:, : self.half] * (2 if self.scale > 1 else 1))
    model.half, model.scale = torch.tensor(4) // 2, nn.Parameter(torch.tensor(1.5))
    result = capture(model, (X,), source_root=HERE)
    assert_signature_holds(result)
    assert result.program.outputs[0].static_shape == (3, 2)


def counting(self, x):
    self.count += 1
    return self.linear(x) if self.count < 3 else x


def mixed(self, x):
    table = self.table.clone()
    table[0] = x.sum().long()
    return self.linear(x) if table[0] > 3 else x


@pytest.mark.parametrize("forward", [counting, mixed, lambda self, x: self.linear(x) if x.sum() > 0 else x])
def test_what_a_run_decides_is_refused(forward):
    with pytest.raises(CaptureError) as caught:
        captured(forward, (X,), count=torch.tensor(0), table=torch.zeros(2))
    assert caught.value.what == "data-dependent control flow"


def test_distributions_are_captured_without_their_checks(monkeypatch):
    # Whatever else ran in this process: PyTorch's tracer of bytecode leaves the checks out for good.
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)

    def forward(self, x):
        policy = torch.distributions.Normal(self.linear(x), F.softplus(x))
        choice = torch.distributions.Categorical(logits=x)
        return policy.log_prob(x.tanh()), choice.entropy()

    result = captured(forward, (X,))
    assert_signature_holds(result)
    assert any("torch.distributions' checks" in notice for notice in result.notices)
    assert torch.distributions.Distribution._validate_args is True
