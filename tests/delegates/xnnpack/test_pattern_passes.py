"""Passes that look for patterns run where a pattern can be, and only there."""

from __future__ import annotations

import torch
from executorch.backends.xnnpack._passes import convert_to_sdpa, convert_to_upsample_bilinear2d
from executorch.backends.xnnpack.partition.graphs import bilinear_2d, sdpa
from torch.fx.passes.infra.pass_base import PassResult

from edgex.delegates.xnnpack.pattern_passes import NEEDED, operators, possible_patterns


def test_every_pattern_has_the_operators_that_are_asked_for() -> None:
    patterns = {"ConvertToUpsampleBilinear2d": bilinear_2d.get_graphs(), "ConvertToSDPAPass": sdpa.get_graphs()}
    assert patterns.keys() == NEEDED.keys()
    for name, graphs in patterns.items():
        for graph in graphs:
            assert NEEDED[name] <= operators(graph), f"{name} looks for {sorted(operators(graph))} now"


def test_a_pass_runs_where_its_operators_are(monkeypatch) -> None:
    ran = []

    def run(_, graph):
        ran.append(graph)
        return PassResult(graph, True)

    for module, name in (
        (convert_to_sdpa, "ConvertToSDPAPass"),
        (convert_to_upsample_bilinear2d, "ConvertToUpsampleBilinear2d"),
    ):
        monkeypatch.setattr(
            getattr(module, name), "call", lambda self, graph: (ran.append(graph), PassResult(graph, True))[1]
        )
    (scale, *_), (attention, *_) = bilinear_2d.get_graphs(), sdpa.get_graphs()
    empty = torch.fx.symbolic_trace(torch.nn.ReLU())
    resize = object.__new__(convert_to_upsample_bilinear2d.ConvertToUpsampleBilinear2d)
    attend = object.__new__(convert_to_sdpa.ConvertToSDPAPass)
    with possible_patterns():
        assert [resize.call(graph).modified for graph in (scale, attention, empty)] == [True, False, False]
        assert [attend.call(graph).modified for graph in (scale, attention, empty)] == [False, True, False]
    assert ran == [scale, attention]
    assert resize.call(empty).modified, "left as it was before"
