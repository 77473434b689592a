"""What tests of the target aoti share: one artifact a run, as compiling it takes ten seconds of a processor."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from filelock import FileLock
from torch import nn

import edgex
from edgex.delegates.aoti.delegate import AotiDelegate

AVAILABILITY = AotiDelegate().availability()
needs_aoti = pytest.mark.skipif(not AVAILABILITY.available, reason=f"aoti: {AVAILABILITY.reason}")
OFFSET = torch.tensor([7])


class Counter(nn.Module):
    """A convolution and a batch norm that are folded, state that is carried, a dynamic batch, integers in and out."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.linear = nn.Conv1d(2, 8, 3), nn.BatchNorm1d(8), nn.Linear(8, 4)
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor, offset: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.linear(torch.relu(self.norm(self.conv(x))).mean(-1))
        self.total.add_(y.sum(0))
        total = y + self.total
        return {"sum": total, "best": y.argmax(-1) + offset, "again": total}


def random_rows(rows: int) -> torch.Tensor:
    return torch.randn(rows, 2, 6, generator=torch.Generator().manual_seed(3))


def counter() -> Counter:
    torch.manual_seed(0)
    return Counter().eval()


def exported_counter(factory: pytest.TempPathFactory) -> Path:
    """The artifact of a `Counter`, exported once for all tests and workers; read-only."""
    folder = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    path = folder / "aoti" / "net.aoti.edgex"
    path.parent.mkdir(exist_ok=True)
    with FileLock(folder / "aoti.lock"):
        if not path.exists():
            shapes = {"x": {0: torch.export.Dim("batch", min=1, max=8)}, "offset": None}
            edgex.export_model(
                counter(),
                (random_rows(3), OFFSET),
                target="aoti",
                output=path.parent,
                dynamic_shapes=shapes,
                name="net",
            )
    return path
