"""Eager's own error against float64: what it excuses, in the proof of rewrites too."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from edgex.export.capture.program import capture
from edgex.export.proof.references.own_errors import OwnError, measure_own_errors
from edgex.export.rewrites.proof import rewrite_and_prove
from edgex.runtime.artifact.golden import Case, Step


def test_twice_the_own_error_is_excused_down_to_the_floor() -> None:
    own = OwnError(sqnr_db=75.0, largest=0.01)
    assert own.least_db(80.0) == pytest.approx(68.9)
    assert own.excuses(69.0, None, 80.0) and not own.excuses(68.8, None, 80.0)
    assert own.excuses(72.0, None, 80.0, 2**0.5) and not own.excuses(71.8, None, 80.0, 2**0.5)
    assert own.excuses(90.0, 0.02, 80.0) and not own.excuses(90.0, 0.021, 80.0)
    assert not own.excuses(90.0, None, 80.0)
    assert OwnError(30.0, 1.0).least_db(80.0) == 60.0
    assert not OwnError(30.0, 1.0).excuses(59.9, None, 80.0)


class Picky(nn.Module):
    """Insists on float32."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.dtype != torch.float32:
            raise TypeError("float32, please")
        return x * 2


def test_models_that_insist_on_float32_have_no_own_error() -> None:
    x = torch.ones(3)
    eager = capture(Picky(), (x,), source_root=Path(__file__).parent).eager
    (output,) = (spec.name for spec in eager.outputs)
    case = Case("example", "compare", (Step({"x": x.numpy()}, {output: (2 * x).numpy()}),))
    assert measure_own_errors(case, eager) is None


class Unsteady(nn.Module):
    """A convolution and its norm, whose last bits become angles."""

    def __init__(self, enlarged: float) -> None:
        super().__init__()
        self.enlarged = enlarged
        self.conv, self.norm = nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16)
        nn.init.uniform_(self.norm.running_var, 0.5, 2)
        nn.init.normal_(self.norm.running_mean)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(self.norm(self.conv(x)) * self.enlarged)


@pytest.mark.parametrize("enlarged", [1.0, 1500.0])
def test_a_rewrite_that_rounds_as_eager_does_is_kept(enlarged: float) -> None:
    torch.manual_seed(0)
    x = torch.rand(1, 3, 24, 24)
    found = capture(Unsteady(enlarged).eval(), (x,), source_root=Path(__file__).parent)
    proved = rewrite_and_prove(found.program, found.eager, ())
    assert [rewrite.name for rewrite in proved.applied] == ["fold_batch_norm"], proved.dropped
    assert not proved.dropped
