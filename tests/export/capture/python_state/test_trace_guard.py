"""What a trace changes in Python is put back by identity, whatever the containers' own methods allow."""

import functools
from collections import OrderedDict, deque

import pytest
import torch
from capture_checks import HERE, X
from torch import nn
from torch.export import Dim

from edgex.export.capture.program import capture
from edgex.export.capture.python_state import trace_guard
from edgex.export.capture.python_state.trace_guard import values_kept


class Frozen(OrderedDict):
    """As diffusers' FrozenDict: a configuration that forbids every method that changes it."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for key, value in self.items():
            setattr(self, key, value)
        self.__frozen = True

    def _refuse(self, *args, **kwargs):
        raise RuntimeError("frozen")

    __delitem__ = pop = update = setdefault = clear = _refuse

    def __setattr__(self, name, value):
        if hasattr(self, "_Frozen__frozen"):
            raise RuntimeError("frozen")
        super().__setattr__(name, value)

    def __setitem__(self, name, value):
        if hasattr(self, "_Frozen__frozen"):
            raise RuntimeError("frozen")
        super().__setitem__(name, value)


class FrozenConfig(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self._internal_dict = Frozen(scale=2.0, sizes=[1, 2])

    def forward(self, x):
        return self.linear(x) * self._internal_dict["scale"]


def test_a_frozen_configuration_is_no_obstacle():
    result = capture(FrozenConfig().eval(), (X,), source_root=HERE)
    assert result.notices == ()
    torch.testing.assert_close(result.program.exported.module()(X)[0], result.eager.run([X])[0])


class Shelf:
    def __init__(self):
        self.tables = {"a": torch.zeros(2)}
        self.seen = deque([1], maxlen=3)


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.names = ["one"]
        self.frozen = Frozen(kept=1)
        self.shelf = Shelf()
        self.kinds = {"k"}
        self.nested = {"deep": [{"er": []}]}


def test_values_come_back_by_identity():
    model = Plain()
    table, inner = model.shelf.tables["a"], model.nested["deep"][0]["er"]
    holders = (model.names, model.frozen, model.shelf, model.shelf.tables, model.shelf.seen, model.kinds, model.nested)
    with values_kept(model):
        model.names = None
        model.new = 1
        OrderedDict.__setitem__(model.frozen, "kept", 2)
        OrderedDict.__setitem__(model.frozen, "more", 3)
        model.shelf.tables["a"] = torch.ones(2)
        model.shelf.tables["b"] = 1
        model.shelf.seen.extend([2, 3, 4])
        model.shelf.extra = 5
        model.kinds.clear()
        inner.append(1)
    assert holders == (
        *(model.names, model.frozen, model.shelf, model.shelf.tables, model.shelf.seen, model.kinds, model.nested),
    )
    assert model.names == ["one"] and not hasattr(model, "new")
    assert list(OrderedDict.items(model.frozen)) == [("kept", 1)]
    assert list(model.shelf.tables) == ["a"] and model.shelf.tables["a"] is table
    assert list(model.shelf.seen) == [1] and not hasattr(model.shelf, "extra")
    assert model.kinds == {"k"} and model.nested["deep"][0]["er"] is inner and inner == []


@functools.lru_cache
def positions(length):
    return torch.arange(float(length))[:, None]


TABLES = {}


class Caching(nn.Module):
    def forward(self, x):
        if "ones" not in TABLES or TABLES["ones"].shape[0] < x.shape[1]:
            TABLES["ones"] = torch.ones(x.shape[1])
        return x * positions(x.shape[0])[-1, 0] + TABLES["ones"][: x.shape[1]]


def test_caches_of_functions_and_globals_hold_no_tensors_without_values():
    result = capture(Caching().eval(), (X[:, :1],), dynamic_shapes={"x": {1: Dim("n", min=1, max=9)}}, source_root=HERE)
    for size in (2, 1, 5):
        given = torch.ones(3, size)
        torch.testing.assert_close(result.eager.run([given])[0], given * 2 + 1)


def test_a_guard_that_fails_is_no_refusal_of_the_model(monkeypatch):
    class Broken(trace_guard.KeptValues):
        def put_back(self):
            raise ZeroDivisionError("of edgex")

    monkeypatch.setattr(trace_guard, "KeptValues", Broken)
    with pytest.raises(ZeroDivisionError):
        capture(FrozenConfig().eval(), (X,), source_root=HERE)
