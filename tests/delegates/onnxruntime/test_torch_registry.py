"""torch's table of ONNX translations, made once in a process."""

from __future__ import annotations

import pytest
import torch
from torch.onnx._internal.exporter._registration import ONNXRegistry

from edgex.delegates.onnxruntime.graph.torch_registry import translations_kept

OPSET = 20


@pytest.fixture
def made(monkeypatch):
    """Grows with each table that torch makes."""
    tables = []
    make = ONNXRegistry.from_torchlib

    def from_torchlib(opset_version):
        tables.append(opset_version)
        return make(opset_version=opset_version)

    monkeypatch.setattr(ONNXRegistry, "from_torchlib", staticmethod(from_torchlib))
    return tables


def test_the_table_is_made_once_and_again_when_there_are_more_operators(made):
    for _ in range(2):
        with translations_kept():
            first, second = (ONNXRegistry().from_torchlib(opset_version=OPSET) for _ in range(2))
            assert first.functions == second.functions
    assert made == [OPSET]
    with torch.library._scoped_library("edgex_translated", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        with translations_kept():
            ONNXRegistry().from_torchlib(opset_version=OPSET)
    assert made == [OPSET] * 2


def test_each_opset_has_its_own(made):
    with translations_kept():
        tables = [ONNXRegistry().from_torchlib(opset_version=opset) for opset in (18, 23)]
    assert [table.opset_version for table in tables] == made == [18, 23]
    assert len(tables[1].functions) > len(tables[0].functions) > 300


def test_what_one_export_adds_the_next_does_not_have(made):
    sine = torch.ops.aten.sin.default
    with translations_kept():
        before = ONNXRegistry().from_torchlib(opset_version=OPSET)
        known = before.get_decomps(sine)
        before.register_op(sine, lambda x: x)
        after = ONNXRegistry().from_torchlib(opset_version=OPSET)
    assert len(before.get_decomps(sine)) == len(known) + 1
    assert after.get_decomps(sine) == known


def test_torch_is_as_it_was_afterwards():
    before = vars(ONNXRegistry)["from_torchlib"]
    with pytest.raises(ZeroDivisionError), translations_kept():
        1 / 0  # noqa: B018
    assert vars(ONNXRegistry)["from_torchlib"] is before
