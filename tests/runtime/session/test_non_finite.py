"""NaN and infinity in inputs: what an artifact is not proved to treat as eager does, it refuses."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

import edgex
from edgex.errors import RunError
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.execute.here.in_process import InProcess
from edgex.runtime.execute.run import run_once
from edgex.runtime.execute.verification import verify

from model_support import run_edgex  # isort: skip

X = torch.linspace(-3, 3, 24).reshape(4, 6)
MASK = torch.zeros(4, 6).masked_fill(torch.arange(6) > 4, -torch.inf)


class Clamped(torch.nn.Module):
    """ONNX Runtime clips infinity behind a layer to the largest number, and keeps NaN."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv1d(1, 1, 1, bias=False)
        torch.nn.init.ones_(self.layer.weight)

    def forward(self, x, mask):
        return self.layer(x[:, None])[:, 0].clamp(min=-1.0) + 1, (x + mask).exp()


@pytest.fixture(scope="module")
def artifact(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("non_finite") / "clamped.onnx-cpu.edgex"
    return edgex.export_model(Clamped().eval(), (X, MASK), target="onnx-cpu", output=folder).path


def holding(value: float) -> np.ndarray:
    x = X.numpy().copy()
    x[1, 2] = value
    return x


def test_the_proof_says_what_is_refused(artifact: Path) -> None:
    opened = open_artifact(artifact)
    assert opened.manifest.verification["refuses"] == [{"values": "infinity", "inputs": ["x"]}]
    with InProcess() as here:
        again, _ = verify(here, opened)
    assert again.passed and any(case.verdict == "warning" for case in again.cases)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinity_is_refused_with_place_and_reason(artifact: Path, value: float) -> None:
    with edgex.load(artifact) as session:
        for call in (session.run, session.prepare, pickle.loads(pickle.dumps(session)).run):
            with pytest.raises(RunError, match=r"'x' holds infinity at \[1, 2\]") as caught:
                call(holding(value), MASK.numpy())
    assert "aten.clamp.default at test_non_finite.py:" in str(caught.value.why)
    assert "allow_non_finite" in str(caught.value.fix)


def test_what_is_as_eager_runs(artifact: Path) -> None:
    with edgex.load(artifact) as session:
        clamped, added = session.run(holding(np.nan), MASK.numpy())
        with torch.no_grad():
            eager = Clamped()(torch.from_numpy(holding(np.nan)), MASK)
    np.testing.assert_array_equal(np.isnan(clamped), np.isnan(eager[0].numpy()))
    np.testing.assert_allclose(added, eager[1].numpy(), rtol=1e-5)
    assert np.isnan(clamped).sum() == 1 and (added[:, 5] == 0).all()


def test_who_asks_for_it_gets_what_the_engine_makes_of_it(artifact: Path) -> None:
    with edgex.load(artifact, allow_non_finite=True) as session:
        clamped = session.run(holding(np.inf), MASK.numpy())[0]
        assert np.isfinite(clamped).all() and clamped.max() > 1e38


def test_run_once_refuses_before_the_executor_sees_it(artifact: Path) -> None:
    inputs = {"x": holding(np.inf), "mask": MASK.numpy()}
    with InProcess() as here:
        with pytest.raises(RunError, match="holds infinity"):
            run_once(here, open_artifact(artifact), inputs)
        outputs, _ = run_once(here, open_artifact(artifact), inputs, allow_non_finite=True)
    assert outputs[0].shape == (4, 6)


def test_the_command_line_refuses_it_with_the_flag_that_lets_it_pass(artifact: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", holding(np.inf))
    given = ("run", str(artifact), "-i", "x=x.npy", "-i", "mask=mask.npy")
    np.save(tmp_path / "mask.npy", MASK.numpy())
    refused = run_edgex(*given, cwd=tmp_path)
    assert refused.returncode == 6 and "--allow-non-finite" in refused.stderr
    assert run_edgex(*given, "--allow-non-finite", cwd=tmp_path).returncode == 0
