"""A process that is started ahead: it has its engine when it is asked, is used once, and ends with who wanted it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from edgex.errors import EdgexError
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.execute.here import client
from edgex.runtime.execute.here.fresh_process import FreshProcess
from edgex.runtime.execute.verification import verify
from edgex.runtime.support.process import child as children


@pytest.fixture
def started(monkeypatch):
    """The processes that were started, in order."""
    found = []
    start = children.start_python

    def recorded(*args, **kwargs):
        found.append(start(*args, **kwargs))
        return found[-1]

    monkeypatch.setattr(children, "start_python", recorded)
    return found


def _modules(process):
    """What libraries a process has mapped, as Linux tells."""
    return Path(f"/proc/{process.pid}/maps").read_text("utf-8")


@pytest.mark.parametrize(("target", "library"), [("xnnpack", "libtorch_cpu"), ("onnx-cpu", "onnxruntime")])
def test_it_has_imported_its_engine_and_serves_the_next_request_alone(exported, started, target, library):
    artifact = open_artifact(exported("convnet", target))
    with FreshProcess() as process:
        process.prepare(artifact.manifest.engine)
        process.prepare(artifact.manifest.engine)
        assert len(started) == 1, "one is enough"
        ahead = process._ahead
        assert ahead.ask({"do": "preload", "engine": artifact.manifest.engine}) == {}
        assert library in _modules(started[0])
        verdict, _ = verify(process, artifact)
        assert verdict.passed, verdict.reason
        assert len(started) == 1
        assert started[0].wait(20) == 0, "it has ended with its request"
        again, _ = verify(process, artifact)
        assert again.to_json() == verdict.to_json()
        assert len(started) == 2, "the second request has a process of its own"


def test_one_that_was_not_used_ends(started):
    with FreshProcess() as process:
        process.prepare("onnxruntime")
        assert started[0].poll() is None
    assert started[0].poll() == -signal.SIGKILL


def test_one_that_died_before_it_was_used_is_replaced(exported, started):
    artifact = open_artifact(exported("convnet", "onnx-cpu"))
    with FreshProcess() as process:
        process.prepare(artifact.manifest.engine)
        os.kill(started[0].pid, signal.SIGKILL)
        started[0].wait(20)
        verdict, _ = verify(process, artifact)
    assert verdict.passed, verdict.reason
    assert len(started) == 2


@pytest.mark.parametrize("engine", ["onnxruntime", "nobody has such an engine"])
def test_errors_name_the_artifact_and_what_hinders_the_engine_is_said_when_it_opens(exported, engine):
    artifact = open_artifact(exported("convnet", "onnx-cpu"))
    (child := client.start_ahead(engine)).begin(
        {"do": "trace", "seconds": 0.0}
    )  # two answers to throw away, one of them an error
    with pytest.raises(EdgexError) as caught, client.WorkerClient(artifact, options={"wrong": 1}, child=child):
        pass
    assert caught.value.where == artifact.path.name
    assert "wrong" in caught.value.what
