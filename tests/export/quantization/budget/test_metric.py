"""What a budget is measured by: the user's function with its faults, and the share of noise."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgex.errors import RunError, UsageError
from edgex.export.quantization.budget.metric import Evaluation, NoiseShare


def run(*_args: Any, **_kwargs: Any) -> tuple[np.ndarray, ...]:
    return (np.ones(4, np.float32),)


@pytest.mark.parametrize("value", [0.5, 1, np.float32(0.25), np.array(0.75)])
def test_any_number_will_do(value: Any) -> None:
    assert Evaluation(lambda _run: value, Path()).measure(run) == float(value)


@pytest.mark.parametrize(
    ("value", "words"), [("good", "gave str"), (None, "gave NoneType"), (math.nan, "gave nan"), (math.inf, "gave inf")]
)
def test_what_is_no_number_is_refused(value: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        Evaluation(lambda _run: value, Path()).measure(run)
    assert caught.value.fix


def test_what_the_users_function_raises_is_told_with_its_line() -> None:
    def evaluate(run: Any) -> float:
        raise ValueError("no labels")

    with pytest.raises(UsageError) as caught:
        Evaluation(evaluate, Path(__file__).parent).measure(run)
    text = str(caught.value.where)
    assert "test_metric.py" in text
    assert "no labels" in f"{caught.value.what} {caught.value.why}"


def test_an_error_of_the_session_keeps_its_kind() -> None:
    def evaluate(run: Any) -> float:
        raise RunError("input 'x' has shape (2, 3)")

    with pytest.raises(RunError):
        Evaluation(evaluate, Path()).measure(run)


def test_the_share_of_noise_is_that_of_the_worst_output() -> None:
    reference = (np.ones(100, np.float32), np.full(100, 2.0, np.float32), np.arange(3))
    metric = NoiseShare([{"x": np.zeros(1)}], [reference])
    noisy = (reference[0] * 1.1, reference[1], np.array([2, 1, 0]))
    assert metric.measure(lambda **_inputs: noisy) == pytest.approx(0.99, abs=1e-6), "an error of 10 % is 20 dB"
    assert metric.measure(lambda **_inputs: reference) == 1.0
