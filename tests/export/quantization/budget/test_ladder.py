"""The search for the fewest layers in floating point, on made-up models."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgex.export.quantization.budget.search import Ladder, Layer, climb

BASELINE = 0.98


def layers(count: int) -> tuple[Layer, ...]:
    return tuple(Layer(f"layer{number}", 10.0 + number) for number in range(count))


def model(needed: int) -> Callable[[Sequence[str]], tuple[float, int, float]]:
    """Loses 0.01 for each of the first `needed` layers that are quantized."""

    def attempt(kept: Sequence[str]) -> tuple[float, int, float]:
        return BASELINE - 0.01 * max(0, needed - len(kept)), 1000 + 100 * len(kept), 1e-3

    return attempt


def tried(ladder: Ladder) -> list[int]:
    return [rung.kept for rung in ladder.rungs]


def test_where_everything_may_be_quantized_nothing_is_ranked() -> None:
    def rank() -> Sequence[Layer]:
        raise AssertionError("not needed")

    ladder = climb(model(0), rank, "evaluate", BASELINE, 0.0)
    assert tried(ladder) == [0]
    assert ladder.kept == ()
    assert ladder.chosen.holds


def test_rungs_double_and_then_halve_back() -> None:
    ladder = climb(model(5), lambda: layers(20), "evaluate", BASELINE, 0.001)
    assert tried(ladder) == [0, 1, 2, 4, 8, 6, 5]
    assert ladder.kept == ("layer0", "layer1", "layer2", "layer3", "layer4")


@given(count=st.integers(1, 40), needed=st.integers(0, 60))
def test_the_fewest_layers_are_found_and_one_stays_quantized(count: int, needed: int) -> None:
    ladder = climb(model(needed), lambda: layers(count), "evaluate", BASELINE, 0.001)
    assert ladder.chosen.holds == (needed < count or needed == 0)
    assert max(tried(ladder)) <= max(0, count - 1)
    assert len(set(tried(ladder))) == len(tried(ladder)) <= 13
    if ladder.chosen.holds:
        assert ladder.chosen.kept == needed


def test_where_nothing_holds_the_best_is_told() -> None:
    ladder = climb(model(9), lambda: layers(4), "sqnr", BASELINE, 0.001)
    assert tried(ladder) == [0, 1, 2, 3]
    assert not ladder.chosen.holds
    assert ladder.chosen.kept == 3
    assert ladder.to_manifest() == {
        "metric": "sqnr",
        "baseline": BASELINE,
        "reached": pytest.approx(BASELINE - 0.06),
        "max_drop": 0.001,
        "holds": False,
        "kept_float": ["layer0", "layer1", "layer2"],
    }


def test_a_drop_of_just_the_budget_holds() -> None:
    ladder = climb(lambda _: (0.97, 1, 1.0), lambda: layers(2), "evaluate", 0.98, 0.01)
    assert ladder.chosen.holds, ladder.chosen.drop
