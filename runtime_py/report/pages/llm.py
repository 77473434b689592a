"""The page of `edgex profile --llm`: the figures that count, each token's time over the text, the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np

from edgex.runtime.measure.llm.report import LlmReport, LlmTest
from edgex.runtime.report.figures import format_seconds
from edgex.runtime.report.llm import list_facts, list_tests
from edgex.runtime.report.pages.axis import Tick, choose_marks
from edgex.runtime.report.pages.template import render_template

# Of the plot, in user units of its SVG.
_WIDTH, _HEIGHT = 760, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 22, 46


@dataclass(frozen=True)
class Curve:
    """One test's generated text: points of the polyline, and where its name stands."""

    name: str
    points: str
    name_x: float
    name_y: float
    anchor: str
    text: str


def render_llm(report: LlmReport) -> str:
    """The text of an `.html` file."""
    texts = [test for test in report.tests if test.kind == "tg"]
    curves, across, up = _plot(texts)
    head, *rows = list_tests(report)
    facts = list_facts(report)
    return render_template(
        "llm.html.j2",
        {},
        report=report,
        headline=_headline(report.tests),
        curves=curves,
        across=across,
        up=up,
        box={"width": _WIDTH, "height": _HEIGHT, "left": _LEFT, "bottom": _HEIGHT - _BOTTOM, "right": _WIDTH - _RIGHT},
        head=head,
        rows=rows,
        facts=[fact for fact in facts if fact[0] != "warning"],
    )


def _headline(tests: Sequence[LlmTest]) -> list[tuple[str, str]]:
    """(what, figure) of the first prompt and the first generated text."""
    shown: list[tuple[str, str]] = []
    for kind, words in (("pp", "read"), ("tg", "written")):
        test = next((test for test in tests if test.kind == kind), None)
        if test is None:
            continue
        shown.append((f"tokens/s {words} ({test.name})", f"{fmean(test.rates):,.0f}"))
        if test.first_token_seconds is not None:
            shown.append(("to the first token", format_seconds(median(test.first_token_seconds))))
        if test.bandwidth_share is not None:
            shown.append(("of the memory's bandwidth", f"{test.bandwidth_share:.0%}"))
    return shown


def _plot(tests: Sequence[LlmTest]) -> tuple[list[Curve], list[Tick], list[Tick]]:
    """Curves and the marks of both axes: tokens before to the right, seconds of a token upwards from 0."""
    if not tests:
        return [], [], []
    seconds = [np.median(np.asarray(test.raw_seconds), axis=0) for test in tests]
    slowest: float = 1.1 * max(float(each.max()) for each in seconds)
    longest = max(test.depth + test.tokens for test in tests)

    def x(tokens: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * tokens / longest

    def y(value: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * value / slowest

    curves = []
    for test, each in zip(tests, seconds, strict=True):
        points = [(x(test.depth + number), y(float(value))) for number, value in enumerate(each)]
        middle = points[len(points) // 2][0]
        anchor = "start" if middle < _LEFT + 40 else "end" if middle > _WIDTH - _RIGHT - 40 else "middle"
        p50 = format_seconds(float(np.median(test.token_seconds)))
        curves.append(
            Curve(
                test.name,
                " ".join(f"{across:.1f},{up:.1f}" for across, up in points),
                middle,
                max(_TOP - 8.0, min(up for _, up in points) - 8.0),
                anchor,
                f"{p50} a token",
            )
        )
    across = [Tick(x(mark), f"{mark:,.0f}") for mark in choose_marks(longest) if mark == int(mark)]
    up = [Tick(y(mark), format_seconds(mark, slowest, 2)) for mark in choose_marks(slowest)]
    return curves, across, up
