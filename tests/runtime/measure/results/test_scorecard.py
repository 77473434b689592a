"""The scorecard: reasons are grouped, outliers are found, the page holds what the document says."""

from __future__ import annotations

import json

from sweep_support import make_row

from edgex.runtime.measure.results.difference import find_difference
from edgex.runtime.measure.results.scorecard import find_outliers, make_scorecard
from edgex.runtime.report.pages.scorecard import plot_latency, render_scorecard

ROWS = [
    *(make_row(f"net{at}", "xnnpack", 1.0 + at / 10, seed=at) for at in range(9)),
    *(make_row(f"net{at}", "onnx-cpu", 0.5 + at / 10, seed=at) for at in range(9)),
    make_row("sorter", "xnnpack", what="xnnpack cannot run aten.sort.default"),
    make_row("topk", "xnnpack", what="xnnpack cannot run aten.sort.default"),
    make_row("evil<b>", "xnnpack", what="<script>alert(1)</script>"),
    make_row("late", "xnnpack", milliseconds=None, complete=False),
]


def test_coverage_groups_reasons() -> None:
    document = make_scorecard("fleet", ROWS)
    json.dumps(document, allow_nan=False)
    xnnpack = next(entry for entry in document["coverage"] if entry["artifact"] == "xnnpack")
    assert (xnnpack["jobs"], xnnpack["verified"], xnnpack["failed"]) == (13, 10, 3)
    assert xnnpack["reasons"][0] == {
        "status": "failed", "stage": "lower", "what": "xnnpack cannot run aten.sort.default", "fix": "another target",
        "count": 2, "models": ["sorter", "topk"],
    }  # fmt: skip
    assert (document["jobs"], document["complete"], document["failed"], document["models"]) == (22, 21, 3, 13)
    onnx = next(entry for entry in document["latency"] if entry["artifact"] == "onnx-cpu")
    assert onnx["count"] == 9 and onnx["times_the_best"] == 1.0
    late = next(row for row in document["rows"] if row["model"] == "late")
    assert late["status"] == "not measured yet" and document["difference"] is None


def test_outliers() -> None:
    found = {(outlier.model, outlier.figure) for outlier in find_outliers(ROWS)}
    # 1.0 against 0.5 ms, and so on: from 1.5 times on.
    assert {model for model, figure in found if figure == "latency"} == {"net0", "net1", "net2", "net3", "net4", "net5"}
    slow = [make_row(f"n{at}", export_seconds=3.0 + at / 10) for at in range(9)] + [
        make_row("slow", export_seconds=90.0)
    ]
    assert [(outlier.model, outlier.figure) for outlier in find_outliers(slow)] == [("slow", "export time")]
    exact = [make_row(f"n{at}", sqnr_db=120.0 + at) for at in range(9)] + [make_row("rough", sqnr_db=70.0)]
    assert [(outlier.model, outlier.figure) for outlier in find_outliers(exact)] == [("rough", "error")]
    assert find_outliers([make_row("alone")]) == []


def test_the_page_holds_everything_and_runs_nothing() -> None:
    before = [make_row("net1", "xnnpack", 0.5), make_row("topk")]
    document = make_scorecard("fleet", ROWS, ("last week", find_difference(before, ROWS)), 0.03)
    page = render_scorecard(document)
    assert "<script" not in page and "&lt;script&gt;alert(1)" in page and "evil&lt;b&gt;" in page
    assert "newly failing" in page and "last week" in page and "not measured yet" in page
    assert all(f"net{at}" in page for at in range(9)) and "cannot run aten.sort.default" in page
    assert "http" not in page.replace("http-equiv", "")
    assert render_scorecard(make_scorecard("empty", []))


def test_lanes_share_one_axis() -> None:
    lanes, ticks = plot_latency(make_scorecard("fleet", ROWS)["latency"])
    assert [lane.label for lane in lanes] == ["xnnpack", "onnx-cpu"] and len(lanes[0].dots) == 9
    xs = [dot.x for dot in lanes[0].dots]
    assert xs == sorted(xs) and all(150 <= x <= 736 for x in xs) and ticks
