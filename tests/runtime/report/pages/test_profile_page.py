"""The HTML report as text: complete, alone, small, escaped. `test_page_browser.py` opens it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from report_support import HOSTILE, make_hostile, make_report

from edgex.errors import UsageError
from edgex.runtime.report import views
from edgex.runtime.report.listings import Column, Listing
from edgex.runtime.report.pages.profile import Findings, render_html

MOST_BYTES = 2_000_000


class Elements(HTMLParser):
    """All elements with their attributes, and all text outside of scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag):
        self._inside = ""

    def handle_data(self, data):
        if self._inside not in ("script", "style"):
            self.text += data


def data_of(page: str) -> list[dict]:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])


@pytest.fixture(scope="module")
def report():
    return make_report(1000)


@pytest.fixture(scope="module")
def page(report):
    return render_html([report])


def test_a_page_of_a_thousand_operators_is_small(page):
    assert len(page.encode()) < MOST_BYTES
    assert len(data_of(page)[0]["us"]) == 1000


def test_the_page_needs_nothing_but_itself(page):
    for tag, attributes in Elements(page).found:
        for name in ("src", "href", "action", "data", "srcset"):
            value = attributes.get(name)
            assert value is None or value.startswith("#") or value == "data:,", (tag, value)
    assert "@import" not in page and "url(" not in page
    assert "default-src 'none'" in page


def test_the_policy_names_the_script_that_is_there(page):
    import base64
    import hashlib

    scripts = re.findall(r"<script>(.*?)</script>", page, re.S)
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page


def test_the_data_holds_the_rows_and_views_of_the_report(report, page):
    (data,) = data_of(page)
    assert data["us"] == pytest.approx([row.median_seconds * 1e6 for row in report.ops], rel=1e-5)
    names = [data["strings"][at] for at in data["texts"]["name"]]
    assert names == [row.name for row in report.ops]
    tree = views.by_module(report)
    assert data["modules"][1] == pytest.approx(tree.root.total_seconds * 1e6, rel=1e-5)
    assert data["unmapped"] == list(tree.unmapped.rows)
    assert sum(data["latency"]["bins"]) == pytest.approx(report.steady.n * (1 - data["latency"]["beyond"]))
    outside = [at for at, kind in enumerate(data["kind"]) if kind == 1]
    assert outside == list(views.fallback_rows(report))


def test_the_figures_can_be_read_without_scripts(report, page):
    text = " ".join(Elements(page).text.split())
    for words in ("encoder on xnnpack", "95 % interval", "governor", "Outside XnnpackBackend", "first run", "AMD EPYC",
                  "weights = scores.softmax(-1)", "model loaded", "layers.0.mlp.0", "runs per second, from the mean",
                  "encoder.xnnpack.edgex, made by edgex 0.1.0; measured on 2026-01-31 12:30:00 UTC by edgex",
                  "p90: 90 % of the runs took less",
                  "each of which took 1.04 × the untraced median", "between operators"):  # fmt: skip
        assert words in text, words


@pytest.mark.parametrize("count", [1, 3])
def test_markup_in_names_stays_text(count):
    page = render_html([make_hostile(make_report(40, seed=seed)) for seed in range(count)])
    elements = Elements(page)
    assert not [tag for tag, attributes in elements.found if attributes.get("id") == "broken"]
    assert page.count("<script") == page.count("</script>") == 2
    assert "<!--" not in page
    assert HOSTILE.split("\u2028")[0] in elements.text
    assert data_of(page)[0]["name"] == HOSTILE


def test_several_reports_stand_side_by_side():
    reports = [make_report(30), make_report(20, seed=1)]
    other = replace(reports[1], artifact=replace(reports[1].artifact, target="onnx-cpu"), warnings=())
    page = render_html([reports[0], other])
    elements = Elements(page)
    tabs = [attributes for tag, attributes in elements.found if attributes.get("role") == "tab"]
    panels = [attributes for tag, attributes in elements.found if attributes.get("role") == "tabpanel"]
    assert [tab["aria-controls"] for tab in tabs] == [panel["id"] for panel in panels] == ["panel-0", "panel-1"]
    identities = [attributes["id"] for _, attributes in elements.found if "id" in attributes]
    assert len(identities) == len(set(identities))
    assert "encoder: 2 profiles side by side" in elements.text
    assert "No warnings" in elements.text
    assert [len(data["us"]) for data in data_of(page)] == [30, 20]


def test_reports_of_one_target_are_told_apart():
    report = make_report(5)
    fp16 = replace(report, artifact=replace(report.artifact, precision="fp16"))
    text = Elements(render_html([report, fp16])).text
    assert "xnnpack fp32" in text and "xnnpack fp16" in text
    assert "1: encoder on xnnpack" in Elements(render_html([report, report])).text
    assert "before" in Elements(render_html([report, report], labels=["before", "after"])).text


def test_findings_of_a_comparison_are_shown():
    columns = (Column("operator"), Column("change", numeric=True))
    listing = Listing("operators that differ", columns, (("a<b", "+3 %"),), ("1 more",))
    findings = Findings(("", "slower: 1.42 x the time"), (listing,), ("taken at different times",))
    text = Elements(render_html([make_report(5), make_report(5, seed=1)], findings)).text
    for words in ("slower: 1.42 x the time", "operators that differ", "a<b", "1 more", "taken at different times"):
        assert words in text


def test_a_report_without_operators_says_so():
    bare = replace(make_report(0), trace=None, ceilings=None, sources=(), complete=False)
    text = Elements(render_html([bare])).text
    assert "Operators were not traced" in text and "Interrupted" in text
    assert "No operator could be traced to a line" in text


@pytest.mark.parametrize("count", [0, 5])
def test_too_few_and_too_many_reports_are_refused(count):
    with pytest.raises(UsageError, match=f"{count} reports"):
        render_html([make_report(1)] * count)
