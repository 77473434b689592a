"""The search for the fewest layers in floating point, on made-up models."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgex.export.quantization.budget.search import BudgetSearch, Layer, find_fewest

BASELINE = 0.98


def layers(count: int) -> tuple[Layer, ...]:
    return tuple(Layer(f"layer{number}", 10.0 + number) for number in range(count))


def model(needed: int) -> Callable[[Sequence[str]], tuple[float, int, float]]:
    """Loses 0.01 for each of the first `needed` layers that are quantized."""

    def attempt(kept: Sequence[str]) -> tuple[float, int, float]:
        return BASELINE - 0.01 * max(0, needed - len(kept)), 1000 + 100 * len(kept), 1e-3

    return attempt


def tried(search: BudgetSearch) -> list[int]:
    return [step.kept for step in search.steps]


def test_where_everything_may_be_quantized_nothing_is_ranked() -> None:
    def rank() -> Sequence[Layer]:
        raise AssertionError("not needed")

    search = find_fewest(model(0), rank, "evaluate", BASELINE, 0.0)
    assert tried(search) == [0]
    assert search.kept == ()
    assert search.chosen.holds


def test_steps_double_and_then_halve_back() -> None:
    search = find_fewest(model(5), lambda: layers(20), "evaluate", BASELINE, 0.001)
    assert tried(search) == [0, 1, 2, 4, 8, 6, 5]
    assert search.kept == ("layer0", "layer1", "layer2", "layer3", "layer4")


@given(count=st.integers(1, 40), needed=st.integers(0, 60))
def test_the_fewest_layers_are_found_and_one_stays_quantized(count: int, needed: int) -> None:
    search = find_fewest(model(needed), lambda: layers(count), "evaluate", BASELINE, 0.001)
    assert search.chosen.holds == (needed < count or needed == 0)
    assert max(tried(search)) <= max(0, count - 1)
    assert len(set(tried(search))) == len(tried(search)) <= 13
    if search.chosen.holds:
        assert search.chosen.kept == needed


def test_where_nothing_holds_the_best_is_told() -> None:
    search = find_fewest(model(9), lambda: layers(4), "sqnr", BASELINE, 0.001)
    assert tried(search) == [0, 1, 2, 3]
    assert not search.chosen.holds
    assert search.chosen.kept == 3
    assert search.to_manifest() == {
        "metric": "sqnr",
        "baseline": BASELINE,
        "reached": pytest.approx(BASELINE - 0.06),
        "max_drop": 0.001,
        "holds": False,
        "kept_float": ["layer0", "layer1", "layer2"],
    }


def test_a_drop_of_just_the_budget_holds() -> None:
    search = find_fewest(lambda _: (0.97, 1, 1.0), lambda: layers(2), "evaluate", 0.98, 0.01)
    assert search.chosen.holds, search.chosen.drop
