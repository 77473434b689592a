"""The coverage suite: which models, what counts as worse, what may excuse it, and some hard cases end to end."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path

import pytest
from sweep_support import make_row

ROOT = Path(__file__).resolve().parent.parent.parent
from benchmarks.coverage.__main__ import main  # noqa: E402
from benchmarks.coverage.expected import EXPECTED  # noqa: E402
from benchmarks.coverage.judge import (  # noqa: E402
    ISSUES,
    RESULTS,
    find_regressions,
    find_surprises,
    merge,
    parse_issues,
    parse_outcomes,
    read_baseline,
)
from benchmarks.coverage.models import huggingface, large, modern, timm_models, torchvision_models  # noqa: E402
from benchmarks.coverage.outcome import Outcome, outcome_of_row, without_paths  # noqa: E402
from benchmarks.coverage.report import render  # noqa: E402
from benchmarks.coverage.suite import TARGETS, all_entries, in_turns, select  # noqa: E402
from benchmarks.coverage.workarounds import WORKAROUNDS  # noqa: E402

GOOD = Outcome("hard/lstm", "xnnpack", "verified", fraction=0.5, calls=2, seconds=3.0, peak_rss_bytes=400_000_000)
REFUSED = Outcome(
    "hard/lstm", "xnnpack", "failed", "lower", 5, "xnnpack cannot run aten.x", "no kernel", "take onnx-cpu"
)
CRASHED = Outcome("hard/lstm", "xnnpack", "failed", "verify", 139, "the process was ended by SIGSEGV")


def test_the_suite_is_as_large_as_it_says():
    assert len(huggingface.ARCHITECTURES) + len(huggingface.GONE) == 46
    assert len(torchvision_models.entries()) == 40
    assert len(timm_models.entries()) == 60
    assert len(modern.entries()) == 34
    assert len(large.entries()) == 25
    names = [entry.name for entry in all_entries()]
    assert len(set(names)) == len(names) == 224
    assert set(EXPECTED) == {(name, target) for name in names if name.startswith("hard/") for target in TARGETS}


def test_models_are_chosen_by_pattern_and_taken_in_turns():
    entries = all_entries()
    groups = ["hard", "huggingface", "modern", "torchvision", "timm", "large"]
    assert [entry.group for entry in in_turns(entries)[:7]] == [*groups, "hard"]
    assert {entry.group for entry in select(entries, [], quick=False)} == {*groups} - {"large"}
    assert len(select(entries, ["large/*"], quick=False)) == 25
    assert [entry.name for entry in select(entries, ["timm/levit*"], quick=False)] == ["timm/levit_128s"]
    assert {entry.group for entry in select(entries, [], quick=True)} == {*groups} - {"large"}
    assert main(["--only", "timm/nothing"]) == 2


def make_repository(folder, outcome, issues=()):
    """A repository whose HEAD holds an outcome and known issues."""
    (folder / RESULTS).parent.mkdir(parents=True)
    (folder / "benchmarks/coverage").mkdir(parents=True)
    document = {"schema": "edgex.coverage/1", "outcomes": [outcome.to_json()]}
    (folder / RESULTS).write_text(json.dumps(document))
    (folder / ISSUES).write_text(json.dumps(issues))
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["init", "-q"], ["add", "-A"], [*who, "commit", "-qm", "baseline"]):
        subprocess.run(["git", *command], cwd=folder, check=True)


def test_what_is_worse_is_named_and_what_is_better_is_not(tmp_path):
    make_repository(tmp_path, REFUSED)
    baseline = read_baseline("HEAD", tmp_path)
    assert find_regressions([GOOD], baseline) == []
    assert find_regressions([REFUSED], baseline) == []
    assert "SIGSEGV" in find_regressions([CRASHED], baseline)[0]
    assert find_regressions([dataclasses.replace(CRASHED, model="hard/new")], baseline) == []


def test_only_an_issue_that_was_committed_before_excuses_a_failure(tmp_path):
    issue = {"model": "hard/lstm", "target": "xnnpack", "exit_code": 5, "reason": "the kernel went with release 9"}
    make_repository(tmp_path, GOOD)
    (tmp_path / ISSUES).write_text(json.dumps([issue]))
    (tmp_path / RESULTS).write_text(json.dumps({"schema": "edgex.coverage/1", "outcomes": []}))
    assert len(find_regressions([REFUSED], read_baseline("HEAD", tmp_path))) == 1
    other = tmp_path / "other"
    other.mkdir()
    make_repository(other, GOOD, [issue])
    assert find_regressions([REFUSED], read_baseline("HEAD", other)) == []
    assert len(find_regressions([CRASHED], read_baseline("HEAD", other))) == 1


def test_an_issue_needs_a_reason():
    with pytest.raises(ValueError, match="hard/lstm on xnnpack gives no reason"):
        parse_issues('[{"model": "hard/lstm", "target": "xnnpack", "exit_code": 5, "reason": "broken"}]')


def test_hard_cases_are_held_to_their_sentence():
    expected = {("hard/lstm", "xnnpack"): (5, "xnnpack cannot run")}
    assert find_surprises([REFUSED], expected) == []
    assert "expected exit code 5" in find_surprises([GOOD], expected)[0]
    assert "expected verified" in find_surprises([REFUSED], {("hard/lstm", "xnnpack"): (0, "")})[0]


def test_a_run_changes_only_what_it_ran():
    key, other = ("hard/lstm", "xnnpack"), ("hard/cond", "xnnpack")
    baseline = {key: REFUSED, other: GOOD, ("hard/left", "xnnpack"): GOOD}
    assert merge([key, other], baseline, {key: GOOD}) == [GOOD, GOOD]


def test_texts_lose_folders_and_addresses():
    text = "at /home/me/.venv/lib/python3.11/site-packages/torch/x.py:3, /tmp/a-1/b.onnx: <F at 0x7f00aa00bb00>; 1/2"
    assert without_paths(text) == "at torch/x.py:3, b.onnx: <F at 0x…>; 1/2"


def test_the_page_is_what_its_data_says():
    """The committed page, written again from the committed data."""
    document = json.loads((ROOT / RESULTS).read_text(encoding="utf-8"))
    outcomes = list(parse_outcomes(json.dumps(document)).values())
    issues = parse_issues((ROOT / ISSUES).read_text(encoding="utf-8"))
    names = [entry.name for entry in all_entries()]
    page = render(names, outcomes, document, issues)
    assert (ROOT / "docs/benchmarks/coverage.md").read_text(encoding="utf-8") == page
    assert document["models"] == len(names)
    failing = {outcome.model for outcome in outcomes if not outcome.verified and not outcome.model.startswith("hard/")}
    assert failing == set(WORKAROUNDS), "every failure has a workaround, and what no longer fails has none"
    assert all(text in page for text in WORKAROUNDS.values())
    assert find_surprises(outcomes, EXPECTED) == []
    assert not [outcome for outcome in outcomes if outcome.defect]


def as_row(model, target, result):
    """What a sweep makes of the result of one target."""
    row = make_row(model, target)
    return dataclasses.replace(
        row, status=result.status, seconds=result.seconds, made=result.made, timing=None, failure=result.failure
    )


# One of each kind: verified on both, refused by one, refused by both.
DEFAULT_CASES = {"complex_rotary": TARGETS[:2], "int64_maths": TARGETS[:2], "custom_operator": TARGETS[:2]}


@pytest.mark.parametrize("name", DEFAULT_CASES)
def test_hard_cases(name, tmp_path, monkeypatch):
    from benchmarks.coverage.by_name import spec_of
    from edgex.export.pick.candidates import Candidate
    from edgex.export.sweep.exporting import export_model
    from edgex.export.sweep.plan import PlannedModel, settings_of_kind

    monkeypatch.chdir(ROOT)
    model = PlannedModel(spec_of(f"hard/{name}"), f"hard/{name}")
    settings = settings_of_kind([Candidate(target) for target in DEFAULT_CASES[name]], {}, None, tmp_path)
    results = export_model(model, settings, model.file_name)
    outcomes = [outcome_of_row(as_row(model.name, target, result)) for target, result in results.items()]
    assert {outcome.target for outcome in outcomes} == set(DEFAULT_CASES[name])
    assert find_surprises(outcomes, EXPECTED) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_quick_subset(tmp_path):
    """Ten minutes: with the model libraries their part too, without them the hard cases."""
    from benchmarks.coverage.suite import missing_libraries

    only = ["--only", "hard/*"] if missing_libraries(all_entries()) else []
    assert main(["--quick", *only, "--work", str(tmp_path), "-o", str(tmp_path)]) == 0
    assert (tmp_path / "coverage.md").exists()
