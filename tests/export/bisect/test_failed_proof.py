"""What `export` says of an engine that runs something else than PyTorch, or does not run it at all."""

from __future__ import annotations

import pytest
import torch
from bisect_support import randn
from torch import nn

from edgex.delegates.registry import get_delegate
from edgex.errors import LoweringError, VerificationError
from edgex.export.pipeline import export_to_targets
from edgex.export.settings import ExportSettings, Limits
from edgex.export.source.source import wrap_model


class Spectrum(nn.Module):
    """ExecuTorch's kernel transforms the last dimension, and refuses to run for another."""

    def forward(self, x):
        return torch.fft.rfft(x * 2.0, dim=0)


def export(module, args, target, tmp_path, **settings):
    given = ExportSettings((target,), output=tmp_path, **settings)
    source = wrap_model(module.eval(), args, {})
    return export_to_targets(lambda: source, given, name="net").failures


def test_what_an_engine_does_not_run_is_refused_with_its_operator(tmp_path):
    if not get_delegate("xnnpack").availability().available:
        pytest.skip("xnnpack cannot be used here")
    (failure,) = export(Spectrum(), (randn(2, 8),), "xnnpack", tmp_path)
    assert isinstance(failure.error, LoweringError) and "cannot run this model" in failure.error.what
    assert "aten.fft_rfft.default" in failure.error.why and failure.error.where.startswith("test_failed_proof.py:")
    assert failure.to_json()["bisect"]["born"][0]["op"] == "aten.fft_rfft.default"


def test_no_bisect_leaves_the_error_as_it_is(tmp_path):
    module = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    (failure,) = export(module, (randn(2, 4),), "onnx-cpu", tmp_path, bisect_seconds=0.0, tolerance=Limits(299.0))
    assert isinstance(failure.error, VerificationError) and failure.to_json()["bisect"] is None
    assert "born" not in failure.error.why
