"""Profiles of a hand-made artifact: a real ONNX file in the real engine."""

from __future__ import annotations

import json
import re
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from profile_support import X, shown, write_artifact

import edgex
from edgex.errors import ArtifactError, RunError
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.engines.trace.operators import ArenaSpan, SourceText, WeightRow
from edgex.runtime.measure.profile import collect
from edgex.runtime.measure.profile.report import ProfileReport
from edgex.runtime.measure.profile.warnings import find_warnings
from edgex.runtime.measure.statistics import summarize
from edgex.runtime.report.figures import draw_distribution, format_bytes, format_interval, format_rate, format_seconds
from edgex.runtime.report.markdown import render_markdown
from edgex.runtime.session.runner import LoadSeconds
from edgex.runtime.session.session import Session
from edgex.runtime.support.machine.activity import MeasurementWarning
from edgex.runtime.support.machine.host import read_host


@pytest.fixture(scope="module")
def artifact(tmp_path_factory) -> Path:
    return write_artifact(tmp_path_factory.mktemp("profile") / "double.onnx-cpu.edgex")


@pytest.fixture(scope="module")
def report(artifact) -> ProfileReport:
    """A real profile by ONNX Runtime."""
    with edgex.load(artifact, threads=1) as session:
        return edgex.profile(session, warmup=20, runs=120, fresh_processes=1)


# ---- the real engine


def test_profile_of_a_real_artifact_says_what_was_measured(report, artifact):
    opened = open_artifact(artifact)
    assert report.artifact.name == "double"
    assert report.artifact.digest == opened.digest
    assert report.artifact.bytes == opened.total_bytes
    assert report.artifact.engine == "onnxruntime" and "onnxruntime" in report.artifact.versions
    assert report.executed_on == "onnxruntime: CPUExecutionProvider"
    assert report.threads == report.settings.threads_requested == 1
    assert report.host == read_host()
    assert report.settings.inputs == "golden" and report.settings.shapes == {"x": (1, 4)}


def test_samples_and_figures_agree(report):
    assert report.steady == summarize(report.rounds)
    assert report.steady.n == 120
    assert [len(samples) for samples in report.rounds] == [4] * 30
    assert report.throughput == pytest.approx(1.0 / report.steady.mean)
    assert report.steady.p99 is None  # under 1000 samples
    assert report.settings.warmup_runs == 20 and report.settings.warmup_settled is None


def test_load_and_memory_come_from_a_fresh_process(report, artifact):
    (fresh,) = report.fresh
    load = report.load_seconds
    assert load.program is None  # ONNX Runtime reads and prepares in one step
    assert min(load.check, load.engine_import, load.method, load.first) > 0
    assert (load.check, load.engine_import, load.method, load.first) == (
        fresh.check, fresh.engine_import, fresh.method, fresh.first
    )  # fmt: skip
    # The child is small: this process has loaded pytest and onnx besides.
    assert 10 << 20 < report.memory.peak_rss_bytes < 300 << 20
    assert report.memory.planned_arena_bytes is None
    assert report.memory.weights_bytes == (artifact / "model.onnx").stat().st_size


def test_operators_are_traced_apart_from_the_latency(report):
    """The file has no source map: nothing is said of where an operator comes from."""
    add, overhead = report.ops
    assert (add.op_type, add.delegate, add.category) == ("Add", "CPUExecutionProvider", "compute")
    assert (add.map_confidence, add.module_path, add.source, add.operators) == ("none", None, None, ())
    assert add.bytes == 3 * 16 and add.inputs[0].shape == (1, 4)
    assert overhead.category == "overhead"
    assert report.trace.runs >= 5 and report.trace.module_share == 0.0
    assert sum(row.share for row in report.ops if row.share is not None) == pytest.approx(1.0)
    assert report.ceilings.threads == 1 and report.ceilings.gflops["float32"] > 0 < report.ceilings.gbps
    assert report.complete and report.sources == () and report.memory.weights == ()


def test_memory_grows_stage_by_stage(report):
    stages = report.memory.stages
    assert [stage.stage for stage in stages] == ["interpreter", "engine", "load", "first"]
    sizes = [stage.peak_rss_bytes for stage in stages]
    assert sizes == sorted(sizes) and sizes[-1] == report.memory.peak_rss_bytes


def test_reports_of_before_operators_were_traced_still_read(report):
    document = report.to_json()
    for name in ("ceilings", "energy", "counters", "sources", "complete"):
        del document[name]
    for name in ("stages", "weights", "arena"):
        del document["memory"][name]
    document |= {"trace": None, "ops": []}
    for run in document["fresh"]:
        del run["stages"]
    old = ProfileReport.from_json(document)
    assert old.complete and old.trace is None and old.ops == () and old.memory.stages == ()


def test_an_engine_that_cannot_trace_says_so(artifact, monkeypatch):
    monkeypatch.setattr("edgex.runtime.execute.tracing.get_engine", lambda _: object())
    with edgex.load(artifact, threads=1) as session:
        found = edgex.profile(session, warmup=1, runs=2, fresh_processes=1)
    assert found.trace is None and found.ops == () and found.ceilings is None
    assert "reports no operators" in {warning.code: warning.text for warning in found.warnings}["not-traced"]


class Interrupting:
    """A runner that is interrupted at a given run."""

    executed_on, threads, planned_arena_bytes = "simulated", 1, None
    load_seconds = LoadSeconds(0.0, 0.0)

    def __init__(self, runs: int) -> None:
        self.left = runs

    def execute(self, inputs):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        time.sleep(1e-4)  # long enough for a sample of its own
        return (inputs[0] * 2,)

    def reset(self):
        raise AssertionError("there is no state")

    def close(self):
        return


@pytest.mark.usefixtures("without_fresh_process")
def test_an_interrupted_measurement_keeps_its_rounds(artifact):
    kept = []
    # One run of warm-up, then 30 rounds of two runs, ten of which are finished.
    session = Session(open_artifact(artifact), Interrupting(22))
    with pytest.raises(KeyboardInterrupt):
        collect.profile(session, warmup=1, runs=60, keep=kept.append)
    (report,) = kept
    assert not report.complete and 0 < len(report.rounds) < report.settings.rounds
    assert report.trace is None and report.steady == summarize(report.rounds)
    assert ProfileReport.from_json(json.loads(report.dumps())) == report


@pytest.mark.usefixtures("without_fresh_process")
def test_what_was_measured_is_kept_before_operators_are_traced(artifact, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("edgex.runtime.execute.tracing.trace_session", interrupted)
    kept = []
    with edgex.load(artifact, threads=1) as session, pytest.raises(KeyboardInterrupt):
        collect.profile(session, warmup=1, runs=4, keep=kept.append)
    assert [report.complete for report in kept] == [False]
    assert kept[0].steady.n == 4


@pytest.mark.usefixtures("without_fresh_process")
def test_interrupted_before_the_first_round_there_is_nothing_to_keep(artifact):
    kept = []
    session = Session(open_artifact(artifact), Interrupting(2))
    with pytest.raises(KeyboardInterrupt):
        collect.profile(session, warmup=1, runs=60, keep=kept.append)
    assert kept == []


def test_the_report_survives_json(report, tmp_path):
    again = ProfileReport.from_json(json.loads(report.dumps()))
    assert again == report
    assert again.dumps() == report.dumps()
    assert json.loads(report.dumps()) == report.to_json()


def test_the_report_names_no_path_of_the_machine(report, artifact):
    text = report.dumps() + render_markdown(report)
    for path in (str(artifact.parent), str(Path.home()), sys.prefix, str(Path.cwd())):
        assert path not in text


def test_the_documented_example_has_the_fields_of_today(report):
    page = (Path(__file__).parents[4] / "docs" / "reference" / "profile-json.md").read_text(encoding="utf-8")
    text = page.split("```json\n")[1].split("```")[0]
    document = json.loads(text)
    assert ProfileReport.from_json(document).dumps() == text
    memory = replace(
        report.memory,
        weights=(WeightRow("fc.weight", "fc", "float32", (2, 3), 24),),
        arena=(ArenaSpan("x", 0, 16, 0, 1),),
    )
    # A quiet machine gives no warning.
    warnings = (MeasurementWarning("drift", "…"),)
    filled = replace(report, memory=memory, sources=(SourceText("net.py", 1, ("y = x",)),), warnings=warnings)
    assert _fields(document) == _fields(filled.to_json())
    for warning in document["warnings"]:
        assert f"| `{warning['code']}` |" in page


def _fields(document, path="") -> set[str]:
    """Paths of all fields; the names of inputs, packages and options are values, not fields."""
    values = (".settings.shapes", ".settings.options", ".artifact.versions", ".ceilings.gflops", ".delegation")
    if isinstance(document, list) and document and isinstance(document[0], dict):
        return {field for item in document for field in _fields(item, f"{path}[]")}
    if not isinstance(document, dict) or path in values:
        return {path}
    return {field for name, value in document.items() for field in _fields(value, f"{path}.{name}")}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema": "edgex.profile/9"}, "edgex.profile/9"),
        ({"steady": {}}, "the profile.steady has no 'n'"),
        ({"host": None}, "the profile.host is None, not an object"),
    ],
)
def test_another_schema_or_damage_is_refused(report, change, words):
    with pytest.raises(ValueError, match=words):
        ProfileReport.from_json({**report.to_json(), **change})


def test_samples_that_do_not_add_up_are_refused(report):
    document = report.to_json()
    document["steady"]["raw_seconds"].pop()
    with pytest.raises(ValueError, match="119 samples"):
        ProfileReport.from_json(document)


def test_inputs_that_do_not_fit_are_refused_before_any_process_starts(artifact):
    with edgex.load(artifact) as session:
        with pytest.raises(RunError, match="missing input: x"):
            edgex.profile(session, {})
        with pytest.raises(RunError, match="shape"):
            edgex.profile(session, [np.zeros((2, 4), np.float32)])


def test_given_inputs_are_used(artifact):
    with edgex.load(artifact) as session:
        report = edgex.profile(session, {"x": X + 1}, warmup=1, runs=2, fresh_processes=1)
    assert report.settings.inputs == "given"
    assert report.steady.median_ci95 is None  # two rounds say nothing about the median's spread
    assert "few-samples" in {warning.code for warning in report.warnings}


def test_a_fresh_process_that_fails_shows_why(artifact, tmp_path):
    with edgex.load(artifact) as session:
        (artifact / "model.onnx").rename(tmp_path / "model.onnx")
        try:
            with pytest.raises(ArtifactError, match=r"the artifact lacks model\.onnx"):
                edgex.profile(session, warmup=1, runs=1)
        finally:
            (tmp_path / "model.onnx").rename(artifact / "model.onnx")


# ---- warnings


def warnings_about(report: ProfileReport, rounds=None, threads=1, **changes) -> dict[str, str]:
    """Codes and texts for a report on an undisturbed machine, changed as the test says."""
    rounds = rounds or [[1e-3] * 10] * 10
    quiet = replace(report.activity, other_cores=0.0, steal_share=0.0, involuntary_switches=0)
    settings = replace(report.settings, **{k: v for k, v in changes.items() if hasattr(report.settings, k)})
    host = replace(report.host, usable_cores=2, cpu_quota=None, governor=None)
    host = replace(host, **{k: v for k, v in changes.items() if hasattr(host, k)})
    found = find_warnings(summarize(rounds), rounds, settings, host, threads, quiet)
    return {warning.code: warning.text for warning in found}


def test_a_calm_measurement_has_no_warning(report):
    assert warnings_about(report) == {}


def test_each_case_has_its_warning(report):
    assert "2.5 s" in warnings_about(report, warmup_settled=False, warmup_seconds=2.5)["warmup-did-not-settle"]
    assert "powersave" in warnings_about(report, governor="powersave")["governor"]
    assert warnings_about(report, governor="performance") == {}
    assert warnings_about(report, threads=4)["threads-over-cores"] == "4 threads on 2 usable cores wait for each other"
    assert "1.5 usable cores" in warnings_about(report, threads=2, cpu_quota=1.5)["threads-over-cores"]
    assert warnings_about(report, rounds=[[1e-3]])["few-samples"].startswith("1 sample in 1 round:")
    # Of so few nothing else is said, however they differ.
    assert list(warnings_about(report, rounds=[[1e-3 * 2**at] for at in range(12)])) == ["few-samples"]


def test_noise_in_the_samples_is_told(report):
    generator = np.random.default_rng(0)
    uneven = generator.normal(1.0, 0.2, (30, 1)) + generator.normal(0.0, 0.2, (30, 10))
    assert "wide" in warnings_about(report, rounds=uneven.tolist())["noisy-machine"]
    assert "stray" in warnings_about(report, rounds=uneven.tolist())["noisy-machine"]
    tail = [[1e-3] * 9 + [5e-3]] * 10
    assert warnings_about(report, rounds=tail)["noisy-machine"] == "10 % took far longer than the rest"
    slower = [[1e-3 * (1 + at / 40)] * 10 for at in range(12)]
    assert warnings_about(report, rounds=slower)["drift"] == "the last third of the runs was 19 % slower than the first"


# ---- reports


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0002224, "222 µs"),
        (1.23456, "1.23 s"),
        (0.0999, "99.9 ms"),
        (61.2, "61.2 s"),
        (12345.6, "12,346 s"),
        (3e-9, "3.00 ns"),
        (0.0, "0 ns"),
        (None, "unknown"),
    ],
)
def test_durations_are_short(seconds, text):
    assert format_seconds(seconds) == text


def test_intervals_share_the_unit_of_the_median():
    assert format_interval(0.9981e-3, 1.0112e-3, like=1.002e-3) == "0.998 … 1.011 ms"
    assert format_interval(2.219e-4, 2.231e-4, like=2.224e-4) == "221.9 … 223.1 µs"


def test_sizes_and_rates_are_short():
    assert [format_bytes(n) for n in (None, 0, 999, 57408, 228_400_000, 2_500_000_000)] == [
        "unknown", "0 B", "999 B", "57.4 kB", "228 MB", "2.50 GB"
    ]  # fmt: skip
    assert [format_rate(rate) for rate in (4402.3, 12.34, 0.5)] == ["4,402", "12.3", "0.50"]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_terminal_report_fits_and_has_no_trailing_blanks(report, width):
    noisy = replace(report, warnings=(MeasurementWarning("other-load", "word " * 30),))
    text = shown(noisy, width)
    lines = text.splitlines()
    assert max(len(line) for line in lines) <= min(width, 110)
    assert all(line == line.rstrip() for line in lines)
    for words in ("double", "median", "load", "first run", "memory", "machine", "warnings", "other-load"):
        assert words in text


def test_the_terminal_report_keeps_names_and_figures_on_one_line(report):
    text = shown(report, 60)
    assert re.search(r"min [\d.]+ [µm]s   p90 [\d.]+ [µm]s", text)
    assert "\ue000" not in text


def test_the_terminal_report_without_colour_and_without_unicode(report, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    text = shown(report, 80, "ascii", force_terminal=True)
    assert "\x1b[3" not in text  # bold and dim at most, no colour
    assert re.search(r"us   95 % interval \d.* ~ \d.* us", re.sub("\x1b\\[\\d*m", "", text))


def test_the_distribution_shows_the_body_and_tells_of_the_tail(report):
    rounds = [[1e-3 + 1e-6 * at for at in range(90)] + [1.0] * 10] * 2
    drawn = draw_distribution(replace(report, rounds=rounds, steady=summarize(rounds)), 20)
    assert len(drawn.bars) == 20 and drawn.low == 1e-3 and drawn.high < 2e-3
    assert drawn.beyond_share == pytest.approx(0.1)
    assert draw_distribution(replace(report, rounds=[[1e-3]]), 20) is None


def test_markdown_has_the_figures_and_shows_names_as_they_are(report):
    odd = replace(report.artifact, name="a_b*c|d")
    warnings = (MeasurementWarning("steal", "1 < 2"),)
    text = render_markdown(replace(report, artifact=odd, warnings=warnings))
    assert text.startswith("# a\\_b\\*c\\|d on onnx-cpu\n")
    assert f"| median | {format_seconds(report.steady.median, digits=4)} |" in text
    assert "- **steal**: 1 \\< 2" in text
    assert text.endswith("\n") and report.artifact.digest in text
