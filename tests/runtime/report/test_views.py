"""The views of a report: each shows every operator once, so that its numbers add up to those of the whole."""

from __future__ import annotations

from dataclasses import replace

import pytest
from report_support import DELEGATE, SOURCE, make_report

from edgex.runtime.engines.trace.operators import ArenaSpan
from edgex.runtime.report import views


@pytest.fixture(scope="module")
def report():
    return make_report(1000)


def with_ops(report, *changes):
    """The report's first rows, changed one by one."""
    return replace(report, ops=tuple(replace(row, **change) for row, change in zip(report.ops, changes, strict=False)))


def all_rows(groups):
    return sorted(at for group in groups for at in group.rows)


@pytest.mark.parametrize("view", [views.by_type, views.by_delegate, views.by_category])
def test_groups_hold_every_row_once_and_add_up(report, view):
    groups = view(report)
    assert all_rows(groups) == list(range(1000))
    assert sum(group.total_seconds for group in groups) == pytest.approx(views.total_seconds(report))
    assert sum(group.share for group in groups) == pytest.approx(1.0)


def test_rows_come_slowest_first_and_those_without_a_time_last(report):
    changed = with_ops(report, {"median_seconds": 2.0}, {"median_seconds": None}, {"median_seconds": 5.0})
    assert views.by_time(changed) == (2, 0, 1)
    (compute,) = (group for group in views.by_category(with_ops(changed, {}, {}, {})) if group.name == "compute")
    assert (compute.total_seconds, compute.untimed) == (5.0, 1)  # the layer norm before is a fallback


def test_the_tree_holds_every_row_once_and_totals_are_own_time_and_that_of_submodules(report):
    tree = views.by_module(report)
    nodes = [node for _, node in views.walk_modules(tree.root)]
    assert len({node.path for node in nodes}) == len(nodes)
    assert all_rows([*nodes, tree.unmapped]) == list(range(1000))
    assert tree.root.total_seconds + tree.unmapped.total_seconds == pytest.approx(views.total_seconds(report))
    for node in nodes:
        assert node.total_seconds == pytest.approx(
            node.self_seconds + sum(child.total_seconds for child in node.children)
        )
        assert all(report.ops[at].module_path == node.path for at in node.rows)
    assert {"layers", "layers.0", "layers.0.attention.q", "head"} <= {node.path for node in nodes}


def test_submodules_are_walked_heaviest_first_and_kept_in_order_of_execution(report):
    tree = views.by_module(report)
    (layer,) = (node for _, node in views.walk_modules(tree.root) if node.path == "layers.3")
    assert [child.name for child in layer.children] == ["norm1", "attention", "norm2", "mlp"]
    walked = [node.name for depth, node in views.walk_modules(layer) if depth == 1]
    assert walked[0] == "mlp"


def test_only_what_was_traced_counts_as_placed(report):
    changed = with_ops(report, *({"map_confidence": confidence} for confidence in ("none", "delegate", "aligned")))
    assert views.by_module(changed).unmapped.rows == (0, 1)
    assert views.by_source(changed).unmapped.rows == (0, 1)


def test_the_source_view_shows_the_file_and_adds_up(report):
    found = views.by_source(report)
    (file,) = found.files
    assert [line.text for line in file.lines] == SOURCE.splitlines()
    groups = [line.group for line in file.lines if line.group is not None]
    assert all_rows([*groups, found.unmapped]) == list(range(1000))
    assert file.total_seconds == pytest.approx(sum(group.total_seconds for group in groups))
    assert file.total_seconds + found.unmapped.total_seconds == pytest.approx(views.total_seconds(report))
    by_text = {line.text.strip(): line.group for line in file.lines}
    assert by_text["weights = scores.softmax(-1)"].total_seconds > 0
    assert by_text["import torch"] is None


def test_a_line_without_its_text_is_still_counted(report):
    (file,) = views.by_source(replace(report, sources=())).files
    assert file.total_seconds > 0
    assert all(line.text is None and line.group is not None for line in file.lines)


def test_fallbacks_are_compute_outside_the_delegate_by_operator_and_line(report):
    found = views.critical_fallbacks(report)
    assert {(entry.operator, entry.source) for entry in found} == {
        ("aten.native_layer_norm.default", "encoder.py:30"),
        ("aten.native_layer_norm.default", "encoder.py:31"),
        ("aten.cumsum.default", "encoder.py:43"),
    }
    assert [entry.group.total_seconds for entry in found] == sorted(
        (e.group.total_seconds for e in found), reverse=True
    )
    rows = all_rows(entry.group for entry in found)
    assert rows == list(views.fallback_rows(report))
    assert all(report.ops[at].delegate != DELEGATE and report.ops[at].category == "compute" for at in rows)


def test_fallbacks_have_the_reasons_of_the_plan(report):
    reasons = {(entry.operator, entry.source): entry.reason for entry in views.critical_fallbacks(report)}
    assert reasons == {
        ("aten.native_layer_norm.default", "encoder.py:30"): "no layer norm in this delegate",
        ("aten.native_layer_norm.default", "encoder.py:31"): "no layer norm in this delegate",  # all for one reason
        ("aten.cumsum.default", "encoder.py:43"): "a running <sum> is not taken",
    }
    older = views.critical_fallbacks(replace(report, delegation=None))
    assert older and all(entry.reason is None for entry in older)


def test_an_engine_without_delegates_has_no_fallbacks(report):
    bare = tuple(replace(row, delegate=None) for row in report.ops)
    assert views.fallback_rows(replace(report, ops=bare, executed_on="torch: eager CPU")) == ()
    nothing_taken = replace(report, ops=bare, executed_on="executorch: portable")
    compute = [at for at, row in enumerate(bare) if row.category == "compute"]
    assert list(views.fallback_rows(nothing_taken)) == compute


def test_the_first_provider_that_ran_anything_is_the_delegate(report):
    names = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    rows = tuple(replace(row, delegate=names[at % 2], category="compute") for at, row in enumerate(report.ops[:4]))
    mixed = replace(report, ops=rows, executed_on=f"onnxruntime: {', '.join(names)}")
    assert views.fallback_rows(mixed) == (1, 3)
    unused = replace(mixed, executed_on=f"onnxruntime: TensorrtExecutionProvider, {names[1]}", ops=(rows[1],))
    assert views.fallback_rows(unused) == ()


def test_weights_add_up_by_module(report):
    groups = views.weights_by_module(report)
    assert sum(group.bytes for group in groups) == sum(weight.bytes for weight in report.memory.weights)
    assert sum(group.share for group in groups) == pytest.approx(1.0)
    assert [group.bytes for group in groups] == sorted((group.bytes for group in groups), reverse=True)


def test_the_arena_holds_what_lives(report):
    spans = (ArenaSpan("a", 0, 10, 0, 1), ArenaSpan("b", 10, 5, 1, 2), ArenaSpan("c", 0, 7, 3, 3))
    ops = report.ops[:5]
    planned = replace(report, ops=ops, memory=replace(report.memory, arena=spans))
    assert views.live_bytes(planned) == (10, 15, 5, 7, 0)
    assert views.live_bytes(replace(report, memory=replace(report.memory, arena=()))) == ()


def test_a_report_without_operators_has_empty_views():
    empty = make_report(0)
    assert views.by_type(empty) == views.critical_fallbacks(empty) == ()
    assert views.by_module(empty).root.total_seconds == 0 and views.by_source(empty).files == ()
