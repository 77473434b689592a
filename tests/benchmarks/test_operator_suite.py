"""A few of PyTorch's own operator samples on every target; `make ops` runs all."""

from __future__ import annotations

import pytest

from benchmarks.operators.judge import TARGETS, Outcome, judge, read_known_issues
from benchmarks.operators.opinfo import operator_names, samples_of
from benchmarks.operators.page import render, summarize

QUICK = ("nn.functional.gelu", "fmax", "nn.functional.adaptive_max_pool2d", "diagonal", "cumprod", "logaddexp")


def test_the_adapter_finds_pytorchs_operators():
    names = operator_names()
    assert len(names) > 250
    assert set(QUICK) <= set(names)
    assert not [name for name in names if "dropout" in name]


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("target", TARGETS)
def test_an_operator_is_right_refused_or_known(name, target):
    (sample,) = samples_of(name, 1)
    outcome = judge(sample, target, read_known_issues())
    assert outcome.kind in ("right", "refused", "known"), outcome.reason


def test_known_issues_name_operators_and_give_reasons():
    names = set(operator_names())
    for key, reason in read_known_issues().items():
        target, _, operator = key.partition("/")
        assert target in (*TARGETS, "*") and operator in names, key
        assert reason


def test_the_page_counts_and_names_what_is_not_right():
    reason = "xnnpack cannot run aten.put.default\nopinfo.py:48\naten.put.default at opinfo.py:48: no backend takes it"
    outcomes = [
        Outcome("put#0", "xnnpack", "refused", 5, reason),
        Outcome("put#1", "xnnpack", "refused", 5, reason),
        Outcome("put#0", "onednn", "refused", 5, reason.replace("xnnpack", "onednn")),
        Outcome("abs#0", "xnnpack", "right"),
    ]
    page = render(summarize(outcomes, 2, {"date": "2026-11-25", "commit": "0000000"}))
    assert "| `xnnpack` | 1 | 2 | 0 | 0 |" in page
    assert "| put | `xnnpack`, `onednn` | refused | aten.put.default: no backend takes it |" in page
    assert page.count("| put |") == 1
