"""Operators in the terminal, in Markdown and as a Chrome trace."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from dataclasses import replace

import pytest
from report_support import DELEGATE, HOSTILE, make_hostile, make_report
from rich.cells import cell_len
from rich.console import Console

from edgex.runtime.report import views
from edgex.runtime.report.chrome_trace import render_trace
from edgex.runtime.report.listings import (
    list_fallbacks,
    list_modules,
    list_operators,
    list_places,
    list_source,
    list_view,
)
from edgex.runtime.report.markdown import render_markdown
from edgex.runtime.report.terminal import print_report

VIEWS = ("operator", "module", "source", "delegate")


@pytest.fixture(scope="module")
def report():
    return make_report(1000)


def shown(report, by=None, limit=20, **console):
    out = io.StringIO()
    print_report(report, Console(file=out, **{"width": 100, **console}), by, limit)
    return out.getvalue()


# ---- listings and the terminal


@pytest.mark.parametrize("by", VIEWS)
@pytest.mark.parametrize("width", [72, 80, 140])
def test_every_view_fits_a_terminal_and_needs_no_colour(report, by, width):
    text = shown(report, by, width=width, force_terminal=True, color_system=None)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    coloured = shown(report, by, width=width, force_terminal=True, color_system="truecolor")
    assert "\x1b[" in coloured


def test_a_pipe_gets_names_uncut(report):
    text = shown(report, "operator", width=60)
    assert "\x1b" not in text and "Fully Connected (NC, F32) GEMM" in text
    assert "…" in shown(report, "operator", width=60, force_terminal=True, color_system=None)


def test_the_plain_report_names_kinds_fallbacks_and_places(report):
    text = shown(report)
    assert "fallback 6." in text and f"outside {DELEGATE}" in text and "where the time goes" in text
    assert "aten.native_layer_norm.default  encoder.py:30" in text
    assert "98.5 % of the traced run is in operators" in text
    assert "where the time goes" not in shown(make_report(0))


def test_where_there_is_no_line_the_module_is_named(report):
    """A model of `nn.Sequential` has no line of the user's."""
    ops = [replace(row, source=None, sources=()) for row in report.ops]
    rows = list_places(replace(report, ops=tuple(ops)), None).rows
    named = dict(row[:2] for row in rows)
    assert named["aten.gelu.default"].startswith("in ") and named["aten.gelu.default"].endswith(" modules")
    head = replace(report, ops=(replace(ops[0], module_path="head", operators=("aten.mm.default",)),))
    assert list_places(head, None).rows[0][:2] == ("aten.mm.default", "in head")
    assert named["between operators"] == "no source line"


def test_rows_are_limited_and_the_rest_is_counted(report):
    types, operators = list_operators(report, 5)
    assert len(operators.rows) == 5 and operators.notes[0] == "995 rows more"
    assert len(types.rows) == 5 and types.notes == (f"{len(views.by_type(report)) - 5} rows more",)
    everything = list_operators(report, None)[1]
    assert len(everything.rows) == 1000 and not everything.notes


def test_operators_below_the_resolution_are_told(report):
    rows = (replace(report.ops[0], median_seconds=None, share=None), *report.ops[1:20])
    operators = list_operators(replace(report, ops=rows), None)[1]
    assert operators.notes == ("1 operator below the clock's resolution of 1.0 µs",)
    assert operators.rows[-1][3:5] == ("below resolution", "")


def test_modules_are_indented_under_theirs(report):
    (listing,) = list_modules(report, 12)
    names = [row[0] for row in listing.rows]
    assert names[:2] == ["encoder", "  layers"] and names[2].startswith("    ")
    assert names[-1] == "not traced to a module"


def test_the_source_listing_shows_times_beside_the_lines_that_cost(report):
    listing, rest = list_source(report)
    by_text = {row[3].strip(): row for row in listing.rows}
    assert by_text["weights = scores.softmax(-1)"][0].endswith("ms")
    assert by_text["n, length, width = x.shape"][0] == ""
    assert "import torch" not in by_text  # far from any line that costs
    assert rest.title.startswith("not traced to a line: ")


def test_no_fallbacks_no_table(report):
    assert len(list_fallbacks(report, 5)) == 1
    taken = tuple(replace(row, delegate=DELEGATE) for row in report.ops)
    assert list_fallbacks(replace(report, ops=taken), 5) == []


@pytest.mark.parametrize("by", VIEWS)
def test_control_characters_do_not_reach_the_terminal(report, by):
    evil = "\x1b[2Jcleared"
    row = replace(
        report.ops[0], op_type=evil, module_path=evil, source=f"{evil}:1", delegate=evil, operators=(evil,),
        map_confidence="exact",
    )  # fmt: skip
    assert "\x1b" not in shown(replace(report, ops=(row, *report.ops[1:9])), by, color_system=None, force_terminal=True)


# ---- Markdown


def test_markdown_has_the_operators(report):
    text = render_markdown(report)
    for words in ("## Operators", f"### outside {DELEGATE}", "### modules", "### memory by stage", "980 rows more."):
        assert words in text, words
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert len(text) < 30_000 and len(tables) > 60
    assert "## Operators" not in render_markdown(make_report(0))


def test_markdown_tables_keep_their_columns_whatever_the_names():
    text = render_markdown(make_hostile(make_report(30)))
    widths = set()
    for line in text.splitlines():
        if line.startswith("|"):
            widths.add(line.replace("\\|", "").count("|"))
        elif widths:
            assert len(widths) == 1, line
            widths = set()
    assert "<b" not in text.replace("\\<b", "")


# ---- the trace


def tracks(text):
    """(name of each track, slices of each as (depth, name, start, end)); checks that every E closes the last B."""
    names, opened, slices = {}, defaultdict(list), defaultdict(list)
    last = defaultdict(float)
    for event in json.loads(text)["traceEvents"]:
        track = event.get("tid")
        if event["ph"] == "M" and event["name"] == "thread_name":
            names[track] = event["args"]["name"]
        if event["ph"] not in "BE":
            continue
        assert event["ts"] >= last[track], "time runs backwards"
        last[track] = event["ts"]
        if event["ph"] == "B":
            opened[track].append(event)
        else:
            begin = opened[track].pop()
            assert begin["name"] == event["name"]
            slices[track].append((len(opened[track]), event["name"], begin["ts"], event["ts"]))
    assert not any(opened.values()), "slices are left open"
    return names, slices


def test_the_trace_is_nested_and_lays_one_run_out(report):
    names, slices = tracks(render_trace(report))
    assert names == {1: "executorch", 2: DELEGATE, 3: "modules"}
    run = [entry for entry in slices[1] if entry[0] == 0]
    assert [(name, start) for _, name, start, _ in run] == [("run", 0.0)]
    assert run[0][3] == pytest.approx(report.trace.execute_seconds * 1e6, abs=0.01)
    inside = sum(end - start for depth, _, start, end in slices[1] if depth == 1)
    assert inside == pytest.approx(views.total_seconds(report) * 1e6, abs=1.0)
    delegated = [row for row in report.ops if row.delegate == DELEGATE]
    assert len(slices[2]) == len(delegated)
    assert sum(end - start for *_, start, end in slices[2]) == pytest.approx(
        sum(row.median_seconds or 0.0 for row in delegated) * 1e6, abs=1.0
    )
    whole = sum(end - start for depth, _, start, end in slices[3] if depth == 0)
    assert whole == pytest.approx(views.by_module(report).root.total_seconds * 1e6, abs=1.0)


def test_the_trace_says_what_each_operator_is(report):
    events = json.loads(render_trace(report))["traceEvents"]
    shown = [event["args"] for event in events if event["ph"] == "B" and "args" in event]
    assert [args["name"] for args in shown] == [row.name for row in report.ops]
    assert shown[1]["module"] == "layers.0.attention.q" and shown[1]["source"] == "encoder.py:16"
    assert shown[1]["inputs"] == "float32 [1, 128, 384], float32 [384, 384]"
    levels = [event["args"]["bytes"] for event in events if event["ph"] == "C"]
    assert levels == list(views.live_bytes(report))


def test_a_row_without_a_time_takes_none(report):
    rows = tuple(replace(row, median_seconds=None) for row in report.ops[:3])
    _, slices = tracks(render_trace(replace(report, ops=rows, trace=None)))
    assert all(end == 0.0 for entries in slices.values() for *_, end in entries)


def test_the_trace_of_a_report_without_operators_is_empty_but_valid():
    names, slices = tracks(render_trace(replace(make_report(0), trace=None)))
    assert names == {1: "executorch", 2: "modules"} and [entry[1] for entry in slices[1]] == ["run"]


def test_hostile_names_survive_the_trace():
    events = json.loads(render_trace(make_hostile(make_report(10))))["traceEvents"]
    assert any(event["name"] == HOSTILE for event in events)


@pytest.mark.parametrize("by", VIEWS)
def test_views_of_nothing_are_empty(by):
    assert all(not listing.rows for listing in list_view(make_report(0), by, 5) if listing.title != "modules")
