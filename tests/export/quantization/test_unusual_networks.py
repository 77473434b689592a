"""Networks of libraries that 8 bits ended for: each is exported and proved on the targets that quantize."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import edgex

IMAGE = torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(0))


class ReadTwice(nn.Module):
    """A norm of large images: XNNPACK adds along rows, and leaves what is read there and the last mean to others."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.next = nn.Conv2d(3, 8, 3, padding=1), nn.InstanceNorm2d(8), nn.Conv2d(8, 8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.interpolate(x, scale_factor=8.0)
        return self.next(F.prelu(self.norm(self.first(x)), torch.tensor([0.25])))


class Windows(nn.Module):
    """Windows of an image, copied into rows, behind one token of each."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.token, self.mix = nn.Conv2d(3, 16, 2, 2), nn.Conv2d(3, 16, 8, 8), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.token(x)
        tokens = (tokens + tokens.relu()).flatten(2).transpose(1, 2).reshape(4, 1, 16)
        rows = self.embed(x).permute(0, 2, 3, 1).reshape(1, 2, 4, 2, 4, 16).permute(0, 1, 3, 2, 4, 5)
        return self.mix(torch.cat([tokens, rows.clone().reshape(4, 16, 16)], 1))


class Modulated(nn.Module):
    """Weights that depend on an input, beside a layer that has its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.scales = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8, 8)
        self.weight = nn.Parameter(torch.randn(8, 8, 3, 3, generator=torch.Generator().manual_seed(1)) / 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        scales = self.scales(x.mean((2, 3))).view(1, 8, 1, 1)
        return F.conv2d(x, self.weight * (1 + scales), padding=1)


class Detector(nn.Module):
    """Boxes in pixels beside scores in one output."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.boxes, self.scores = nn.Conv2d(3, 16, 3), nn.Conv2d(16, 4, 1), nn.Conv2d(16, 5, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.body(x).relu()
        return torch.cat([self.boxes(x).flatten(2) * 640, self.scores(x).flatten(2).sigmoid()], 1)


class EmptyPiece(nn.Module):
    """What rotary positions leave of a head as wide as they are: nothing, joined to the rest all the same."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.next = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        turned, rest = x[..., :16], x[..., 16:]
        return self.next(torch.cat([turned * 2, rest], -1))


class TwoOrders(nn.Module):
    """A sum of images whose readers want it in different orders: a scale for each channel, and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.mix, self.last = nn.Conv2d(3, 32, 4, 4), nn.Conv2d(32, 32, 1), nn.Conv2d(32, 8, 1)
        self.one, self.two = nn.GroupNorm(1, 32), nn.GroupNorm(1, 32)
        self.scale = nn.Parameter(torch.rand(32, generator=torch.Generator().manual_seed(2)) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(F.interpolate(x, scale_factor=4.0))
        y = self.one(x)
        x = self.scale.view(-1, 1, 1) * x + (F.avg_pool2d(y, 3, 1, 1, count_include_pad=False) - y)
        x = self.scale.view(-1, 1, 1) * x + self.mix(self.two(x))
        return self.last(F.layer_norm(x.permute(0, 2, 3, 1), (32,)).permute(0, 3, 1, 2))


@pytest.mark.parametrize("target", ["xnnpack", "onednn", "onnx-cpu"])
@pytest.mark.parametrize("network", [ReadTwice, Windows, Modulated, Detector, EmptyPiece, TwoOrders])
def test_it_is_proved(network: type[nn.Module], target: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = network().eval()
    data = [(IMAGE * (1 - number / 20),) for number in range(8)]
    artifact = edgex.export_model(model, (IMAGE,), target=target, output=tmp_path, quantize="int8", calibration=data)
    with edgex.load(artifact.path) as session:
        outputs = list(session.run({"x": IMAGE.numpy()}))
    with torch.no_grad():
        expected = model(IMAGE)
    for one, other in zip(expected if isinstance(expected, tuple) else (expected,), outputs, strict=True):
        assert F.cosine_similarity(one.flatten(), torch.from_numpy(other).flatten(), 0) > 0.99
    if network is Detector:
        scores, wanted = torch.from_numpy(outputs[0][:, 4:]), expected[:, 4:]
        assert (scores - wanted).abs().max() < 0.05, "the boxes' range has taken the scores' digits"
