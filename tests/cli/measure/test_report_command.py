"""`edgex report`, and the files that it and `edgex profile -o` write."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from report_support import make_report

pytestmark = pytest.mark.long_file

FEW = ("--warmup", "3", "--runs", "12", "-q")


@pytest.fixture
def saved(tmp_path):
    """Two reports as files in the test's folder."""
    (tmp_path / "before.json").write_text(make_report(40).dumps(), encoding="utf-8")
    (tmp_path / "after.json").write_text(make_report(30, seed=1).dumps(), encoding="utf-8")
    return tmp_path


def test_profile_writes_every_form_at_once(exported, edgex, tmp_path):
    names = ("a.html", "a.md", "a.json", "a.trace.json")
    done = edgex(
        "profile", str(exported("convnet", "onnx-cpu")), *(w for name in names for w in ("-o", name)), *FEW[:-1]
    )
    assert done.returncode == 0, done.stderr
    written = [line.split(": ")[1] for line in done.stderr.splitlines() if line.startswith("written: ")]
    assert written == ["a.json", "a.html", "a.md", "a.trace.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    assert (tmp_path / "a.html").read_text().startswith("<!doctype html>")
    assert json.loads((tmp_path / "a.json").read_text())["schema"] == "edgex.profile/2"
    assert "traceEvents" in json.loads((tmp_path / "a.trace.json").read_text())
    again = edgex("report", "a.json", "-o", "b.html", "-o", "b.md")
    assert again.returncode == 0, again.stderr
    for form in ("html", "md"):
        assert (tmp_path / f"b.{form}").read_bytes() == (tmp_path / f"a.{form}").read_bytes()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("-o", "x.txt"), "written as .html, .json, .md or .trace.json"),
        (("-o", "x.html", "-o", "nowhere/x.md"), "no such folder: nowhere"),
        (("-o", "x.html", "-o", "x.html"), "x.html is given twice"),
        (("-o", "here.html"), "here.html exists"),
        (("-o", "folder.html"), "folder.html is a folder"),
        (("--by", "colour"), "'colour' is not one of"),
        (("--top", "0"), "--top"),
    ],
)
@pytest.mark.parametrize("verb", ["profile", "report"])
def test_outputs_are_checked_before_anything_is_read(flags, words, verb, edgex, tmp_path):
    (tmp_path / "here.html").write_text("mine")
    (tmp_path / "folder.html").mkdir()
    done = edgex(verb, "nothing.json", *flags)
    assert done.returncode == 2 and words in done.stderr, done.stderr
    assert (tmp_path / "here.html").read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 2


def test_saved_reports_are_printed(saved, edgex):
    done = edgex("report", "before.json", "--by", "module", "--top", "4")
    assert done.returncode == 0, done.stderr
    assert "modules" in done.stdout and "layers" in done.stdout and "rows more" in done.stdout
    both = edgex("report", "before.json", "after.json")
    assert both.stdout.count("where the time goes") == 2


@pytest.mark.parametrize("by", ["operator", "source", "delegate"])
def test_other_views_are_printed(saved, edgex, by):
    words = {"operator": "types of operators", "source": "encoder.py: ", "delegate": "who ran it"}[by]
    assert words in edgex("report", "before.json", "--by", by).stdout


def test_several_reports_share_a_page_under_the_names_of_their_files(saved, edgex):
    done = edgex("report", "before.json", "after.json", "-o", "both.html")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "" and done.stderr == "written: both.html\n"
    page = (saved / "both.html").read_text()
    assert ">before</button>" in page and ">after</button>" in page
    refused = edgex("report", "before.json", "after.json", "-o", "both.md")
    assert refused.returncode == 2 and ".md takes one report, not 2" in refused.stderr
    many = edgex("report", *["before.json"] * 5)
    assert many.returncode == 2 and "5 reports" in many.stderr


def test_existing_files_are_replaced_when_asked(saved, edgex):
    (saved / "x.md").write_text("old")
    assert edgex("report", "before.json", "-o", "x.md").returncode == 2
    assert edgex("report", "before.json", "-o", "x.md", "--force").returncode == 0
    assert (saved / "x.md").read_text().startswith("# encoder on xnnpack")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (json.dumps({**make_report(1).to_json(), "schema": "edgex.profile/3", "edgex_version": "9.1"}),
         ("schema 'edgex.profile/3'; this edgex reads 'edgex.profile/2'", "the edgex that wrote it (9.1)")),
        (json.dumps({"schema": "edgex.run/1"}), ("'edgex.run/1'", "edgex profile ARTIFACT -o")),
        ("[1, 2]", ("no profile: it names no schema",)),
        (make_report(1).dumps()[:-400], ("is not whole JSON",)),
        (json.dumps({**make_report(1).to_json(), "ops": [{}]}), ("is damaged",)),
        (None, ("cannot be read",)),
    ],
    ids=["newer", "other", "list", "cut", "damaged", "missing"],
)  # fmt: skip
def test_what_is_no_report_of_this_schema_is_refused(text, words, edgex, tmp_path):
    if text is not None:
        (tmp_path / "bad.json").write_text(text, encoding="utf-8")
    done = edgex("report", "bad.json", "-o", "x.html")
    assert done.returncode == 6
    for word in words:
        assert word in done.stderr
    if text == "[1, 2]":
        (tmp_path / "page.html").write_text("<!doctype html>")
        page = edgex("report", "page.html")
        assert page.returncode == 6 and "page.html is no report: reports are read as .json" in page.stderr
    assert not (tmp_path / "x.html").exists()


def test_an_interrupted_report_says_so(edgex, tmp_path):
    report = replace(make_report(10), complete=False)
    (tmp_path / "half.json").write_text(report.dumps(), encoding="utf-8")
    assert "interrupted" in edgex("report", "half.json").stdout
    assert edgex("report", "half.json", "-o", "half.md", "-o", "half.html").returncode == 0
    assert "Interrupted" in (tmp_path / "half.md").read_text()
    assert "Interrupted" in (tmp_path / "half.html").read_text()
