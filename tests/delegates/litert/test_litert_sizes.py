"""The target litert with a signature for each of some sizes, and with methods of other kinds, in one file."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from litert_support import needs_litert
from sized_models import make_reader, make_text
from torch import nn

import edgex
from edgex.errors import LoweringError, RunError
from edgex.runtime.session.numerics import measure_sqnr_db

pytestmark = needs_litert


@pytest.mark.parametrize("recipe", [None, "int8"])
def test_each_size_is_proved_and_weights_are_in_the_file_once(tmp_path: Path, recipe: str | None) -> None:
    model, data = make_reader(), [make_text(12, seed) for seed in range(9)]
    artifact = edgex.export_model(
        model,
        make_text(12),
        target="litert",
        output=tmp_path,
        sizes=["ids:1=L=6,12", "mask:1=L"],
        quantize=recipe,
        calibration=data if recipe else None,
    )
    assert artifact.manifest.status == "verified"
    weights = sum(p.numel() for p in model.parameters()) * 4
    assert artifact.manifest.model_bytes < weights + 64 * 48 * 4 * 2 + 30_000, artifact.manifest.model_bytes
    with edgex.load(artifact.path, threads=1) as session:
        for length in (6, 12, 6):
            inputs = make_text(length, seed=length)
            ratio = measure_sqnr_db(model(*inputs).detach().numpy(), session(*inputs)[0])
            assert ratio > (20 if recipe else 100), f"length {length}: {ratio:.1f} dB"
        with pytest.raises(RunError, match="no method for these sizes"):
            session(*make_text(7))


def test_methods_of_two_modules_share_a_file(tmp_path: Path) -> None:
    torch.manual_seed(0)
    first, second = nn.Linear(4, 6).eval(), nn.Linear(6, 3).eval()
    x = torch.randn(2, 4)
    methods = {"widen": (first, (x,)), "narrow": (second, (first(x).detach(),))}
    artifact = edgex.export_model(methods, target="litert", output=tmp_path, name="pair")
    with edgex.load(artifact.path) as widen:
        (wide,) = widen(x)
        (found,) = widen.method("narrow")(wide)
        ratio = measure_sqnr_db(second(first(x)).detach().numpy(), found)
        assert ratio > 100, f"{ratio:.1f} dB"


def test_a_dynamic_model_is_refused_with_the_flag_that_makes_sizes_of_it() -> None:
    shapes = {"input": {0: torch.export.Dim("b", min=1, max=8)}}
    with pytest.raises(LoweringError, match="dynamic ones") as raised:
        edgex.export_model(nn.Linear(4, 4), (torch.ones(2, 4),), target="litert", dynamic_shapes=shapes)
    assert "--sizes input:0=1,8" in (raised.value.fix or "")
