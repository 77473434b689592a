"""The reference: the user's model behind the signature of its program."""

from pathlib import Path

import pytest
import torch
from torch import nn

from edgex.export.capture.program import capture
from edgex.export.source.eager import REFERENCE_THREADS, BufferSnapshot

HERE = Path(__file__).parent
X = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.tensor(5.0))
        self.register_buffer("last", torch.zeros(4))
        self.register_buffer("frozen", torch.ones(4))

    def forward(self, x, parts, scale=2):
        self.count += 1
        self.last = x[0] * 2
        x.add_(1)
        return {"y": x * self.count * scale + parts["z"] + self.frozen, "none": None, "count": self.count}


@pytest.fixture
def counter():
    return capture(Counter().eval(), (X.clone(), {"z": X * 3}), source_root=HERE)


def test_leaves_in_and_leaves_out(counter):
    assert [spec.name for spec in counter.eager.inputs] == ["x", "parts.z"]
    assert [spec.name for spec in counter.eager.outputs] == ["y", "count"]
    assert [tuple(t.shape) for t in counter.eager.example] == [(2, 4), (2, 4)]
    y, count = counter.eager.run([X, X])
    assert count == 6
    torch.testing.assert_close(y, (X + 1) * 12 + X + 1)


def test_inputs_are_not_written_to(counter):
    given = X.clone()
    counter.eager.run([given, X])
    assert torch.equal(given, X)


def test_state_goes_on_and_reset_puts_it_back(counter):
    runs = [counter.eager.run(counter.eager.example) for _ in range(3)]
    assert [float(count) for _, count in runs] == [6.0, 7.0, 8.0]
    counter.eager.reset()
    again = counter.eager.run(counter.eager.example)
    assert torch.equal(again[0], runs[0][0])
    assert torch.equal(again[0], counter.eager.example_outputs[0])


def test_outputs_are_owned_by_the_caller(counter):
    _, first = counter.eager.run(counter.eager.example)
    counter.eager.run(counter.eager.example)
    assert first == 6


def test_reset_keeps_the_module_s_own_tensors():
    model = Counter().eval()
    count, last = model.count, model.last
    result = capture(model, (X.clone(), {"z": X}), source_root=HERE)
    assert [state.name for state in result.program.state] == ["count", "last"]
    assert model.count is count
    assert model.last is last, "a replaced buffer is put back"
    assert count == 5, "capture leaves the model as it was"
    result.eager.run(result.eager.example)
    result.eager.reset()
    assert model.count is count
    assert count == 5
    assert torch.equal(model.last, torch.zeros(4))


def test_running_eager_does_not_change_the_program(counter):
    state = {**counter.program.exported.state_dict, **counter.program.exported.constants}
    counter.eager.run(counter.eager.example)
    assert state["count"] == 5


def test_conditions_of_a_reference_run():
    seen = []

    class Probe(nn.Module):
        def forward(self, x):
            seen.append((torch.get_num_threads(), torch.is_grad_enabled()))
            return x * 2

    model = Probe().eval()
    threads = torch.get_num_threads()
    result = capture(model, (X,), source_root=HERE)
    result.eager.run([X])
    assert set(seen) == {(REFERENCE_THREADS, False)}
    assert torch.get_num_threads() == threads
    assert torch.is_grad_enabled()


def test_flatten_takes_calls_of_the_same_structure(counter):
    leaves = counter.eager.flatten((X + 1, {"z": X + 2}))
    assert [torch.equal(leaf, X + n) for leaf, n in zip(leaves, (1, 2), strict=True)] == [True, True]
    with pytest.raises(ValueError, match="the inputs have the structure"):
        counter.eager.flatten((X,))


def test_snapshot_of_shared_and_inference_tensors():
    module = nn.Module()
    shared = torch.zeros(2)
    module.register_buffer("a", shared)
    module.register_buffer("b", shared)
    with torch.inference_mode():
        module.register_buffer("c", torch.ones(2))
    snapshot = BufferSnapshot(module)
    shared.add_(1)
    assert snapshot.touched()["a"] == ("a", "b")
    snapshot.restore()
    assert module.b is shared
    assert torch.equal(shared, torch.zeros(2))
    assert torch.equal(module.c, torch.ones(2))


def test_expanded_buffers_are_put_back():
    """Nobody can write to one as a whole; a place of it that is written is written for all that share it."""

    class Expanded(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.arange(3.0)[:, None].expand(3, 4))

        def forward(self, x):
            self.table[1, 2] = 7.0
            return x + self.table

    module = Expanded()
    before = module.table.clone()
    snapshot = BufferSnapshot(module)
    module(torch.zeros(3, 4))
    assert set(snapshot.touched()) == {"table"} and float(module.table[1, 0]) == 7
    snapshot.restore()
    assert torch.equal(module.table, before) and module.table.stride() == (1, 0)
