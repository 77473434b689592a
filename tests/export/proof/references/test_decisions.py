"""Integers that rounding decides may be what eager has when its numbers differ by little, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from edgex.export.capture.program import capture
from edgex.export.proof.references.decisions import judge_by_decisions
from edgex.runtime.artifact.golden import Case, Step
from edgex.runtime.session.numerics import compare_limits

ROOT = Path(__file__).parent


class Segmented(nn.Module):
    """Classes of pixels, of which one is another, with how many of each there are."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.tensor([[1.0], [-1.0], [0.5]]))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        scores = x.unsqueeze(-1) * self.scores[:, 0] + torch.tensor([0.0, 2.0, 0.0])
        classes = scores.argmax(-1)
        mapped = classes.masked_fill(classes == 2, 7)
        return mapped, (mapped.unsqueeze(-1) == torch.arange(8)).sum(0), scores


def make(near: int) -> tuple[Any, Case]:
    """5,000 numbers; of so many rounding decides whether they are of the first class or the second, at 1."""
    x = torch.linspace(-3, 3, 5000)
    x[:near] = 1 + torch.arange(near) * 1e-8
    eager = capture(Segmented().eval(), (x,), source_root=ROOT).eager
    outputs = {spec.name: answer.numpy() for spec, answer in zip(eager.outputs, eager.run([x]), strict=True)}
    return eager, Case("example", "compare", (Step({eager.inputs[0].name: x.numpy()}, outputs),))


def judge(eager: Any, case: Case, *failed: str) -> Any:
    found = [{"name": case.name, "output": name, "verdict": "fail"} for name in failed]
    return judge_by_decisions([case], {"cases": found}, eager)


def test_what_lies_near_a_decision_may_be_either() -> None:
    eager, case = make(near=8)
    classes, counts, _ = (spec.name for spec in eager.outputs)
    judged = judge(eager, case, classes, counts)
    limits = judged.cases[0].steps[0].between
    assert {name: f"{found.least.dtype}" for name, found in limits.items()} == {classes: "uint8", counts: "uint16"}
    moved = limits[classes].least != limits[classes].most
    assert moved[:8].all() and not moved[8:].any()
    assert f"{classes}: 8 of 5000 values are decided by rounding" in judged.sentences[0]
    given = case.steps[0].outputs[classes]
    for at, verdict in ((3, "pass"), (500, "fail")):
        other = given.copy()
        other[at] = 1 - given[at] if at == 3 else given[at] + 1
        assert compare_limits(given, other, limits[classes].least, limits[classes].most).verdict == verdict


def test_many_decisions_that_rounding_makes_prove_nothing() -> None:
    eager, case = make(near=200)
    judged = judge(eager, case, eager.outputs[0].name)
    assert judged.cases == (case,) and not judged.sentences


def test_floats_keep_their_limit() -> None:
    eager, case = make(near=8)
    judged = judge(eager, case, eager.outputs[2].name)
    assert judged.cases == (case,) and not judged.sentences


def test_weights_are_what_they_were() -> None:
    eager, case = make(near=8)
    before = eager.module.scores.detach().clone()
    judge(eager, case, eager.outputs[0].name)
    assert np.array_equal(before, eager.module.scores.detach())
