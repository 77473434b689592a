"""PyTorch's composite operators, looked up once: the same decompositions in a third of the time."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._ops import OpOverload

from edgex.delegates.graph.composite_operators import composites_listed_once


class Net(nn.Module):
    """Composite operators that are taken apart, and one that a table may keep."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(4, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.Linear(8, 8)

    def forward(self, x):
        x = nn.functional.gelu(self.norm(self.conv(x)))
        return torch.einsum("bchw,bcwk->bchk", self.head(x), x).softmax(-1)


@pytest.fixture(scope="module")
def program():
    return torch.export.export(Net().eval(), (torch.randn(2, 4, 8, 8),))


@pytest.fixture
def read(monkeypatch):
    """Grows by one with each look at all operators of the dispatcher."""
    from torch._export import utils

    found = []
    look_up = utils._materialize_cpp_cia_ops
    monkeypatch.setattr(utils, "_materialize_cpp_cia_ops", lambda: found.append(1) or look_up())
    return found


def decompose(program, *kept):
    table = torch.export.default_decompositions()
    for operator in kept:
        table.pop(operator)
    decomposed = program.run_decompositions(table)
    return [node.target for node in decomposed.graph.nodes if node.op == "call_function"]


def test_operators_are_looked_up_once_and_again_when_there_are_others(program, read):
    with composites_listed_once():
        decompose(program)
    known = len(read)
    assert known <= 2, "PyTorch keeps those of its own; another test may have looked them up"
    with composites_listed_once():
        decompose(program)
        decompose(program)
        assert len(read) == known
        with torch.library._scoped_library("edgex_listed", "DEF") as library:
            library.define("twice(Tensor x) -> Tensor")
            library.impl("twice", lambda x: 2 * x, "CompositeImplicitAutograd")
            twice = torch.ops.edgex_listed.twice.default
            assert twice in torch.export.default_decompositions()
            assert len(read) == known + 1
        assert twice not in torch.export.default_decompositions()
        assert len(read) == known + 2
    decompose(program)
    assert len(read) > known + 10, "outside, PyTorch does as it does"


@pytest.mark.parametrize("kept", [(), (torch.ops.aten.linear.default,), (torch.ops.aten.einsum.default,)])
def test_programs_are_decomposed_as_without_it(program, kept):
    with composites_listed_once():
        found = decompose(program, *kept)
    assert found == decompose(program, *kept)
    assert all(operator in found for operator in kept)


def test_kernels_are_registered_and_dispatched_to_as_without_it():
    key = torch._C.DispatchKey.CPU
    with torch.library._scoped_library("edgex_kernels", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        twice = torch.ops.edgex_kernels.twice.default
        with composites_listed_once():
            assert twice.py_impl(key)(lambda x: 2 * x)(torch.ones(1)) == 2
            assert key in twice.py_kernels
            with pytest.raises(RuntimeError, match="override a python impl"):
                twice.py_impl(key)(lambda x: x)
            twice.py_impl(torch._subclasses.FakeTensorMode)(lambda *_: None)
            assert torch._subclasses.FakeTensorMode in twice.python_key_table


def test_pytorch_is_as_it_was_afterwards():
    from torch._export import utils
    from torch.export import decomp_utils, exported_program

    before = [vars(module)["_collect_all_valid_cia_ops"] for module in (utils, decomp_utils, exported_program)]
    register = OpOverload.py_impl
    with pytest.raises(ZeroDivisionError), composites_listed_once():
        with composites_listed_once():  # a lowering within a lowering
            assert OpOverload.py_impl is not register
        1 / 0  # noqa: B018
    after = [vars(module)["_collect_all_valid_cia_ops"] for module in (utils, decomp_utils, exported_program)]
    assert after == before
    assert OpOverload.py_impl is register
