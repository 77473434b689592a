"""XNNPACK takes tensors whose size the program reads from another, where the program says that none is empty."""

from __future__ import annotations

import pytest
import torch
from executorch.backends.xnnpack.partition.config import xnnpack_config

from edgex.delegates.executorch import exir
from edgex.delegates.xnnpack.partitioner import make_partitioner
from edgex.delegates.xnnpack.run_time_sizes import sizes_of_run_time


class Prefix(torch.nn.Module):
    def __init__(self, least: int) -> None:
        super().__init__()
        self.least = least

    def forward(self, x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        size = count.item()
        torch._check(size >= self.least)
        torch._check(size <= 64)
        return torch.sigmoid(x.narrow(1, 0, size))


@pytest.mark.parametrize(("least", "taken"), [(1, True), (0, False)])
def test_a_size_of_run_time_is_taken_where_it_is_at_least_one(least: int, taken: bool) -> None:
    program = torch.export.export(Prefix(least), (torch.randn(3, 64), torch.tensor([5])))
    edge = exir.lower_to_edge(program, make_partitioner(lambda _edge, _refuse: None))
    left = {str(node.target) for node in edge.exported_program().graph.nodes}
    assert any("sigmoid" in name for name in left) != taken, left


class Chosen(torch.nn.Module):
    """Counts what it chooses, and returns nothing of it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer(x)
        x[x.sum(-1) > 0].clamp(min=0)
        return self.layer(torch.relu(x))


def test_checks_of_sizes_are_gone_when_regions_are_lowered() -> None:
    program = torch.export.export(Chosen(), (torch.randn(5, 8),))
    assert any("assert" in str(node.target) for node in program.graph.nodes)
    edge = exir.lower_to_edge(program, make_partitioner(lambda _edge, _refuse: None))
    assert len(exir.regions_of(edge.exported_program())) == 1


def test_the_check_of_executorch_is_where_it_is_replaced() -> None:
    before = xnnpack_config.has_free_unbacked_symbols
    with sizes_of_run_time():
        assert xnnpack_config.has_free_unbacked_symbols is not before
    assert xnnpack_config.has_free_unbacked_symbols is before
