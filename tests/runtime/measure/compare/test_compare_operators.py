"""Operators of two profiles are matched by what they are, never by their place alone."""

from __future__ import annotations

from compare_support import make_row

from edgex.runtime.measure.compare.operators import compare_operators


def deltas(baseline, candidate):
    return {(d.match, d.module_path, d.category): d for d in compare_operators(baseline, candidate)}


def test_the_same_operators_of_the_same_module_are_matched_in_any_order():
    found = compare_operators(
        [make_row("a", "conv", "relu", median_seconds=10.0), make_row("b", "linear", median_seconds=3.0)],
        [make_row("b", "linear", median_seconds=4.0), make_row("a", "relu", "conv", median_seconds=2.0)],
    )
    assert [(d.match, d.module_path, d.baseline_seconds, d.candidate_seconds) for d in found] == [
        ("operators", "a", 10.0, 2.0),  # the largest change first
        ("operators", "b", 3.0, 4.0),
    ]
    assert [d.delta_seconds for d in found] == [-8.0, 1.0]


def test_rows_of_one_key_are_added():
    (found,) = compare_operators(
        [make_row("a", "add", median_seconds=1.0)] * 2, [make_row("a", "add", median_seconds=5.0)]
    )
    assert (found.baseline_seconds, found.candidate_seconds, len(found.baseline_rows)) == (2.0, 5.0, 2)


def test_fused_here_and_apart_there_is_matched_by_module():
    (found,) = compare_operators(
        [make_row("a", "conv", "relu", median_seconds=10.0)],
        [make_row("a", "conv", median_seconds=7.0), make_row("a", "relu", median_seconds=1.0)],
    )
    assert (found.match, found.candidate_seconds, found.delta_seconds) == ("module", 8.0, -2.0)
    assert found.operators == ("conv", "relu")


def test_layout_and_casts_are_matched_by_category_and_nothing_else_is():
    found = deltas(
        [make_row(None, median_seconds=5.0, category="layout"), make_row(None, "mystery", median_seconds=2.0)],
        [make_row(None, median_seconds=1.0, category="layout"), make_row(None, "other", median_seconds=2.5)],
    )
    assert found[("category", None, "layout")].delta_seconds == -4.0
    lonely = [d for d in found.values() if d.match == "none"]
    assert len(lonely) == 1  # both have one key here; the list holds each side's own
    both = compare_operators(
        [make_row(None, "mystery", median_seconds=2.0)], [make_row(None, "other", median_seconds=2.5)]
    )
    assert [(d.baseline_seconds, d.candidate_seconds) for d in both] == [(None, 2.5), (2.0, None)]


def test_unknown_times_stay_unknown():
    (found,) = compare_operators(
        [make_row("a", "add", median_seconds=None)], [make_row("a", "add", median_seconds=1.0)]
    )
    assert (found.baseline_seconds, found.candidate_seconds, found.delta_seconds) == (None, 1.0, 1.0)
