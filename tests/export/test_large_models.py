"""Models over 2 GB, the size at which one protobuf and one flatbuffer end."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

MODEL = '''
import torch
from torch import nn


class Wide(nn.Module):
    """Nine layers of 8192 x 8192: 2.4 GB of float32."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8192, 8192) for _ in range(9))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x)) + x
        return x


def get_model():
    torch.manual_seed(0)
    return Wide().eval()


def get_args():
    return (torch.randn(1, 8192, generator=torch.Generator().manual_seed(1)),)
'''


@pytest.mark.slow
@pytest.mark.parametrize("target", ["onnx-cpu", "xnnpack"])
def test_a_model_over_two_gigabytes_exports_and_runs(target: str, tmp_path: Path, run_here: Callable) -> None:
    if shutil.disk_usage(tmp_path).free < 12 << 30:
        pytest.skip("needs 12 GiB of disk")
    (tmp_path / "wide.py").write_text(MODEL)
    result = run_here("export", "wide.py", "-t", target)
    assert result.returncode == 0, result.stderr
    artifact = tmp_path / f"wide.{target}.edgex"
    assert sum(f.stat().st_size for f in artifact.glob("model.*")) > 2_400_000_000
    result = run_here("run", str(artifact), "--check", "size")
    assert result.returncode == 0, result.stderr
