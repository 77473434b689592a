"""NaN and infinity that come out otherwise: named, counted, with the operator, and no reason to fail."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from benchmarks.operators.proof import prove
from edgex.runtime.session.special_values import compare_special_values

EAGER = np.array([math.nan, math.nan, 1.0, math.inf, -math.inf], np.float32)


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        (EAGER, []),
        ([0, 0, 1, math.inf, -math.inf], [("NaN", "0", 2)]),
        ([0, 3, 1, math.inf, -math.inf], [("NaN", "numbers", 2)]),
        ([math.nan, math.nan, math.nan, math.inf, math.inf], [("1", "NaN", 1), ("-inf", "inf", 1)]),
        ([math.nan, math.nan, 2, math.inf, -math.inf], [("numbers", "other numbers", 1)]),
    ],
)
def test_differences_are_named_and_counted(engine, expected) -> None:
    found = compare_special_values("NaN", "y", EAGER, np.asarray(engine, np.float32))
    assert [(entry.eager, entry.engine, entry.count) for entry in found] == expected
    assert all(entry.input == "NaN" and entry.output == "y" for entry in found)


def test_integers_are_compared_too() -> None:
    (found,) = compare_special_values("NaN", "y", np.array([1, 2, 3]), np.array([1, 0, 3]))
    assert (found.eager, found.engine, found.count) == ("2", "0", 1)


class Clamped(torch.nn.Module):
    def forward(self, x):
        return x.clamp(min=-1.0) + 1


class ClampedLayer(torch.nn.Module):
    """Behind a layer a clamp stays one, which ONNX Runtime fuses into it."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv1d(1, 1, 1, bias=False)
        torch.nn.init.ones_(self.layer.weight)

    def forward(self, x):
        return self.layer(x[:, None])[:, 0].clamp(min=-1.0) + 1


@pytest.mark.parametrize(
    ("module", "target", "fed", "engine"),
    [(Clamped, "onednn", "NaN", "0"), (ClampedLayer, "onnx-cpu", "infinity", "3.4e+38")],
)
def test_an_export_says_what_becomes_of_them_and_behind_which_line(module, target, fed, engine) -> None:
    proved = prove(module().eval(), (torch.linspace(-3, 3, 24).reshape(4, 6),), target)
    assert proved.exit_code == 0, proved.reason
    (entry,) = proved.verification["nan_inf"]
    assert (entry["input"], entry["output"], entry["engine"]) == (fed, "output_0", engine)
    assert entry["op"] == "aten.clamp.default" and entry["source"].startswith("test_special_values.py:")
    assert any(text.startswith(f"{fed}: output_0 has") and entry["source"] in text for text in proved.warnings)
    (told,) = [case for case in proved.verification["cases"] if case["verdict"] == "warning"]
    assert told["name"] == f"stress: {fed}"
    assert proved.verification["refuses"] == [{"values": fed, "inputs": ["x"]}]


def test_where_nothing_differs_nothing_is_said() -> None:
    proved = prove(Clamped(), (torch.linspace(-3, 3, 24).reshape(4, 6),), "xnnpack")
    assert proved.exit_code == 0 and proved.verification["nan_inf"] == []
    assert proved.verification["refuses"] == []
    assert not any("NaN" in text for text in proved.warnings)
