"""`--verify-data`: the user's samples are judged strictly, and do not travel with the artifact."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from edgex.errors import LoweringError, UsageError, VerificationError
from edgex.export.pipeline import export_to_targets
from edgex.export.settings import ExportSettings
from edgex.export.source.source import wrap_model
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.artifact.golden import read_golden


class RightNearZero(nn.Module):
    """onnxruntime's log-sigmoid, unless it is rewritten, is -inf below -18, where only samples of 40 and more lead."""

    def forward(self, x):
        return x + F.logsigmoid(-F.relu(x - 20))


class Summed(nn.Module):
    def forward(self, a, b):
        return torch.einsum("...ij,...jk->...ik", a.sin(), b)


def export(module, args, tmp_path, **settings):
    given = ExportSettings(("onnx-cpu",), output=tmp_path / "net.edgex", rewrite=False, **settings)
    source = wrap_model(module.eval(), args, {})
    export_to_targets(lambda: source, given, name="net", stop_at_failure=True)
    return open_artifact(tmp_path / "net.edgex")


def test_samples_that_are_right_are_told_and_stay_here(tmp_path):
    artifact = export(RightNearZero(), (torch.rand(2, 8),), tmp_path, verify_data=lambda: [torch.rand(2, 8)])
    (told,) = [case for case in artifact.manifest.verification["cases"] if case["name"] == "verify-data sample 1"]
    assert told["verdict"] == "pass"
    (kept,) = [case for case in read_golden(artifact) if case.name == "verify-data sample 1"]
    assert kept.kind == "skipped" and not kept.steps and "not carried" in kept.reason


def test_a_sample_on_which_the_artifact_is_wrong_names_the_operator(tmp_path):
    samples = [torch.rand(2, 8), torch.rand(2, 8) * 60]
    with pytest.raises(VerificationError) as error:
        export(RightNearZero(), (torch.rand(2, 8),), tmp_path, verify_data=lambda: samples)
    assert "verify-data sample 2" in error.value.why and error.value.where.startswith("test_held_out.py:")
    (born,) = error.value.bisect["born"]
    assert born["op"] == "aten.log_sigmoid.default" and born["case"] == "verify-data sample 2"
    assert not (tmp_path / "net.edgex").exists()


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        ([torch.rand(3, 9)], r"verify-data sample 1 of verify_data\(\): input 'x' has shape"),
        ([torch.full((2, 8), np.nan)], "holds NaN"),
        ([], "gives no samples"),
    ],
)
def test_bad_data_is_named(samples, words, tmp_path):
    with pytest.raises(UsageError, match=words):
        export(RightNearZero(), (torch.rand(2, 8),), tmp_path, verify_data=lambda: samples)


def test_what_the_engine_does_not_load_is_refused_with_its_operator(tmp_path):
    with pytest.raises(LoweringError, match="cannot load") as error:
        export(Summed(), (torch.rand(2, 3, 4, 5), torch.rand(3, 5, 2)), tmp_path)
    assert error.value.bisect["born"][0]["op"] == "aten.einsum.default"
