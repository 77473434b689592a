"""`edgex compare` as a user calls it: sentences, files, exit codes."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from compare_support import make_row, save_report

QUICK = ("--processes", "1", "--max-seconds", "0.1", "--threads", "1")


@pytest.fixture
def reports(tmp_path):
    """Three reports: the baseline, one as quick, one 50 % slower."""
    for name, speed in (("a", 1.0), ("same", 1.0), ("slow", 1.5)):
        save_report(tmp_path, f"{name}.json", speed)


def test_artifacts_are_compared(exported, edgex):
    one, other = str(exported("convnet", "onnx-cpu")), str(exported("convnet", "reference"))
    done = edgex("compare", one, other, *QUICK)
    assert done.returncode == 0, done.stderr
    first, *lines = done.stdout.splitlines()
    assert "convnet.reference.edgex" in first and "convnet.onnx-cpu.edgex" in first
    rows = {line[:15].strip(): line[15:].split() for line in lines if line[:15].strip()}
    assert rows["target"] == ["onnx-cpu", "fp32", "reference", "fp32"]
    assert rows["threads"] == ["1", "1"]
    assert rows["SQNR to first"][-1] == "dB"
    assert "timed in turns" in done.stdout and "\x1b" not in done.stdout
    said = " ".join(done.stdout.split())
    assert "s with starts and loads, the least that 1 process of each take (--max-seconds 0.1)" in said
    assert said.count("× the untraced median and add up to") == 2 and "operators: times of traced runs" in said
    stages = list(dict.fromkeys(line.split("] ")[1].split(":")[0] for line in done.stderr.splitlines()))
    assert [stage for stage in stages if stage != "measure longer"] == ["start", "measure", "trace", "outputs"]


def test_json_is_one_document_and_the_file_is_the_same(exported, edgex, tmp_path):
    path = str(exported("counter", "onnx-cpu"))
    done = edgex("compare", path, path, path, *QUICK, "--json", "-q", "-o", "out.json", "--fail-on", "900%")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == "edgex.compare/2" and document["kind"] == "artifacts"
    assert [entry["b"] for entry in document["comparisons"]] == [
        "counter.onnx-cpu.edgex (2)",
        "counter.onnx-cpu.edgex (3)",
    ]
    assert document["verdict"] == document["comparisons"][0]["verdict"]
    assert all(subject["trace"]["overhead_ratio"] > 0 for subject in document["subjects"])
    assert document["fail_on"] == {"limit": 9.0, "failed": [], "undecided": []}
    assert (tmp_path / "out.json").read_text() == done.stdout


def test_the_gate_fails_only_for_a_sure_regression(reports, edgex):
    same = edgex("compare", "a.json", "same.json", "--fail-on", "3%")
    assert same.returncode == 0, same.stderr
    assert "whether same.json is slower by more than 3 % cannot be decided" in same.stdout
    slow = edgex("compare", "a.json", "slow.json", "--fail-on", "3%")
    assert slow.returncode == 4
    assert "error: slow.json is slower than the first by more than 3 %" in slow.stderr
    assert re.search(r"slow.json is slower than a.json: \d+ % more time", slow.stdout)
    assert edgex("compare", "slow.json", "a.json", "--fail-on", "3%").returncode == 0
    assert edgex("compare", "a.json", "slow.json", "--fail-on", "80%").returncode == 0
    assert edgex("compare", "a.json", "slow.json").returncode == 0  # nobody asked
    document = json.loads(edgex("compare", "a.json", "same.json", "slow.json", "--fail-on", "3%", "--json").stdout)
    assert document["fail_on"] == {"limit": 0.03, "failed": ["slow.json"], "undecided": ["same.json"]}


def test_reports_say_that_they_were_not_interleaved(reports, edgex):
    done = edgex("compare", "a.json", "same.json")
    assert done.returncode == 0
    assert done.stdout.startswith("no difference within 6.0 % between same.json and a.json")
    assert "saved reports, taken at different times" in done.stdout
    assert "warning: not-interleaved:" in done.stdout


def test_a_noisy_machine_gives_no_verdict(edgex, tmp_path):
    save_report(tmp_path, "a.json", noise=0.3)
    save_report(tmp_path, "b.json", 1.1, noise=0.3, seed=1, warnings=("steal",))
    done = edgex("compare", "a.json", "b.json", "--fail-on", "3%")
    assert done.returncode == 0
    assert done.stdout.startswith("too noisy to decide: ")


def test_markdown_and_operators(edgex, tmp_path):
    save_report(tmp_path, "a.json", ops=(make_row("conv", "aten.convolution.default", median_seconds=10.0e-6),))
    save_report(tmp_path, "b.json", ops=(make_row("conv", "aten.convolution.default", median_seconds=14.0e-6),))
    done = edgex("compare", "a.json", "b.json", "-o", "out.md")
    assert done.returncode == 0, done.stderr
    assert "conv    convolution  10.0 µs  14.0 µs  +4.0 µs  operators" in done.stdout
    text = (tmp_path / "out.md").read_text()
    assert text.startswith("# b.json against a.json\n")
    assert "| conv | convolution | 10.0 µs | 14.0 µs | +4.0 µs | operators |" in text
    assert edgex("compare", "a.json", "b.json", "-o", "out.md").returncode == 2
    assert edgex("compare", "a.json", "b.json", "-o", "out.md", "--force").returncode == 0
    assert edgex("compare", "a.json", "b.json", "-o", "out.html").returncode == 0
    page = (tmp_path / "out.html").read_text()
    assert page.lstrip().lower().startswith("<!doctype html>") and " than " in page


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, "0 given, at least two are needed"),
        (("a.json",), 2, "1 given, at least two are needed"),
        (("a.json", "nothing.edgex"), 6, "no artifact or report at nothing.edgex"),
        (("a.json", "cut.json"), 6, "cut.json is not whole JSON"),
        (("a.json", "newer.json"), 6, "newer.json is of schema 'edgex.profile/3'"),
        (("a.json", "other.json"), 2, "different models"),
        (("a.json", "far.json", "--fail-on", "3%"), 2, "--fail-on cannot judge reports of different machines"),
        (("a.json", "same.json", "--fail-on", "3"), 2, "--fail-on 3: expected a percentage"),
        (("a.json", "same.json", "-o", "out.txt"), 2, "reports are written as .html or .json or .md"),
        (("a.json", "same.json", "-o", "nowhere/out.md"), 2, "no such folder: nowhere"),
        (("a.json", "same.json", "--threads", "2"), 2, "for artifacts"),
        (("a.json", "same.json", "-i", "x.npz"), 2, "-i is for artifacts"),
    ],
)
def test_what_cannot_be_compared_is_refused(arguments, code, words, reports, edgex, tmp_path):
    (tmp_path / "cut.json").write_text((tmp_path / "a.json").read_text()[:1000])
    text = (tmp_path / "a.json").read_text()
    (tmp_path / "newer.json").write_text(text.replace("edgex.profile/2", "edgex.profile/3"))
    save_report(tmp_path, "other.json", name="other")
    save_report(tmp_path, "far.json", host={"cpu": "Other CPU"})
    done = edgex("compare", *arguments)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert words in done.stderr
    as_json = edgex("compare", *arguments, "--json")
    assert json.loads(as_json.stdout)["exit_code"] == code


def test_different_models_and_machines_can_be_allowed(reports, edgex, tmp_path):
    save_report(tmp_path, "other.json", 1.5, name="other", host={"cpu": "Other CPU"})
    done = edgex("compare", "a.json", "other.json", "--allow-different", "--fail-on", "3%")
    assert done.returncode == 4
    assert "different models: model: a.json has net, other.json has other" in done.stdout
    assert "DIFFERENT MACHINES" in done.stdout


def test_a_timeout_ends_the_processes_too(exported, tmp_path):
    path = str(exported("convnet", "onnx-cpu"))
    command = [sys.executable, "-m", "edgex", "compare", path, path, "-q", "--timeout", "1.5", "-o", "out.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 124
    assert not list(tmp_path.iterdir())
