"""A few of PyTorch's own operator samples on every target; `make ops` runs all."""

from __future__ import annotations

import pytest

from benchmarks.operators.judge import TARGETS, judge, read_known_issues
from benchmarks.operators.opinfo import operator_names, samples_of

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
