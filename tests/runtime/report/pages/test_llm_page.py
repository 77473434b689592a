"""The page of `edgex profile --llm`: its figures, a curve for each generated text, and hostile names as text."""

from __future__ import annotations

import re

import pytest
from browser_support import CHROMIUM, run_browser

from edgex.runtime.measure.llm.report import LlmReport, LlmTest
from edgex.runtime.report.pages.llm import render_llm

APART = dict.fromkeys(("greedy_seconds", "drawn_seconds", "encode_seconds", "decode_seconds", "loop_seconds"), 2e-6)


def make_report(*tests: LlmTest) -> LlmReport:
    return LlmReport(
        "<script>chat.edgex", "xnnpack", "executorch: XnnpackBackend", 2, {"cpu": "a & b"}, 0.25, tests, 86_900, 16_400,
        2048, {"before_load_bytes": 90_000_000, "after_load_bytes": 95_000_000, "peak_bytes": 96_000_000}, 14e9, APART,
        [{"code": "other-load", "text": "<b>busy</b>"}],
    )  # fmt: skip


def written(tokens: int, depth: int = 0, seconds: float = 0.01) -> LlmTest:
    # The median of three runs; the last is one that was disturbed.
    runs = [[factor * seconds] * tokens for factor in (1, 1, 9)]
    return LlmTest("tg", tokens, depth, runs, read_bytes=70_000_000, bandwidth_share=0.5)


PROMPT = LlmTest("pp", 512, 0, [[0.5], [0.5], [0.5]], [0.501, 0.502, 0.503])


def curves(page: str) -> list[list[tuple[float, float]]]:
    return [
        [(float(x), float(y)) for x, y in (point.split(",") for point in points.split())]
        for points in re.findall(r'<polyline points="([^"]+)"', page)
    ]


def test_figures_and_curves() -> None:
    page = render_llm(make_report(PROMPT, written(128), written(64, depth=1024, seconds=0.02)))
    for figure in ("1,024", "502 ms", "50%", "tg64@d1024", "14.0 GB/s", "0.25 s"):
        assert figure in page, figure
    first, deep = curves(page)
    assert len(first) == 128 and len(deep) == 64
    assert first[-1][0] < deep[0][0] < deep[-1][0] <= 760, "to the right are more tokens before"
    heights = [274 - points[0][1] for points in (first, deep)]
    assert heights[1] == pytest.approx(2 * heights[0], rel=0.01), "twice the time is twice as high, without outliers"


def test_names_are_text_and_nothing_is_asked_for() -> None:
    page = render_llm(make_report(PROMPT, written(8)))
    assert (
        "<script" not in page and "<b>busy" not in page and "&lt;script&gt;chat.edgex" in page and "a &amp; b" in page
    )
    assert not re.search(r'(?:src|href)="(?!data:)', page)


def test_a_single_token_and_none_at_all() -> None:
    page = render_llm(make_report(written(1)))
    assert not curves(page) and page.count("<circle") == 1
    assert "<svg" not in render_llm(make_report(PROMPT))


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (Debian: apt-get install chromium)")
@pytest.mark.parametrize("width", [1280, 390])
def test_in_a_browser(width, tmp_path) -> None:
    """It is drawn, no wider than the window, and no name of a curve lies outside of the plot."""
    path = tmp_path / "llm.html"
    path.write_text(render_llm(make_report(PROMPT, written(128), written(128, depth=1024))), encoding="utf-8")
    complaints: list[str] = []
    with run_browser() as browser:
        page = browser.new_page(viewport={"width": width, "height": 800})
        page.on("console", lambda message: complaints.append(message.text))
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        plot = page.locator("svg.plot").bounding_box()
        names = page.locator(".plot .name").all()
        assert len(names) == 2
        for name in names:
            box = name.bounding_box()
            assert plot["x"] <= box["x"] and box["x"] + box["width"] <= plot["x"] + plot["width"]
            assert plot["y"] <= box["y"] and box["y"] + box["height"] <= plot["y"] + plot["height"]
    assert not complaints
