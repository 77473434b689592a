"""Layer norms in their parts: the numbers stay, and a block with them is one call of XNNPACK."""

from __future__ import annotations

import pytest
import torch
from rewriting import Untouched, capture_program, check_rewrite, operators
from torch import nn
from torch.nn.functional import layer_norm

from edgex.export.pipeline import export_to_targets
from edgex.export.rewrites.norms.layer_norm import write_layer_norms
from edgex.export.settings import ExportSettings
from edgex.export.source.source import wrap_model

X = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(0))


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.weight, self.bias = nn.Parameter(torch.randn(12)), nn.Parameter(torch.randn(12))

    def forward(self, x):
        return self.function(x, self.weight, self.bias)


TAKEN = {
    "a norm": lambda x, w, b: layer_norm(x, [12], w, b),
    "without bias": lambda x, w, _: layer_norm(x, [12], w, None, 1e-3),
    "plain": lambda x, _, __: layer_norm(x, [12]),
    "of rows far from zero": lambda x, w, b: layer_norm(x + 100, [12], w, b),
    "of equal numbers": lambda x, w, b: layer_norm(x[..., :1].expand(-1, -1, 12), [12], w, b),
}
LEFT = {
    "two dimensions": lambda x, _, __: layer_norm(x, [5, 12]),
    "one number": lambda x, _, __: layer_norm(x[..., :1], [1]),
    "a row alone": lambda x, w, b: layer_norm(x[0, 0], [12], w, b),
    "float64": lambda x, _, __: layer_norm(x.double(), [12]),
}


@pytest.mark.parametrize("name", TAKEN)
def test_the_numbers_stay(name):
    before = capture_program(Function(TAKEN[name]), X)
    untouched = Untouched(before, X)
    after, rewrite = write_layer_norms(before)
    # A mean of equal numbers that is off by a bit weighs as much as epsilon lets it.
    check_rewrite(before, after, X, min_sqnr_db=85 if "equal" in name else 100, untouched=untouched)
    assert (rewrite.name, rewrite.count) == ("write_layer_norms", 1)
    assert "aten.layer_norm.default" not in operators(after)
    assert write_layer_norms(after) == (after, None)


@pytest.mark.parametrize("name", LEFT)
def test_what_is_no_row_is_left_alone(name):
    before = capture_program(Function(LEFT[name]), X)
    assert write_layer_norms(before) == (before, None)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.layer = nn.LayerNorm(32), nn.Linear(32, 32)

    def forward(self, x):
        return x + nn.functional.gelu(self.layer(self.norm(x)))


def exported(tmp_path, **settings):
    x = torch.randn(2, 4, 32, generator=torch.Generator().manual_seed(0))
    report = export_to_targets(
        lambda: wrap_model(Block().eval(), (x,), {}, None, "block"),
        ExportSettings(("xnnpack",), tmp_path, **settings),
        name="block",
        stop_at_failure=True,
    )
    (artifact,) = report.artifacts
    return artifact


def test_a_block_with_norms_is_one_call(tmp_path):
    artifact = exported(tmp_path)
    assert "write_layer_norms" in {rewrite["name"] for rewrite in artifact.rewrites}
    assert not [warning for warning in artifact.warnings if "is called" in warning]


def test_squares_that_float16_does_not_hold_are_not_written(tmp_path):
    artifact = exported(tmp_path, precision="fp16")
    assert "write_layer_norms" not in {rewrite["name"] for rewrite in artifact.rewrites}


@pytest.mark.parametrize("recipe", ["int8", "int8-dynamic", "8da8w"])
def test_a_recipe_leaves_the_parts_in_floating_point_and_in_the_delegate(recipe, tmp_path):
    samples = [(torch.randn(2, 4, 32, generator=torch.Generator().manual_seed(seed)),) for seed in range(4)]
    artifact = exported(tmp_path, quantize=recipe, calibration=samples if recipe == "int8" else None)
    assert "write_layer_norms" in {rewrite["name"] for rewrite in artifact.rewrites}
    assert artifact.plan.delegated_ops == artifact.plan.total_ops
    assert not [warning for warning in artifact.warnings if "is called" in warning]
    assert not [one for one in artifact.quantization["unquantized"] if "linear" in one["op"]]
