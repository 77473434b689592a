"""The same cases once more: an engine that gives other numbers is found, one that gives the same is said to."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from edgex.errors import RunError
from edgex.export.proof.verification import explain_failure
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.engines import registry
from edgex.runtime.execute.here import in_process, repeating
from edgex.runtime.execute.here.fresh_process import FreshProcess
from edgex.runtime.execute.here.in_process import InProcess
from edgex.runtime.execute.verification import verify
from edgex.runtime.session.repeats import describe_repeats, same_bits


@pytest.mark.parametrize("target", ["xnnpack", "onnx-cpu", "reference"])
def test_an_engine_gives_the_same_bits_in_every_way(exported, target):
    verdict, result = verify(FreshProcess(), open_artifact(exported("convnet", target)), repeat_seconds=60.0)
    assert verdict.passed, verdict.reason
    entries = verdict.to_json()["repeats"]
    assert [(entry["how"], entry["runs"]) for entry in entries] == [("again", 3), ("together", 2), ("threads", 1)]
    assert all(entry["reason"] is None for entry in entries)
    assert {entry["sequences"] for entry in entries} == {len(result.outputs)}
    assert entries[2]["threads"] != entries[0]["threads"] == result.threads
    assert all(found["verdict"] != "fail" for entry in entries for found in entry["differences"])


@pytest.fixture
def flaky(monkeypatch):
    """A stand-in for an engine whose runs differ: after some runs of a session, it adds `error` to every output."""

    def install(error, when=lambda session, run: run > 20):
        real, sessions = registry.get_engine, itertools.count(1)

        class Flaky:
            def __init__(self, name):
                self.engine = real(name)

            def __getattr__(self, name):
                return getattr(self.engine, name)

            def open(self, artifact, settings):
                session = self.engine.open(artifact, settings)
                number, runs, execute = next(sessions), itertools.count(1), session.runner.execute

                def disturbed(arrays):
                    outputs = execute(arrays)
                    if not when(number, next(runs)):
                        return outputs
                    if isinstance(error, Exception):
                        raise error
                    return tuple(array + np.array(error, array.dtype) for array in outputs)

                session.runner.execute = disturbed
                return session

        for module in (repeating, in_process, registry):
            if hasattr(module, "get_engine"):
                monkeypatch.setattr(module, "get_engine", Flaky)
        monkeypatch.setattr("edgex.runtime.engines.loading.get_engine", Flaky)

    return install


def verify_here(exported):
    artifact = open_artifact(exported("convnet", "onnx-cpu"))
    return verify(InProcess(), artifact, repeat_seconds=60.0)[0]


@pytest.mark.parametrize(
    ("how", "when"),
    [
        ("again", lambda session, run: session == 1 and run > 20),
        ("together", lambda session, run: session == 2),
        ("threads", lambda session, run: session == 3),
    ],
)
def test_a_large_difference_fails_the_proof_and_names_the_way(exported, flaky, how, when):
    flaky(0.5, when)
    verdict = verify_here(exported)
    assert not verdict.passed
    words = {"again": "again in the same session", "together": "in two sessions at once", "threads": "with 1 thread"}
    assert f"run {words[how]}: " in verdict.reason and "SQNR" in verdict.reason
    document = verdict.to_json()
    found = next(entry for entry in document["repeats"] if entry["how"] == how)
    assert any(difference["verdict"] == "fail" for difference in found["differences"])
    said = "with other threads" if how == "threads" else "each time"
    assert f"other numbers {said}" in explain_failure(document, "onnx-cpu").fix


def test_a_small_difference_passes_and_is_stated(exported, flaky):
    flaky(1e-7, lambda session, run: session == 3)
    verdict = verify_here(exported)
    assert verdict.passed
    again, _, threads = verdict.to_json()["repeats"]
    assert again["differences"] == []
    assert threads["differences"][0]["case"] == "example" and threads["differences"][0]["verdict"] == "pass"
    assert 0 < threads["differences"][0]["max_abs_difference"] < 1e-6
    (sentence,) = describe_repeats(verdict.to_json()["repeats"])
    assert sentence.startswith("not the same bits in ") and "cases run with 1 thread: up to " in sentence


def test_a_run_that_the_engine_refuses_later_fails_the_proof(exported, flaky):
    flaky(RunError("no more"), lambda session, run: session == 1 and run > 20)
    verdict = verify_here(exported)
    assert not verdict.passed and "no more" in verdict.reason


def test_what_cannot_be_repeated_is_said(exported, monkeypatch):
    monkeypatch.setattr(repeating, "read_available_bytes", lambda: 1000)
    artifact = open_artifact(exported("convnet", "onnx-cpu"))
    again, together, threads = verify(InProcess(), artifact, repeat_seconds=60.0)[0].to_json()["repeats"]
    assert (together["sequences"], together["reason"]) == (0, "memory does not hold it twice")
    assert again["reason"] is None and threads["reason"] is None
    document = verify(InProcess(), artifact, repeat_seconds=1e-9)[0].to_json()
    assert all(entry["reason"] is not None for entry in document["repeats"])
    assert describe_repeats(document["repeats"])[0].startswith("not all cases were run again in the same session: ")


def test_a_session_of_the_users_is_left_open(exported):
    from edgex import load

    with load(exported("convnet", "onnx-cpu")) as session:
        verdict, _ = verify(InProcess(session), session.artifact)
        assert verdict.passed and verdict.to_json()["repeats"] is None
        session.reset()  # refused by one that is closed


def test_bits():
    first = {"y": np.array([1.0, np.nan, -0.0], np.float32)}
    other_nan = first["y"].copy()
    other_nan.view(np.uint32)[1] ^= 1
    assert same_bits(first, {"y": other_nan})
    assert not same_bits(first, {"y": np.array([1.0, np.nan, 0.0], np.float32)})
    assert not same_bits(first, {"y": np.array([np.nan, 1.0, -0.0], np.float32)})
    assert not same_bits({"y": np.array([1])}, {"y": np.array([1.0])})
    assert not same_bits({"y": np.array([1])}, {"z": np.array([1])})


def test_a_manifest_with_repeats_is_read(exported):
    manifest = open_artifact(exported("convnet", "onnx-cpu")).manifest
    # What depends on how busy the machine was is told at export, and does not make two exports differ.
    assert all(entry["differences"] for entry in manifest.verification["repeats"])
    assert replace(manifest) == manifest
