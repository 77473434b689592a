"""A Session as Python code uses it: called, given mappings, asked by name, shown, sent to another process."""

from __future__ import annotations

import pickle
import shutil
from collections import UserDict
from pathlib import Path

import numpy as np
import pytest

import edgex
from edgex.errors import ArtifactError, RunError


def test_a_session_is_called_with_a_mapping_and_gives_outputs_by_name(exported) -> None:
    random = np.random.default_rng(0)
    x, scale = random.standard_normal((3, 6)).astype(np.float32), np.full((3, 1), 0.5, np.float32)
    with edgex.load(exported("dynamic", "onnx-cpu")) as session:
        outputs = session(x, scale)
        assert isinstance(outputs, tuple) and outputs.names == ("logits", "norm")
        logits, norm = outputs
        np.testing.assert_array_equal(outputs["logits"], logits)
        np.testing.assert_array_equal(outputs[1], norm)
        for given in ({"x": x, "scale": scale}, UserDict(scale=scale, x=x)):
            np.testing.assert_array_equal(session(given)["norm"], norm)
            np.testing.assert_array_equal(session.run(given)["norm"], norm)
        assert list(outputs.as_dict()) == ["logits", "norm"]
        assert repr(outputs) == "Outputs(logits=float32[3, 3], norm=float32[3])"
        again = pickle.loads(pickle.dumps(outputs))
        np.testing.assert_array_equal(again["norm"], norm)
        with pytest.raises(RunError, match="no output 'logit'") as caught:
            outputs["logit"]
        assert "did you mean 'logits'" in str(caught.value)
        with pytest.raises(RunError, match="unknown input 'y'"):
            session({"y": x, "scale": scale})


def test_a_session_says_what_it_is(exported) -> None:
    with edgex.load(exported("convnet", "onnx-cpu")) as session:
        shown = repr(session)
        assert shown.startswith("<Session convnet.onnx-cpu.edgex: x: float32[1, 3, 8, 8] -> output_0: float32[1, 5]; ")
        assert session.executed_on in shown
    assert "closed" in repr(session)


def test_a_session_travels_by_its_path(exported, tmp_path: Path) -> None:
    path = Path(shutil.copytree(exported("convnet", "onnx-cpu"), tmp_path / "net.edgex"))
    x = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)
    with edgex.load(path, threads=1) as session:
        sent = pickle.dumps(session)
        assert len(sent) < 1000
        with pickle.loads(sent) as copy:
            np.testing.assert_array_equal(copy(x)[0], session(x)[0])
            assert copy.settings.threads == 1
    shutil.rmtree(path)
    shutil.copytree(exported("dynamic", "onnx-cpu"), path)
    with pytest.raises(ArtifactError, match="replaced"):
        pickle.loads(sent)


def test_a_session_that_cannot_travel_says_so(exported) -> None:
    with edgex.load(exported("counter", "onnx-cpu")) as session, pytest.raises(RunError, match="pickled") as caught:
        pickle.dumps(session)
    assert "state" in str(caught.value) and "edgex.load there" in str(caught.value)
