"""One rule for the default number of threads, and what a sweep found quickest in its place."""

from __future__ import annotations

import json

import pytest

import edgex
from edgex.errors import RunError
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.execute.request import FreshRun
from edgex.runtime.support.machine.host import Cores, read_host
from edgex.runtime.support.machine.threads import default_threads
from edgex.runtime.support.tuning import Tuning, read_tuning, tuning_folder, write_tuning

TARGETS = ("reference", "xnnpack", "onnx-cpu")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("physical", "usable", "quota", "threads"),
    [
        (8, 16, None, 8),
        (8, 4, None, 4),
        (8, 16, 1.5, 2),
        (8, 16, 0.2, 1),
        (8, 16, 64.0, 8),
        (None, 4, None, 4),
        (None, None, None, 1),
    ],
)
def test_the_least_of_cores_affinity_and_quota(physical, usable, quota, threads, monkeypatch):
    monkeypatch.setattr(
        "edgex.runtime.support.machine.threads.read_cores", lambda _root: Cores(physical, usable, quota)
    )
    assert default_threads() == threads


@pytest.mark.parametrize("target", TARGETS)
def test_every_engine_takes_the_same_default(target, exported):
    with edgex.load(exported("convnet", target)) as session:
        assert session.threads == default_threads()
        assert session.threads_source == "default"


@pytest.mark.parametrize("target", TARGETS)
def test_what_a_sweep_found_is_the_default_from_then_on(target, exported):
    path = exported("convnet", target)
    write_tuning(open_artifact(path).digest, Tuning(3), {})
    with edgex.load(path) as session:
        assert (session.threads, session.threads_source) == (3, "tuned")
    with edgex.load(path, threads=1) as session:
        assert (session.threads, session.threads_source) == (1, "given")
    with edgex.load(path, tuned=False) as session:
        assert (session.threads, session.threads_source) == (default_threads(), "default")


def test_a_pool_in_use_is_not_an_error_for_a_preference(exported):
    first, second = exported("convnet", "xnnpack"), exported("counter", "xnnpack")
    write_tuning(open_artifact(second).digest, Tuning(3), {})
    with edgex.load(first, threads=1), edgex.load(second) as session:
        assert (session.threads, session.threads_source) == (1, "default")


def test_settings_that_a_pick_found_are_used_with_its_threads(exported):
    path = exported("convnet", "onnx-cpu")
    digest = open_artifact(path).digest
    kept = write_tuning(digest, Tuning(2, {"allow_spinning": False, "gone_since": 1}), {})
    assert json.loads(kept.read_text())["options"] == {"allow_spinning": False, "gone_since": 1}
    assert read_tuning(digest).options["allow_spinning"] is False
    for given, tuned, options in (
        ({}, {"allow_spinning": False}, {"allow_spinning": False}),
        ({"threads": 2}, {"allow_spinning": False}, {"allow_spinning": False}),
        ({"threads": 1}, {}, {}),
        ({"tuned": False}, {}, {}),
        ({"options": {"allow_spinning": "yes"}}, {}, {"allow_spinning": "yes"}),
        (
            {"options": {"memory_arena": "no"}},
            {"allow_spinning": False},
            {"memory_arena": "no", "allow_spinning": False},
        ),
    ):
        with edgex.load(path, **given) as session:
            assert (session.tuned_options, session.settings.options) == (tuned, options), given
    # Only what the engine offers as harmless is taken from a file that anyone may edit.
    write_tuning(digest, Tuning(2, {"graph_optimization": "basic"}), {})
    with edgex.load(path) as session:
        assert session.tuned_options == {}


def test_another_artifact_and_another_machine_have_their_own(exported, monkeypatch):
    digest = open_artifact(exported("convnet", "onnx-cpu")).digest
    path = write_tuning(digest, Tuning(3), {"medians": {"3": 1e-3}})
    assert json.loads(path.read_text()) == {"format": "edgex.tuned/1", "threads": 3, "medians": {"3": 1e-3}}
    assert path.is_relative_to(tuning_folder()) and not list(path.parent.glob(".*"))
    assert read_tuning(digest) == Tuning(3)
    assert read_tuning("0" * 64) is None
    other = path.with_name("0123456789abcdef.json")
    path.rename(other)
    assert read_tuning(digest) is None


def test_the_fingerprint_is_of_the_processor_and_its_share():
    host = read_host().to_json()
    same = type(read_host()).from_json({**host, "governor": "powersave", "kernel": "0", "memory_bytes": 1})
    assert same.fingerprint == read_host().fingerprint
    for change in ({"cpu": "other"}, {"usable_cores": 77}, {"cpu_quota": 0.5}):
        assert type(same).from_json({**host, **change}).fingerprint != same.fingerprint


@pytest.mark.parametrize(
    "text",
    [
        *("{", "[]", '{"format": "edgex.tuned/1"}', '{"format": "edgex.tuned/1", "threads": 0}'),
        '{"format": "edgex.tuned/1", "threads": 1, "options": [1]}',
    ],
)
def test_a_damaged_entry_is_said_and_not_used(text):
    path = write_tuning("0" * 64, Tuning(3), {})
    path.write_text(text)
    with pytest.warns(UserWarning, match="damaged and not used"):
        assert read_tuning("0" * 64) is None


def test_a_cache_that_cannot_be_written_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(RunError, match="cannot be kept"):
        write_tuning("0" * 64, Tuning(3), {})


def test_run_and_profile_say_where_the_threads_come_from(exported, edgex, monkeypatch):
    fresh = FreshRun(check=1e-3, engine_import=0.5, program=None, method=3e-3, first=0.01, peak_rss_bytes=1 << 20)
    asked = []
    monkeypatch.setattr(
        "edgex.runtime.execute.here.kept_process.start_cold",
        lambda _artifact, request, _progress: asked.append(request.threads) or (fresh,),
    )
    path = exported("convnet", "onnx-cpu")
    write_tuning(open_artifact(path).digest, Tuning(3), {})
    few = ("--warmup", "3", "--runs", "12", "-q", "--json")
    for flags, expected in (
        ((), (3, "tuned")),
        (("--no-tuned",), (default_threads(), "default")),
        (("--threads", "1"), (1, "given")),
    ):
        document = json.loads(edgex("profile", str(path), *few, *flags).stdout)
        assert (document["threads"], document["settings"]["threads_source"]) == expected
    assert asked == [3, None, 1]
    document = json.loads(edgex("run", str(path), "--json", "--threads", "1").stdout)
    assert (document["threads"], document["threads_source"]) == (1, "given")
    assert "3 threads (tuned)" in edgex("run", str(path)).stdout
    write_tuning(open_artifact(path).digest, Tuning(3, {"allow_spinning": False}), {})
    assert "3 threads, allow_spinning=false (tuned)" in edgex("run", str(path)).stdout
    settings = json.loads(edgex("profile", str(path), *few).stdout)["settings"]
    assert settings["options"] == settings["tuned_options"] == {"allow_spinning": False}
    text = edgex("profile", str(path), "--warmup", "3", "--runs", "12", "-q").stdout
    assert "3 threads (tuned) · allow_spinning=false (tuned)" in " ".join(text.split())
