"""What is asked of quantization is checked before anything slow, with messages that lead on."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from edgex.delegates.registry import get_delegate
from edgex.errors import LoweringError, QuantizationError, UsageError
from edgex.export.settings import ExportSettings, Limits, check_settings
from edgex.runtime.session.numerics import Tolerance

Edgex = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.mark.parametrize(
    ("asked", "kind", "message"),
    [
        ({"quantize": "int9"}, UsageError, "unknown quantization recipe 'int9'"),
        ({"calibration": "data.npz"}, UsageError, "--calibration without a recipe"),
        ({"observer": "minmax"}, UsageError, "--observer without a recipe"),
        ({"group_size": 32}, UsageError, "--group-size without a recipe"),
        ({"quantize": "int8", "group_size": 32}, UsageError, "--group-size: int8 has one scale an output channel"),
        ({"quantize": "8da4w", "group_size": 7}, UsageError, "--group-size is 16, 32, 64, 128 or 256, not 7"),
        ({"quantize": "8da8w", "calibration": "random:8"}, UsageError, "--calibration does not go with"),
        ({"quantize": "8da8w", "observer": "minmax"}, UsageError, "--observer does not go with --quantize 8da8w"),
        ({"quantize": "int8-dynamic", "calibration_samples": 4}, UsageError, "--calibration-samples does not go with"),
        ({"quantize": "int8", "observer": "mean"}, UsageError, "unknown observer 'mean'"),
        ({"quantize": "int8", "calibration_samples": 0}, UsageError, "--calibration-samples must be 1 or more, not 0"),
        ({"quantize": "int8", "calibration": "data.npz"}, UsageError, "no such file: data.npz"),
        ({"quantize": "int8", "precision": "fp16"}, UsageError, "--precision fp16 does not go with --quantize int8"),
        ({"quantize": "int4-weight"}, QuantizationError, "'xnnpack' does not take --quantize int4-weight"),
    ],
)
def test_refusals(asked: dict[str, object], kind: type[LoweringError], message: str) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        check_settings(ExportSettings(("xnnpack",), **asked), "net")  # type: ignore[arg-type]


def test_the_tolerance_is_the_recipes_unless_the_user_gives_one() -> None:
    xnnpack = get_delegate("xnnpack")
    assert ExportSettings(("xnnpack",), quantize="8da4w").tolerance_for(xnnpack).min_sqnr_db == 8.0
    limits = ExportSettings(("xnnpack",), quantize="int8", tolerance=Limits(33.0)).tolerance_for(xnnpack)
    assert (limits.min_sqnr_db, limits.min_equal) == (33.0, 0.9)
    whole = ExportSettings(("xnnpack",), quantize="int8", tolerance=Tolerance(5.0)).tolerance_for(xnnpack)
    assert whole == Tolerance(5.0)


def test_the_command_line_refuses_with_the_right_code(edgex: Edgex, tmp_path: Path) -> None:
    (tmp_path / "nowhere.py").write_text("raise SystemExit('a flag is wrong, so that nobody reads this')")
    done = edgex("export", "nowhere.py", "-t", "xnnpack", "--quantize", "int8-weight")
    assert done.returncode == 5
    assert "garbage" in done.stderr
    assert "it takes int8, int8-dynamic, 8da8w, 8da4w" in done.stderr
    done = edgex("export", "nowhere.py", "-t", "xnnpack", "--quantize", "int8", "--calibration", "random:0")
    assert done.returncode == 2
    done = edgex("why", "nowhere.py", "-t", "xnnpack", "--quantize", "int8")
    assert done.returncode == 2
    assert "edgex export nowhere.py -t xnnpack --quantize int8 --dry-run" in done.stderr


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from edgex.delegates.recipes import quantizers

    monkeypatch.setattr(quantizers, "installed_version", lambda name: None if name == "torchao" else "1")
    found = quantizers.quantizer_availability()
    assert not found.available
    assert found.reason == "quantizing needs torchao"
    dynamic = [get_delegate(name).quantizer("int8-dynamic") for name in ("reference", "xnnpack")]
    assert dynamic[0] == dynamic[1] is not None


@pytest.mark.parametrize("clips", [False, True])
def test_weights_of_a_fake_processor_without_vnni_have_7_bits(monkeypatch: pytest.MonkeyPatch, clips: bool) -> None:
    from edgex.delegates.recipes import quantizers
    from edgex.delegates.recipes.recipes import get_recipe
    from edgex.export.quantization import stage

    for module in (quantizers, stage):
        monkeypatch.setattr(module, "saturates_bytes", lambda: clips)
    found = {}
    for target, recipe in (
        *(("onnx-cpu", "int8"), ("onednn", "int8"), ("xnnpack", "int8")),
        *(("onnx-cpu", "8da8w"), ("onednn", "8da8w"), ("onnx-cpu", "8da4w")),
    ):
        delegate = get_delegate(target)
        made = stage._recipe_here(get_recipe(recipe), delegate.quantizer(recipe), delegate)
        found[target, recipe] = made.weight_bits
    few = 7 if clips else 8
    assert list(found.values()) == [few, few, 8, few, 8, 4]
