"""`edgex profile --sweep`: a process for each setting, and a thread count that is kept."""

from __future__ import annotations

import json
import os

import pytest

from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.measure import sweep as sweep_module
from edgex.runtime.measure.statistics import Judgement, RatioEstimate, summarize
from edgex.runtime.measure.sweep import SweepRow, _choose_batches, _choose_best, choose_threads, run_sweep
from edgex.runtime.support.machine.threads import default_threads
from edgex.runtime.support.tuning import read_tuning

pytestmark = pytest.mark.long_file


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr(sweep_module, "_SECONDS_PER_BATCH", 0.1)  # real times are never asserted


def quick(artifact, axes, **options):
    return run_sweep(open_artifact(artifact), axes, seconds=0.1, **options)


def test_threads_are_swept_and_the_best_is_the_default_from_then_on(exported, edgex, tmp_path):
    path = exported("convnet", "onnx-cpu")
    done = edgex("profile", str(path), "--sweep", "threads", "-o", "sweep.md")
    assert done.returncode == 0, done.stderr
    head, *rows = done.stdout.splitlines()
    assert head.split()[:2] == ["threads", "median"]
    assert any("the default" in row for row in rows)
    kept = read_tuning(open_artifact(path).digest).threads
    assert kept in range(1, (os.cpu_count() or 1) + 1)
    assert f"kept for this artifact on this machine: {kept} thread" in done.stdout
    assert "--threads or --no-tuned overrides it" in done.stdout
    run = json.loads(edgex("run", str(path), "--json").stdout)
    assert (run["threads"], run["threads_source"]) == (kept, "tuned")
    assert (tmp_path / "sweep.md").read_text().startswith("# convnet on onnx-cpu by threads\n")


@pytest.mark.slow
def test_batch_and_threads(exported):
    found = quick(exported("dynamic", "onnx-cpu"), ("batch", "threads"))
    counts = choose_threads(found.host, default_threads())
    assert found.axes == ("threads", "batch")
    assert [row.batch for row in found.rows] == sorted([1, 2, 3, 4, 8] * len(counts))
    assert [row.threads for row in found.rows] == sorted(counts) * 5
    for row in found.rows:
        assert row.throughput == pytest.approx(row.batch / row.latency.mean)
    document = found.to_json()
    assert document["schema"] == "edgex.sweep/1" and document["best_threads"] == found.best_threads
    json.dumps(document, allow_nan=False)


def test_batch_alone_keeps_no_threads(exported):
    path = exported("dynamic", "onnx-cpu")
    found = quick(path, ("batch",), threads=1)
    assert found.best_threads is None and {row.threads for row in found.rows} == {1}
    assert read_tuning(open_artifact(path).digest) is None


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (("--sweep", "thread"), 2, "did you mean 'threads'"),
        (("--sweep", ","), 2, "expected threads, batch or threads,batch"),
        (("--sweep", "threads", "--threads", "1"), 2, "--threads fixes what --sweep threads varies"),
        (("--sweep", "threads", "--runs", "9"), 2, "--sweep chooses warm-up and runs itself"),
        (("--sweep", "batch"), 2, "no input has a dynamic first dimension"),
        (("--sweep", "threads", "-o", "out.html"), 2, "reports are written as .json or .md"),
    ],
)
def test_wrong_sweeps_are_refused(flags, code, words, exported, edgex):
    done = edgex("profile", str(exported("convnet", "onnx-cpu")), *flags)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr


def test_threads_of_a_project_do_not_keep_a_sweep_from_varying_them(exported, edgex, tmp_path, monkeypatch):
    (tmp_path / "edgex.toml").write_text("threads = 1\n[profile]\nruns = 9\n")
    monkeypatch.chdir(tmp_path)
    # Of a file that ends in none of the forms: refused behind the flags, and before anything runs.
    done = edgex("profile", str(exported("convnet", "onnx-cpu")), "--sweep", "threads", "-o", "out.html")
    assert done.returncode == 2 and "reports are written as .json or .md" in done.stderr


def row(threads, verdict, median):
    judgement = None if verdict is None else Judgement(RatioEstimate(median, None), None, 0.03, verdict)
    return SweepRow(threads, None, summarize([[median]]), 1.0, judgement)


@pytest.mark.parametrize(
    ("verdicts", "best"),
    [
        ({1: ("slower", 2.0), 2: (None, 1.0), 4: ("faster", 0.8)}, 4),
        ({1: ("faster", 0.7), 2: (None, 1.0), 4: ("faster", 0.8)}, 1),
        ({1: ("undecided", 0.7), 2: (None, 1.0), 4: ("no difference", 0.99)}, 2),  # only what is sure
    ],
)
def test_the_default_stays_unless_another_count_is_surely_faster(verdicts, best):
    assert _choose_best([row(threads, *found) for threads, found in verdicts.items()], 2) == best


def test_batches_are_few_and_hold_the_ends_and_the_example(exported, own_copy):
    path = own_copy("dynamic", "onnx-cpu")
    manifest = path / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"max": 8', '"max": 5000'))
    artifact = open_artifact(path)
    example = [{"x": __import__("numpy").zeros((3, 6))}]
    sizes = _choose_batches(artifact, example)
    assert len(sizes) == 6 and {1, 3, 5000} <= set(sizes) and sizes == sorted(sizes)
