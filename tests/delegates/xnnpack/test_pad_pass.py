"""Paddings behind a conversion to float stay in float; without that, XNNPACK refuses the program when it is loaded."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import edgex
from edgex.delegates.xnnpack import pad_pass
from edgex.errors import EdgexError
from edgex.runtime.session.numerics import measure_sqnr_db


class Padded(nn.Module):
    """A padding whose reader is not quantized, as of relative positions, and one in front of a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.one(x)
        return torch.sigmoid(functional.pad(y, [0, 1])), self.two(functional.pad(y, [1, 1, 1, 1]))


def _export(tmp_path: Path) -> tuple[nn.Module, list[tuple[torch.Tensor]], Path]:
    torch.manual_seed(0)
    model, data = Padded().eval(), [(torch.randn(1, 3, 10, 10),) for _ in range(8)]
    found = edgex.export_model(model, data[0], target="xnnpack", quantize="int8", calibration=data, output=tmp_path)
    return model, data, found.path


def test_a_padding_that_no_quantized_operator_reads_loads_and_is_right(tmp_path: Path) -> None:
    model, data, path = _export(tmp_path)
    with edgex.load(path) as session:
        found = session(data[3][0])
    for expected, actual in zip(model(*data[3]), found, strict=True):
        sqnr = measure_sqnr_db(expected.detach().numpy(), np.asarray(actual))
        assert sqnr > 25, f"{sqnr:.1f} dB"


def test_without_it_the_program_does_not_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pad_pass, "float_pads", nullcontext)
    with pytest.raises(EdgexError, match="could not load"):
        _export(tmp_path)
