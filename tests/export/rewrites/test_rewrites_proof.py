"""The proof of rewrites: one that changes the numbers is dropped and named, the others stay."""

import operator

import pytest
import torch
from rewriting import Calls, run_program
from torch import nn

from edgex.export import rewrites
from edgex.export.capture.program import capture
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import ProgramEditor
from edgex.export.rewrites.folding.literals import (
    fold_literals,
)
from edgex.export.rewrites.proof import rewrite_and_prove

aten = torch.ops.aten


def random_like(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def double_every_product(program):
    """A rewrite with a defect."""
    editor = ProgramEditor(program)
    for node in editor.graph.nodes:
        if node.target is aten.mul.Tensor:
            node.target = aten.div.Tensor
    return editor.finish(), Rewrite("double_every_product", 1, "wrong", ())


def test_the_last_of_two_rewrites_is_blamed(monkeypatch, tmp_path):
    monkeypatch.setattr(
        rewrites,
        "_passes",
        lambda: (("fold_literals", False, fold_literals), ("double_every_product", False, double_every_product)),
    )
    captured = capture(
        Calls(lambda x: x * torch.arange(1, 5).float().flip(0)).eval(), (random_like(4),), source_root=tmp_path
    )
    proved = rewrite_and_prove(captured.program, captured.eager, ())
    assert [rewrite.name for rewrite in proved.applied] == ["fold_literals"]
    assert len(proved.dropped) == 1 and "double_every_product" in proved.dropped[0]


@pytest.mark.parametrize("name", ["wrong alone", "wrong beside others"])
def test_a_rewrite_that_changes_numbers_is_dropped_and_named(name, monkeypatch, tmp_path):
    passes = [("double_every_product", False, double_every_product)]
    if name == "wrong beside others":
        passes.insert(0, ("fold_literals", False, fold_literals))
    monkeypatch.setattr(rewrites, "_passes", lambda: tuple(passes))
    model = Calls(lambda x: x * 3.0 + torch.arange(4).float().flip(0))
    captured = capture(model.eval(), (random_like(4),), source_root=tmp_path)
    proved = rewrite_and_prove(captured.program, captured.eager, ())
    (sentence,) = proved.dropped
    assert "double_every_product" in sentence
    assert "output_0" in sentence
    assert [rewrite.name for rewrite in proved.applied] == [entry[0] for entry in passes[:-1]]
    torch.testing.assert_close(run_program(proved.program, random_like(4))[0], captured.eager.example_outputs[0])


@pytest.mark.parametrize(("near", "kept"), [(2, True), (40, False)])
def test_a_rewrite_may_change_the_classes_that_rounding_decides(near, kept, monkeypatch, tmp_path):
    def round_otherwise(program):
        editor = ProgramEditor(program)
        for node in editor.graph.nodes:
            if node.target is aten.mul.Tensor:
                node.args = (node.args[0], 3.000001)
        return editor.finish(), Rewrite("round_otherwise", 1, "", ())

    monkeypatch.setattr(rewrites, "_passes", lambda: (("round_otherwise", False, round_otherwise),))
    x = torch.linspace(-2, 0.9, 5000)
    x[:near] = 1.0
    scores = Calls(lambda x: torch.stack([torch.full_like(x, 3.0), x * 3.0], -1).argmax(-1) + 1)
    captured = capture(scores.eval(), (x,), source_root=tmp_path)
    proved = rewrite_and_prove(captured.program, captured.eager, ())
    assert [rewrite.name for rewrite in proved.applied] == (["round_otherwise"] if kept else [])
    assert len(proved.dropped) == (0 if kept else 1)


@pytest.mark.parametrize(("far", "kept"), [(2, True), (40, False)])
def test_few_rounded_numbers_may_be_further_off(far, kept, monkeypatch, tmp_path):
    def move_some(program):
        editor = ProgramEditor(program)
        moved = torch.zeros(5000)
        moved[:far] = 0.7
        constant = editor.add_constant("moved", moved, torch.empty(5000, device="meta"), is_parameter=False)
        for node in editor.graph.nodes:
            if node.target is aten.mul.Tensor:
                with editor.graph.inserting_after(node):
                    added = editor.graph.call_function(aten.add.Tensor, (node, constant))
                added.meta = dict(node.meta)
                node.replace_all_uses_with(added, delete_user_cb=lambda user, added=added: user is not added)
        return editor.finish(), Rewrite("move_some", 1, "", ())

    monkeypatch.setattr(rewrites, "_passes", lambda: (("move_some", False, move_some),))
    pixels = Calls(lambda x: (x * 250.0).round().to(torch.uint8))
    captured = capture(pixels.eval(), (torch.linspace(0.1, 0.9, 5000),), source_root=tmp_path)
    proved = rewrite_and_prove(captured.program, captured.eager, ())
    assert [rewrite.name for rewrite in proved.applied] == (["move_some"] if kept else []), proved.dropped


def test_two_wrong_rewrites_apart_from_each_other_take_no_third_one_with_them(monkeypatch, tmp_path):
    def wrong(name):
        def run(program):
            made, rewrite = double_every_product(program)
            return made, None if rewrite is None else Rewrite(name, 1, "", ())

        return run

    entries = tuple((name, False, wrong(name)) for name in ("first", "second"))
    entries = (entries[0], ("fold_literals", False, fold_literals), entries[1])
    monkeypatch.setattr(rewrites, "_passes", lambda: entries)
    model = Calls(lambda x: x * 3.0 + torch.arange(4).float().flip(0))
    captured = capture(model.eval(), (random_like(4),), source_root=tmp_path)
    proved = rewrite_and_prove(captured.program, captured.eager, ())
    assert [rewrite.name for rewrite in proved.applied] == ["fold_literals"]
    assert len(proved.dropped) == 2


def test_proving_leaves_state_as_it_was(tmp_path):
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.tensor([5.0]))

        def forward(self, x):
            self.count.add_(1.0)
            return torch.add(x, self.count, alpha=2)

    captured = capture(Counter().eval(), (random_like(3),), source_root=tmp_path)
    proved = rewrite_and_prove(captured.program, captured.eager, ("split_alpha",))
    assert [rewrite.name for rewrite in proved.applied] == ["split_alpha"]
    assert operator.getitem(proved.program.exported.state_dict, "count").item() == 5.0
