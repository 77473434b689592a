"""Operators that a delegate lowers wrongly are found, and told apart from those that only pass the error on."""

from __future__ import annotations

import torch
from bisect_support import bisect_mistakes, operators, randn
from torch import nn

ATEN = torch.ops.aten


class Net(nn.Module):
    """Eleven operators; `exp` makes a small error a large one."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.one = nn.Linear(6, 8)
        self.two = nn.Linear(8, 8)

    def forward(self, x):
        x = torch.sin(self.one(x) * 0.1)
        x = torch.tanh(self.two(x))
        return torch.exp(30 * x.relu()) * torch.sigmoid(x + 2.0)


def test_faults_are_told_from_what_enlarges_them_and_cuts_come_between_regions_first(tmp_path):
    mistakes = {ATEN.sin.default: ATEN.arctan.default, ATEN.sigmoid.default: ATEN.tanh.default}
    names = _node_names()
    border = names.index("linear_1")
    regions = {name: int(at >= border) for at, name in enumerate(names)}
    looked = []
    found = bisect_mistakes(Net(), (randn(3, 6),), mistakes, tmp_path, regions=regions, looked=looked)
    assert operators(found.born) == ["aten.sin.default", "aten.sigmoid.default"]
    place = found.born[0].place
    assert place.source.startswith("test_search.py:") and place.dtype == "float32" and place.shape == (3, 8)
    assert 40 < found.born[0].error_db < 80 and found.born[1].error_db < 30
    assert found.born[0].engine == "torch: eager CPU" and found.limit_db == 80.0
    growth = next(one for one in found.amplified if one.place.op == "aten.exp.default")
    assert growth.error_db < growth.input_db - 6
    assert found.complete and any("by themselves" in sentence for sentence in found.ruled_out)
    assert looked[1] == f"reference: operators 1 to {border} of {len(names)}", "the first cut is between the regions"


def test_what_is_wrong_only_together_is_narrowed_from_both_ends(tmp_path):
    mistakes, beside = {ATEN.sin.default: ATEN.arctan.default}, ATEN.sigmoid.default
    found = bisect_mistakes(Net(), (randn(3, 6),), mistakes, tmp_path, beside=beside)
    (born,) = found.born
    assert [born.together[0].op, born.place.op] == ["aten.sin.default", "aten.sigmoid.default"]
    assert born.alone_db > 80, "that of the halves of what is named"
    assert [one.command.count("--exclude") for one in born.workarounds] == [1], "leaving out the last is enough"


def test_no_time_gives_what_is_known(tmp_path):
    found = bisect_mistakes(Net(), (randn(3, 6),), {ATEN.sin.default: ATEN.cos.default}, tmp_path, seconds=0.0)
    assert not found.complete and found.judged == 0 and not found.born
    assert any("time was up" in sentence for sentence in found.ruled_out)


def test_a_fault_of_a_quantized_program_is_the_engines_and_its_loss_is_not(tmp_path):
    mistakes = {ATEN.relu.default: ATEN.abs.default}
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))
    given = {"quantize": "int8", "calibration": "random:4"}
    found = bisect_mistakes(layers, (randn(3, 6),), mistakes, tmp_path, **given)
    assert operators(found.born) == ["aten.relu.default"]
    assert {"aten.linear.default"} <= set(operators(found.quantizing))


def _node_names():
    exported = torch.export.export(Net().eval(), (randn(3, 6),))
    return [node.name for node in exported.graph.nodes if node.op == "call_function"]
