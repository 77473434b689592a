"""Saved reports: read with care, compared with more caution, and never across machines without a word."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from compare_support import HOST, make_report, make_row, save_report

import edgex
from edgex.errors import ArtifactError, UsageError
from edgex.runtime.measure.compare.gate import check_gate, parse_limit, refuse_other_hosts
from edgex.runtime.measure.compare.reports import differing_hosts, judge_reports
from edgex.runtime.measure.profile.report import ProfileReport
from edgex.runtime.report.comparison import describe_gate, render_comparison, tabulate_operators
from edgex.runtime.report.figures import describe_subject


def codes(comparison):
    return [warning.code for warning in comparison.warnings]


# ---- the verdict


@pytest.mark.parametrize(
    ("milliseconds", "verdict"), [(1.0, "no difference"), (1.02, "no difference"), (1.3, "slower"), (0.7, "faster")]
)
def test_verdicts_of_quiet_reports(milliseconds, verdict):
    judgement = judge_reports(make_report(), make_report(milliseconds, seed=1))
    assert judgement.verdict == verdict, judgement
    low, high = judgement.estimate.ci95
    assert high / low > 1.03**2  # wider than what each run shows by itself


def test_a_small_change_between_two_runs_means_nothing():
    assert judge_reports(make_report(noise=1e-4), make_report(1.028, noise=1e-4)).verdict != "slower"


def test_a_disturbed_machine_needs_a_larger_change():
    disturbed = make_report(1.08, seed=1, warnings=("steal",))
    assert judge_reports(make_report(), make_report(1.08, seed=1)).verdict == "slower"
    assert judge_reports(make_report(), disturbed).verdict == "undecided"
    assert judge_reports(make_report(), disturbed).floor == 0.10


def test_too_few_rounds_are_not_judged():
    comparison = edgex.compare(make_report(rounds=5), make_report(2.0, rounds=5))
    assert comparison.contrasts[0].judgement.verdict == "undecided"
    assert comparison.contrasts[0].sentence.startswith("too few rounds to decide: ")


def test_equal_reports_are_rarely_told_apart_and_large_changes_are_found():
    """100 pairs, each run at a speed of its own within 1 %."""
    false, found = 0, 0
    for seed in range(100):
        speed = 1.0 + 0.01 * ((seed * 7919) % 100 / 50 - 1)
        equal = judge_reports(make_report(noise=0.02, seed=seed), make_report(speed, noise=0.02, seed=seed + 1000))
        slow = judge_reports(make_report(noise=0.02, seed=seed), make_report(1.2 * speed, noise=0.02, seed=seed + 1000))
        false += equal.verdict in ("faster", "slower")
        found += slow.verdict == "slower"
    assert false <= 5 and found >= 90, (false, found)


# ---- what else is not the same


def test_other_machines_are_said_loudly():
    comparison = edgex.compare(make_report(), make_report(host={"cpu": "Other CPU", "usable_cores": 2}))
    assert codes(comparison) == ["not-interleaved", "other-host"]
    text = comparison.warnings[1].text
    assert "DIFFERENT MACHINES" in text and "Example CPU and Other CPU" in text and "usable cores: 8 and 2" in text
    assert "DIFFERENT MACHINES" in render_comparison(comparison)
    assert differing_hosts(HOST, replace(HOST, kernel="7.0", governor="powersave", memory_bytes=None)) == ()


def test_other_settings_are_named():
    other = replace(make_report(inputs="given", options={"trace": True}), threads=1, edgex_version="9.9")
    assert codes(edgex.compare(make_report(), other)) == [
        *("not-interleaved", "other-threads", "other-options", "other-inputs", "other-edgex"),
    ]
    engine = replace(make_report().artifact, versions={"executorch": "1.6"})
    assert codes(edgex.compare(make_report(), replace(make_report(), artifact=engine)))[1:] == ["other-versions"]


def test_an_interrupted_profile_is_marked():
    assert codes(edgex.compare(make_report(), replace(make_report(), complete=False)))[1:] == ["interrupted"]


def test_different_models_are_refused_unless_allowed():
    for other in (make_report(name="other"), make_report(shapes={"x": (8, 8)}), make_report(steps=4)):
        with pytest.raises(UsageError, match="different models") as caught:
            edgex.compare(make_report(), other)
        assert "--allow-different" in caught.value.fix
        comparison = edgex.compare(make_report(), other, allow_different=True)
        assert len(comparison.differences) == 1
        assert "## Different models" in render_comparison(comparison)


def test_operators_are_compared_where_both_have_them():
    baseline = make_report(ops=(make_row("conv", "aten.convolution.default", median_seconds=10.0e-6),))
    candidate = make_report(ops=(make_row("conv", "aten.convolution.default", median_seconds=14.0e-6),))
    contrast = edgex.compare(baseline, candidate).contrasts[0]
    assert [delta.delta_seconds for delta in contrast.operators] == [pytest.approx(4e-6)]
    assert tabulate_operators(contrast).rows == (("conv", "convolution", "10.0 µs", "14.0 µs", "+4.0 µs", "operators"),)
    assert contrast.to_json()["operators"][0]["match"] == "operators"
    assert edgex.compare(baseline, make_report()).contrasts[0].operators is None


# ---- what is given


def test_a_report_survives_the_file_and_several_can_be_given(tmp_path):
    files = [save_report(tmp_path, f"{name}.json", speed) for name, speed in (("a", 1.0), ("b", 1.3), ("c", 0.7))]
    comparison = edgex.compare(*files)
    assert [c.judgement.verdict for c in comparison.contrasts] == ["slower", "faster"]
    assert [subject.label for subject in comparison.subjects] == ["a.json", "b.json", "c.json"]
    document = json.loads(comparison.dumps())
    assert (document["a"], document["b"], document["verdict"]) == ("a.json", "b.json", "slower")
    assert document == json.loads(json.dumps(comparison.to_json()))
    assert document["method"]["interleaved"] is False
    assert len(document["subjects"][2]["latency"]["raw_seconds"]) == 300
    assert str(tmp_path) not in comparison.dumps()


def test_labels_differ(tmp_path):
    for folder in ("old", "new"):
        (tmp_path / folder).mkdir()
    old, new = save_report(tmp_path, "old/a.json"), save_report(tmp_path, "new/a.json")
    assert [s.label for s in edgex.compare(old, new).subjects] == ["old/a.json", "new/a.json"]
    assert [s.label for s in edgex.compare(old, old).subjects] == ["a.json", "a.json (2)"]
    assert [s.label for s in edgex.compare(make_report(), make_report()).subjects] == ["net.xnnpack", "net.xnnpack (2)"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not whole JSON"),
        ('{"schema": "edgex.pro', "is not whole JSON"),
        ("[1, 2]", "it names no schema"),
        ('{"schema": "edgex.profile/3", "edgex_version": "9.0"}', "of schema 'edgex.profile/3'"),
        ('{"schema": "edgex.compare/2"}', "of schema 'edgex.compare/2'"),
        ('{"schema": "edgex.profile/2"}', "is damaged"),
        (make_report().dumps().replace('"ops": []', '"ops": [{"name": "x"}]'), "is damaged"),
        (b"\xff\xfe", "is not whole JSON"),
    ],
)
def test_damaged_reports_are_refused(text, words, tmp_path):
    good = save_report(tmp_path, "good.json")
    bad = tmp_path / "bad.json"
    bad.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ArtifactError, match=r"bad\.json") as caught:
        edgex.compare(good, bad)
    assert words in caught.value.what and caught.value.fix


def test_a_report_cut_off_anywhere_is_refused(tmp_path):
    text = make_report().dumps()
    bad = tmp_path / "bad.json"
    for cut in range(0, len(text) - 2, len(text) // 20):
        bad.write_text(text[:cut])
        with pytest.raises(ArtifactError, match=r"bad\.json"):
            edgex.compare(make_report(), bad)


def test_fewer_than_two_and_nothing_there_are_refused(tmp_path):
    with pytest.raises(UsageError, match="at least two"):
        edgex.compare(make_report())
    with pytest.raises(UsageError, match="0 given"):
        edgex.compare()
    with pytest.raises(ArtifactError, match="no artifact or report at"):
        edgex.compare(make_report(), tmp_path / "nothing.json")


def test_settings_are_not_for_reports():
    with pytest.raises(UsageError, match="for artifacts"):
        edgex.compare(make_report(), make_report(), threads=2)


# ---- the gate


@pytest.mark.parametrize(("text", "limit"), [("3%", 0.03), ("2.5 %", 0.025), ("0%", 0.0), (".5%", 0.005)])
def test_limits(text, limit):
    assert parse_limit(text) == pytest.approx(limit)


@pytest.mark.parametrize("text", ["3", "0.03", "-3%", "3%%", "three", "%", "", "1e1%"])
def test_other_limits_are_refused(text):
    with pytest.raises(UsageError, match="expected a percentage"):
        parse_limit(text)


@pytest.mark.parametrize(
    ("milliseconds", "failed", "undecided"),
    [(1.0, 0, 1), (0.7, 0, 0), (1.5, 1, 0), (1.05, 0, 1)],  # an interval of two runs always reaches past 3 %
)
def test_only_what_is_surely_beyond_the_limit_fails(milliseconds, failed, undecided):
    gate = check_gate(edgex.compare(make_report(), make_report(milliseconds, seed=1)), 0.03)
    assert (len(gate.failed), len(gate.undecided)) == (failed, undecided), gate
    assert len(describe_gate(gate)) == 1


def test_a_gate_is_not_for_two_machines():
    comparison = edgex.compare(make_report(), make_report(host={"cpu": "Other CPU"}))
    with pytest.raises(UsageError, match="different machines"):
        refuse_other_hosts(comparison, False)
    refuse_other_hosts(comparison, True)


def test_a_quantized_artifact_is_named_by_its_recipe():
    """Its precision is fp32, that of what is not quantized."""
    plain = make_report()
    quantized = replace(plain, artifact=replace(plain.artifact, recipe="int8"))
    shown = render_comparison(edgex.compare(plain, quantized))
    assert re.search(r"\| target +\| xnnpack fp32 +\| xnnpack int8 +\|", shown), shown
    assert describe_subject(quantized)[:2] == ["xnnpack", "int8"]
    assert ProfileReport.from_json(json.loads(quantized.dumps())).artifact.recipe == "int8"
    # Reports of before it was noted have none.
    old = json.loads(plain.dumps())
    del old["artifact"]["recipe"]
    assert ProfileReport.from_json(old).artifact.numbers == "fp32"
