"""Parts of a program compute what the whole computes there, wherever it is cut."""

from __future__ import annotations

import pytest
import torch
from bisect_support import randn
from rewriting import program_of
from torch import nn

from edgex.export.bisect.parts.cutting import can_cut, cut
from edgex.export.bisect.parts.recording import Feed, record
from edgex.export.bisect.parts.steps import make_whole
from edgex.export.quantization.running import GraphRunner


class Branches(nn.Module):
    """Several results of one operator, constants that are computed, sizes, a weight that is read twice."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x):
        a, b = self.linear(x).chunk(2, -1)
        top, _ = torch.topk(b, 2, -1)
        places = torch.arange(x.shape[0], dtype=torch.float32).reshape(-1, 1)
        return (a.sin() * places).sum(-1) + top.mean(-1), self.linear(x.relu()).reshape(x.shape[0] * 2, 3)


class Counter(nn.Module):
    """State that is written in place."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        self.total.add_(x)
        return (self.total * 2).sin()


def cases():
    batch = torch.export.Dim("batch", min=2, max=9)
    x = randn(4, 6)
    return {
        "branches": (Branches(), (x,), {}, ()),
        "sizes": (Branches(), (x,), {"dynamic_shapes": ({0: batch},)}, ()),
        "state": (Counter(), (randn(4),), {}, ("total",)),
        "attention": (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (randn(2, 5, 8),), {}, ()),
    }


@pytest.mark.parametrize("name", ["branches", "sizes", "state", "attention"])
def test_both_halves_of_a_cut_give_what_the_whole_gives_there(name):
    module, args, options, state = cases()[name]
    with torch.no_grad():
        exported = torch.export.export(module.eval(), args, **options)
    program = program_of(exported.run_decompositions({}) if name == "branches" else exported, args, state)
    whole = make_whole(program, {})
    recording = record(whole.program, Feed("example", (args, args)))
    assert recording.unsteady is None and len(whole.steps) > 1
    for at in range(1, len(whole.steps), max(1, len(whole.steps) // 4)):
        assert can_cut(whole, at, recording.forms)
        for steps in (whole.steps[:at], whole.steps[at:]):
            part = cut(whole, steps, recording.forms)
            values = recording.values({*part.reads, *part.gives})
            outputs = GraphRunner(part.program).run([values[name] for name in part.reads])
            assert all(spec.is_static for spec in part.program.inputs)
            for given, expected in zip(outputs, part.gives, strict=True):
                torch.testing.assert_close(given, values[expected])


def test_the_first_operator_that_makes_nan_of_numbers():
    exported = torch.export.export(nn.Sequential(nn.ReLU(), Log(), nn.Tanh()), (randn(3),))
    recording = record(program_of(exported, (randn(3),)), Feed("example", ((randn(3),),)))
    assert str(recording.not_finite.target) == "aten.log.default"


class Log(nn.Module):
    def forward(self, x):
        return torch.log(x - 1)
