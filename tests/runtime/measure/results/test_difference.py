"""What a sweep says of a former one: worse is named, noise is not, and chance is not either."""

from __future__ import annotations

import pytest
from sweep_support import make_row

from edgex.runtime.measure.compare.reports import judge_apart
from edgex.runtime.measure.results.difference import chance, find_difference
from edgex.runtime.support.machine.host import read_host


def kinds(before, after):
    return [(change.model, change.kind) for change in find_difference(before, after).changes]


def test_equal_sweeps_have_no_difference() -> None:
    rows = [make_row(f"m{at}", seed=at) for at in range(20)]
    again = [make_row(f"m{at}", seed=100 + at) for at in range(20)]
    found = find_difference(rows, again)
    assert not found.changes and found.timed == found.compared == 20 and not found.new and not found.gone


def test_what_is_slower_is_named_with_its_interval() -> None:
    before = [make_row(f"m{at}", seed=at) for at in range(10)]
    after = [make_row(f"m{at}", "xnnpack", {3: 1.3, 4: 0.7}.get(at, 1.0), seed=50 + at) for at in range(10)]
    found = find_difference(before, after)
    assert [(change.model, change.kind) for change in found.changes] == [("m3", "slower"), ("m4", "faster")]
    slower = found.changes[0]
    assert slower.ratio == pytest.approx(1.3, rel=0.02) and slower.ratio_ci95 is not None
    assert slower.ratio_ci95[0] < 1.3 < slower.ratio_ci95[1]
    assert [change.model for change in found.failing(0.03)] == ["m3"] and found.failing(0.5) == []


def test_outcomes_operators_errors_and_sizes() -> None:
    before = [
        make_row("works"), make_row("fails", what="no kernel"), make_row("op"), make_row("size"), make_row("sqnr"),
        make_row("left"),
    ]  # fmt: skip
    after = [
        make_row("works", what="no kernel any more"),
        make_row("fails"),
        make_row("op", left_out={"aten.sort.default": 1}),
        make_row("size", model_bytes=20_000),
        make_row("sqnr", sqnr_db=60.0),
        make_row("new"),
    ]
    assert kinds(before, after) == [
        ("works", "newly failing"), ("op", "newly left out"), ("sqnr", "less exact"), ("size", "larger"),
        ("fails", "newly working"),
    ]  # fmt: skip
    found = find_difference(before, after)
    assert (found.compared, found.new, found.gone) == (5, 1, 1)
    assert [change.model for change in found.failing(0.03)] == ["works"]
    assert found.to_json()["worse"] == 4
    assert ("fails", "newly failing") in kinds(after, before)


def test_other_machines_are_not_compared() -> None:
    elsewhere = {**read_host().to_json(), "cpu": "another processor", "usable_cores": 64}
    found = find_difference([make_row("m")], [make_row("m", "xnnpack", 5.0, host=elsewhere)])
    assert found.other_machine == 1 and not found.changes and not found.timed


def test_chance_falls_with_distance_and_is_whole_within_what_runs_differ_by() -> None:
    def probability(ratio: float, half: float) -> float:
        return chance(judge_apart((1.0, (1 - half, 1 + half)), (ratio, (ratio * (1 - half), ratio * (1 + half))), []))

    assert probability(1.02, 0.01) == 1.0
    assert probability(1.06, 0.05) > probability(1.2, 0.05) > probability(1.4, 0.05)
    assert probability(1.4, 0.01) < 1e-6
    assert chance(judge_apart((1.0, None), (2.0, None), [])) == 1.0
    # A disturbed machine: more is needed.
    assert chance(judge_apart((1.0, (0.99, 1.01)), (1.08, (1.07, 1.09)), ["other-load"])) == 1.0


def test_of_many_equal_pairs_few_are_called_different() -> None:
    """5 % of single tests would be: here 400 pairs whose true ratio is 1 and whose intervals hold 95 %."""
    before = [make_row(f"m{at}", seed=at, noise=0.05) for at in range(400)]
    after = [make_row(f"m{at}", seed=9000 + at, noise=0.05) for at in range(400)]
    assert len(find_difference(before, after).changes) <= 2
