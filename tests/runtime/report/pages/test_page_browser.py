"""The HTML report in headless Chromium: it draws, sorts, filters, zooms, is used by keyboard, and asks for nothing."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from browser_support import CHROMIUM, run_browser
from report_support import make_hostile, make_report

from edgex.runtime.report import views
from edgex.runtime.report.pages.profile import render_html

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (Debian: apt-get install chromium)")


@pytest.fixture(scope="module")
def browser():
    with run_browser() as running:
        yield running


@pytest.fixture(scope="module")
def report():
    return make_report(300)


@pytest.fixture(scope="module")
def files(report, tmp_path_factory):
    """Pages by name, written once."""
    folder = tmp_path_factory.mktemp("pages")
    faster = make_report(300, seed=1, speed=2.0)
    faster = replace(faster, artifact=replace(faster.artifact, target="onnx-cpu"))
    pages = {"one": [report], "several": [report, faster], "hostile": [make_hostile(make_report(60))]}
    for name, reports in pages.items():
        (folder / f"{name}.html").write_text(render_html(reports), encoding="utf-8")
    bare = replace(make_report(0), trace=None, ceilings=None, sources=())
    (folder / "bare.html").write_text(render_html([bare]), encoding="utf-8")
    return folder


@pytest.fixture
def open_page(browser, files):
    """Open a page from its file; at the end nothing may have been complained of or asked for."""
    contexts, complaints = [], []

    def open_one(name="one", width=1280, dark=False, scripts=True):
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            java_script_enabled=scripts,
        )
        contexts.append(context)
        page = context.new_page()
        address = (files / f"{name}.html").as_uri()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: None if request.url == address else complaints.append(request.url))
        page.goto(address)
        if scripts:
            page.wait_for_selector("html[data-ready=all]")
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert complaints == []


def cells(page, column, table="Operators of one run"):
    """The texts of one column of a table."""
    return page.locator(f"table:has(caption:text-is('{table}')) tbody tr td:nth-child({column})").all_inner_texts()


def seconds(text):
    """`6.85 ms` as a number."""
    number, unit = text.split()
    return float(number.replace(",", "")) * {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}[unit]


def head(page, title):
    table = page.get_by_role("region", name="Operators of one run")
    return table.get_by_role("columnheader", name=title, exact=True)


def sort_by(page, title):
    head(page, title).get_by_role("button").click()


@pytest.mark.parametrize("name", ["one", "several", "hostile", "bare"])
@pytest.mark.parametrize("width", [1280, 400])
def test_every_page_draws_within_its_width(open_page, name, width):
    page = open_page(name, width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    escaped = page.evaluate(
        """() => [...document.querySelectorAll("svg")].filter(svg => svg.getClientRects().length).flatMap(svg => {
            const frame = svg.getBoundingClientRect();
            return [...svg.querySelectorAll("rect, circle, text")].filter(part => {
                const box = part.getBoundingClientRect();
                return box.left < frame.left - 12 || box.right > frame.right + 12 || box.bottom > frame.bottom + 12;
            }).map(part => part.outerHTML.slice(0, 120));
        })"""
    )
    assert escaped == []
    heads = page.locator(".bars th:visible").evaluate_all("heads => heads.map((head) => head.clientWidth)")
    assert min(heads, default=99) >= 60, "names of stages and modules stand one letter a line"
    charts = page.locator("svg:visible").count()
    assert charts >= (1 if name == "bare" else 3)


def test_the_summary_is_that_of_the_report(open_page, report):
    page = open_page()
    median = page.locator(".headline").inner_text()
    assert f"{report.steady.median * 1e3:.1f}" in median and "ms" in median
    drawn = page.locator(".latency text.strong").text_content()
    assert drawn == f"median {median.replace('median', '').strip()}".replace("\n", " ")
    assert page.locator(".warnings").inner_text().startswith("governor")
    assert page.locator(".stack i").count() == len(views.by_category(report))


def test_headers_sort_and_say_so(open_page, report):
    page = open_page()
    page.get_by_role("button", name="One by one").click()
    times = [seconds(text) for text in cells(page, 5)]
    assert times == sorted(times, reverse=True) and len(times) == 30
    assert times[0] == pytest.approx(max(row.median_seconds for row in report.ops), rel=1e-2)
    time = head(page, "Time")
    assert time.get_attribute("aria-sort") == "descending"
    sort_by(page, "Time")
    assert time.get_attribute("aria-sort") == "ascending"
    times = [seconds(text) for text in cells(page, 5)]
    assert times == sorted(times)
    sort_by(page, "Module")
    assert time.get_attribute("aria-sort") is None
    modules = [text for text in cells(page, 2) if text.startswith("layers")]
    numbers = [[int(n) for n in re.findall(r"\d+", text)][:1] for text in modules]
    assert numbers == sorted(numbers) and modules  # layers.2 before layers.10


def test_what_has_no_value_stands_last_either_way(open_page):
    page = open_page()
    page.get_by_role("button", name="One by one").click()
    page.get_by_role("button", name="Show all 300").click()
    for _ in range(2):
        sort_by(page, "GFLOP/s")
        rates = cells(page, 7)
        assert len(rates) == 300 and rates[-1] == "" and rates[0] != ""


def test_filters_narrow_the_table_and_the_sum(open_page, report):
    page = open_page()
    page.get_by_role("searchbox").fill("softmax layers.3.")
    assert set(cells(page, 1)) == {"Softmax (NC, F32)"}
    assert page.locator(".found").inner_text().startswith("1 of 300 operators")
    page.get_by_role("searchbox").fill("")
    page.get_by_label("Kind of work").select_option("fallback")
    outside = views.fallback_rows(report)
    assert page.locator(".found").inner_text().startswith(f"{len(outside)} of 300")
    assert set(cells(page, 4)) == {"outside"}
    page.get_by_label("Who ran it").select_option("XnnpackBackend")
    assert page.locator(".found").inner_text().startswith("0 of 300")


def test_types_add_up_to_the_operators(open_page, report):
    page = open_page()
    page.get_by_role("button", name="By type").click()
    counts = [int(text.replace(",", "")) for text in cells(page, 3, "Types of operators")]
    assert sum(counts) == 300 and len(counts) == len(views.by_type(report))


def test_a_row_opens_and_closes_by_keyboard(open_page):
    page = open_page()
    page.get_by_role("button", name="One by one").click()
    opener = page.locator(".opens").first
    opener.focus()
    page.keyboard.press("Enter")
    assert opener.get_attribute("aria-expanded") == "true"
    assert "aligning the delegate's graph" in page.locator("tr.detail").inner_text()
    page.keyboard.press("Enter")
    assert page.locator("tr.detail").count() == 0


def test_a_source_line_leads_to_its_operators(open_page, report):
    page = open_page()
    page.locator(".source tr.hot", has_text="softmax").locator("button").click()
    line = next(line for line in views.by_source(report).files[0].lines if "softmax" in line.text)
    assert page.get_by_role("searchbox").input_value() == line.group.name
    assert page.locator(".found").inner_text().startswith(f"{len(line.group.rows)} of 300")


def test_modules_zoom_in_and_out_by_keyboard(open_page, report):
    page = open_page()
    table = "What the chosen module holds"
    page.locator("[data-part=modules] svg [tabindex='0']").focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    tree = views.by_module(report)
    heaviest = max(tree.root.children[0].children, key=lambda node: node.total_seconds)
    assert page.locator(".crumbs .link").all_inner_texts() == ["encoder", "layers", heaviest.name]
    assert {child.name for child in heaviest.children} <= set(cells(page, 1, table))
    total = sum(seconds(text) for text in cells(page, 3, table))
    assert total == pytest.approx(heaviest.total_seconds, rel=0.02)
    assert page.evaluate("document.activeElement.closest('[data-part=modules]') !== null")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    assert page.locator(".crumbs .link").all_inner_texts() == ["encoder"]
    page.keyboard.press("ArrowDown")
    assert page.locator("[data-part=modules] .readout").inner_text().startswith("layers")


@pytest.mark.parametrize("part", ["roofline", "arena"])
def test_charts_are_one_stop_of_the_tab_key_and_speak(open_page, part):
    page = open_page()
    assert page.locator(f"[data-part={part}] svg [tabindex='0']").count() == 1
    page.locator(f"[data-part={part}] svg [tabindex='0']").focus()
    page.keyboard.press("End")
    end = page.locator(f"[data-part={part}] .readout").inner_text()
    page.keyboard.press("Home")
    assert page.locator(f"[data-part={part}] .readout").inner_text() != end
    assert page.locator(f"[data-part={part}] svg [aria-label]").count() > 5


def test_everything_is_reached_by_the_tab_key(open_page):
    page = open_page("one")
    reached = []
    for _ in range(120):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                """() => { const e = document.activeElement; const style = getComputedStyle(e);
                return [e.tagName, (e.textContent || "").trim().slice(0, 20),
                        style.outlineStyle !== "none" || e.closest("svg") !== null]; }"""
            )
        )
    names = [text for _, text, _ in reached]
    for expected in ("Skip to the summary", "Operators", "Dark", "Time", "One by one", "Show all", "encoder"):
        assert any(text.startswith(expected) for text in names), expected
    unseen = [(tag, text) for tag, text, visible in reached if not visible and tag != "BODY"]
    assert unseen == []


@pytest.mark.parametrize("dark", [False, True])
def test_both_colour_schemes_are_readable_and_the_button_changes_them(open_page, dark):
    page = open_page(dark=dark)
    lightness = [contrast(page, selector)[1] for selector in ("body",)]
    assert (lightness[0] < 0.2) == dark
    for selector in (".subject", ".fine", ".warnings b", ".link", ".found", "code", ".k-x, .legend span"):
        assert contrast(page, selector)[0] >= 4.5, selector
    page.get_by_role("button", name=f"Switch to {'light' if dark else 'dark'} colours").click()
    assert (contrast(page, "body")[1] < 0.2) != dark
    page.reload()
    page.wait_for_selector("html[data-ready=all]")
    assert (contrast(page, "body")[1] < 0.2) != dark


def contrast(page, selector):
    """WCAG contrast of a text with what lies behind it, and the luminance of the latter."""
    return page.evaluate(
        """(selector) => {
            const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
            const rgb = (colour) => {
                canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
                return [...canvas.getImageData(0, 0, 1, 1).data]; };
            const luminance = ([r, g, b]) => [r, g, b].map(v => v / 255)
                .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
                .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
            const element = document.querySelector(selector);
            const ground = (part) => rgb(getComputedStyle(part).backgroundColor);
            let behind = element;
            while (ground(behind)[3] === 0) behind = behind.parentElement;
            const back = ground(behind);
            const [a, b] = [luminance(rgb(getComputedStyle(element).color)), luminance(back)];
            return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), b];
        }""",
        selector,
    )


def test_tabs_show_one_profile_each(open_page):
    page = open_page("several")
    tabs = page.get_by_role("tab")
    assert tabs.all_inner_texts() == ["xnnpack", "onnx-cpu"]
    tabs.first.focus()
    page.keyboard.press("ArrowRight")
    assert tabs.nth(1).get_attribute("aria-selected") == "true"
    assert page.locator("#panel-0").is_hidden() and page.locator("#panel-1").is_visible()
    page.wait_for_selector("#panel-1 [data-part=modules] svg")
    assert page.locator("#panel-1 .found").inner_text().startswith("300 operators")
    assert page.locator(".bar nav a", has_text="Roofline").get_attribute("href") == "#roofline-1"
    assert page.locator("[data-chart=strips] svg").is_visible()


def test_markup_in_names_does_nothing(open_page):
    page = open_page("hostile")
    page.locator(".opens").first.click()
    assert page.locator("#broken").count() == 0
    assert page.evaluate("document.querySelectorAll('script').length") == 2
    assert page.locator("h1").inner_text().startswith("</script><b id=broken>")
    page.get_by_role("searchbox").fill("<b id=broken> softmax")
    assert page.locator(".found").inner_text().startswith("0 of 60")
    page.get_by_role("searchbox").fill("</script>")
    assert "of 60 operators" in page.locator(".found").inner_text()


def test_without_scripts_the_figures_are_there(open_page):
    page = open_page(scripts=False)
    assert page.locator(".note").is_visible() and page.locator(".headline").is_visible()
    assert "softmax" in page.locator(".source").inner_text()


def test_paper_shows_the_charts_and_none_of_the_controls(open_page):
    page = open_page(dark=True)
    page.emulate_media(media="print")
    assert contrast(page, "body")[1] > 0.9
    assert page.locator(".controls").is_hidden() and page.locator(".bar").is_hidden()
    assert page.locator("[data-part=roofline] svg").is_visible()
    assert len(page.pdf()) > 20_000


def test_what_the_clock_could_not_see_is_no_zero(browser, tmp_path, report):
    rows = tuple(replace(row, median_seconds=None, share=None) for row in report.ops[:5]) + report.ops[5:12]
    (tmp_path / "short.html").write_text(render_html([replace(report, ops=rows)]), encoding="utf-8")
    page = browser.new_page()
    page.goto((tmp_path / "short.html").as_uri())
    page.wait_for_selector("html[data-ready=all]")
    assert cells(page, 5)[-5:] == ["< 1 µs"] * 5
    page.get_by_role("button", name="By type").click()
    assert cells(page, 4, "Types of operators")[-1] == "too short"
    page.close()


def test_alike_rows_are_one_group_and_bars_stand_below_each_other(browser, tmp_path, report):
    steps = tuple(
        replace(report.ops[0], name=f"step {at}", module_path="gru", source="net.py:4", median_seconds=1e-6 * (at + 1))
        for at in range(19)
    )
    (tmp_path / "alike.html").write_text(render_html([replace(report, ops=steps + report.ops[1:12])]), encoding="utf-8")
    page = browser.new_page()
    page.goto((tmp_path / "alike.html").as_uri())
    page.wait_for_selector("html[data-ready=all]")
    (group,) = [text for text in cells(page, 1) if "alike" in text]
    assert group.startswith(f"{report.ops[0].op_type} · 19 alike")
    page.get_by_text("19 alike").click()
    assert "step 18" in page.locator("tr.detail").inner_text()
    page.get_by_role("button", name="One by one").click()
    assert len(cells(page, 1)) == 30
    starts = page.evaluate(
        "[...document.querySelectorAll('[data-part=operators] .meter')].map(m => m.getBoundingClientRect().left)"
    )
    assert len(starts) == 30 and max(starts) - min(starts) < 0.5
    page.close()
