"""A constant that two regions read, one of them more than once: ExecuTorch's own copies of it have one name."""

from __future__ import annotations

import torch
from executorch.exir.backend import backend_api
from onednn_support import needs_onednn

from edgex.delegates.executorch import exir
from edgex.delegates.executorch.exporter.shared_constants import constants_of_regions
from edgex.delegates.onednn.delegate import _make_partitioner

pytestmark = needs_onednn


class Shares(torch.nn.Module):
    """The sorting is between two regions, of which the second reads the constant twice."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = torch.linspace(-1, 1, 6).reshape(2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = (x * self.shared).cumsum(1)
        return (first + self.shared) * torch.sigmoid(self.shared - first)


def constants_by_region(edge) -> list[tuple[str, ...]]:
    modules = edge.exported_program().graph_module.named_children()
    return [module.original_module.graph_signature.lifted_tensor_constants for _, module in modules]


def test_each_region_has_one_copy_and_the_program_gives_what_it_gave() -> None:
    x = torch.randn(2, 3)
    exported = torch.export.export(Shares(), (x,))
    with constants_of_regions():
        edge = exir.lower_to_edge(exported, _make_partitioner(lambda _edge, _refuse: None))
    names = constants_by_region(edge)
    assert [len(region) for region in names] == [1, 1] and names[0] != names[1], names
    torch.testing.assert_close(edge.exported_program().module()(x), Shares()(x))


class SharesOften(Shares):
    """In four regions."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = torch.sigmoid(x * self.shared).cumsum(1)
        return x


def test_more_than_two_regions_have_a_copy_each_in_the_order_of_the_signature() -> None:
    x = torch.randn(2, 3)
    exported = torch.export.export(SharesOften(), (x,))
    with constants_of_regions():
        edge = exir.lower_to_edge(exported, _make_partitioner(lambda _edge, _refuse: None))
    names = constants_by_region(edge)
    assert [len(region) for region in names] == [1] * 4
    assert len({tuple(region) for region in names}) == 4, names
    torch.testing.assert_close(edge.exported_program().module()(x), SharesOften()(x))


def test_without_it_executorch_names_two_inputs_of_a_region_alike() -> None:
    # Where this fails, ExecuTorch has mended it, and the module can go.
    exported = torch.export.export(Shares(), (torch.randn(2, 3),))
    edge = exir.lower_to_edge(exported, _make_partitioner(lambda _edge, _refuse: None))
    assert any(len(set(names)) < len(names) for names in constants_by_region(edge))


def test_what_is_replaced_is_there_and_put_back() -> None:
    before = backend_api._maybe_duplicate_constant_nodes
    with constants_of_regions():
        assert backend_api._maybe_duplicate_constant_nodes is not before
    assert backend_api._maybe_duplicate_constant_nodes is before
