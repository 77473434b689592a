"""No reference kernel where layouts are mixed: oneDNN computes them all the same, some hundred times slower."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from onednn_support import Network, capture, load, lower, needs_onednn
from torch import nn

pytestmark = needs_onednn


def glu(x: torch.Tensor, layer: nn.Module) -> torch.Tensor:
    one, other = layer(x).chunk(2, -1)
    return F.silu(one) * other


def channel_glu(x: torch.Tensor, layer: nn.Module) -> torch.Tensor:
    one, other = layer(x).chunk(2, 1)
    return one * other.sigmoid()


def convnext_blocks(
    x: torch.Tensor, stem: nn.Module, depthwise: nn.Module, norm: nn.Module, up: nn.Module, down: nn.Module
) -> torch.Tensor:
    x = stem(x)
    for _ in range(2):
        made = norm(depthwise(x).permute(0, 2, 3, 1))
        x = x + (down(F.gelu(up(made))) * 0.5).permute(0, 3, 1, 2)
    return x


def audio_stem(x: torch.Tensor, layer: nn.Module, positions: nn.Module) -> torch.Tensor:
    return F.gelu(layer(x)).permute(0, 2, 1) + positions.weight


def channel_softmax(x: torch.Tensor, layer: nn.Module) -> torch.Tensor:
    return layer(x).softmax(1)


def channel_norm(x: torch.Tensor, layer: nn.Module) -> torch.Tensor:
    made = layer(x)
    centred = made - made.mean(1, keepdim=True)
    return layer(centred / torch.sqrt(centred.pow(2).mean(1, keepdim=True) + 1e-6))


def permuted_sum(x: torch.Tensor, layer: nn.Module) -> torch.Tensor:
    return layer(x) + F.relu(x).permute(0, 1, 3, 2)


def windows(x: torch.Tensor, layer: nn.Module, norm: nn.Module) -> torch.Tensor:
    x = x.permute(0, 2, 3, 1)
    parts = norm(x).view(1, 4, 4, 4, 4, 32).permute(0, 1, 3, 2, 4, 5).reshape(16, 16, 32)
    x = x + layer(parts).view(1, 4, 4, 4, 4, 32).permute(0, 1, 3, 2, 4, 5).reshape(1, 16, 16, 32)
    return x + layer(F.gelu(layer(norm(x))))


IMAGE = (1, 32, 16, 16)
CASES: dict[str, tuple] = {
    "glu": (glu, IMAGE, nn.Linear(16, 32)),
    "channel_glu": (channel_glu, IMAGE, nn.Conv2d(32, 64, 1)),
    "convnext_blocks": (
        convnext_blocks,
        IMAGE,
        *(nn.Conv2d(32, 32, 2, 2), nn.Conv2d(32, 32, 7, padding=3, groups=32), nn.LayerNorm(32)),
        *(nn.Linear(32, 128), nn.Linear(128, 32)),
    ),
    "audio_stem": (audio_stem, (1, 32, 64), nn.Conv1d(32, 48, 3, padding=1), nn.Embedding(64, 48)),
    "channel_softmax": (channel_softmax, IMAGE, nn.Conv2d(32, 21, 1)),
    "channel_norm": (channel_norm, IMAGE, nn.Conv2d(32, 32, 1)),
    "permuted_sum": (permuted_sum, IMAGE, nn.Linear(16, 16)),
    "windows": (windows, IMAGE, nn.Linear(32, 32), nn.LayerNorm(32)),
}


@pytest.fixture(scope="module")
def kernels() -> dict[str, list[str]]:
    """For each case what oneDNN's log says of what it executed, in a process that has the log from its start."""
    environment = {**os.environ, "DNNL_VERBOSE": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, __file__]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        if line.startswith("case "):
            found[line.removeprefix("case ")] = []
        elif ",exec," in line:
            found[list(found)[-1]].append(line)
    return found


@pytest.mark.parametrize("name", CASES)
def test_no_reference_kernel(name: str, kernels: dict[str, list[str]]) -> None:
    assert kernels[name], "oneDNN executed nothing"
    slow = [line for line in kernels[name] if ",ref:" in line or ",gemm:ref" in line]
    assert not slow, "\n".join(slow)


def execute() -> None:
    """Run all cases; the log goes to the standard output, behind a line with the case's name."""
    c = ctypes.CDLL(None)
    for name, (function, shape, *layers) in CASES.items():
        inputs = [torch.ones(shape)]
        print("case", name, flush=True)
        loaded = load(lower(capture(Network(function, *layers), inputs)))
        loaded(*inputs)
        c.fflush(None)
        loaded.runner.close()


if __name__ == "__main__":
    execute()
