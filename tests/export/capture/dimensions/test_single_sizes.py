"""Ranges within which something that is computed of a size has one element, or none."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from capture_checks import HERE
from torch import nn
from torch.export import Dim

from benchmarks.operators.proof import prove
from edgex.errors import CaptureError
from edgex.export.capture.dimensions.dynamic import Asked
from edgex.export.capture.dimensions.single_sizes import left_out_sizes
from edgex.export.capture.program import capture
from edgex.export.capture.torch_internals import single_sizes_kept

LENGTH = Dim("length", min=1, max=12)


class Shifted(nn.Module):
    """What an RWKV mixes every token with: the one before it, and at first what is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(8, 8)
        self.register_buffer("first", torch.randn(1, 1, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed: torch.Tensor = self.mix(torch.cat([self.first, x[:, :-1]], 1) - x)
        return mixed


class Halved(nn.Module):
    """Two layers with stride 2: one element is left of up to four."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv1d(8, 8, 3, 2, 1), nn.ReLU(), nn.Conv1d(8, 8, 3, 2, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layers(x.mT)
        return found


class Repeated(nn.Module):
    """Where one element is left of it, that is another program: torch.export did not see it repeated."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, :-1] * 2 if x.shape[1] - 1 == 1 else x[:, :-1] * 3


@pytest.mark.parametrize(("model", "sizes"), [(Shifted, "length = 2"), (Halved, "length = 1, length = 2, length = 3")])
def test_a_range_is_captured_where_something_becomes_one_element(model: type[nn.Module], sizes: str) -> None:
    torch.manual_seed(0)
    module = model().eval()
    captured = capture(module, (torch.randn(1, 6, 8),), dynamic_shapes=({1: LENGTH},), source_root=HERE)
    assert any(sizes in notice for notice in captured.notices), captured.notices
    for size in range(1, 13):
        x = torch.randn(1, size, 8)
        assert torch.allclose(captured.program.exported.module()(x)[0], module(x), atol=1e-6)


@pytest.mark.parametrize("target", ["xnnpack", "onnx-cpu", "onednn"])
def test_it_is_right_where_nothing_is_left_too(target: str) -> None:
    torch.manual_seed(0)
    proved = prove(Shifted().eval(), (torch.randn(1, 6, 8),), target, dynamic_shapes=({1: LENGTH},))
    assert proved.error is None, proved.reason


@pytest.mark.parametrize("target", ["xnnpack", "onnx-cpu", "onednn"])
def test_a_spectrogram_of_any_length_is_exported(target: str) -> None:
    """The trace of torch.stft asks `1 % frames != 0`, which always holds, and which torch.export never proves."""

    class Spectrogram(nn.Module):
        def forward(self, wave: torch.Tensor) -> torch.Tensor:
            return torch.stft(wave, 64, 32, window=torch.ones(64), return_complex=True).abs()

    shapes = ({1: Dim("length", min=256, max=1024)},)
    proved = prove(Spectrogram(), (torch.randn(1, 512),), target, dynamic_shapes=shapes)
    assert proved.error is None, proved.reason


def test_a_model_that_does_something_else_there_is_refused() -> None:
    with pytest.raises(CaptureError, match="not every size of length in its range works") as caught:
        capture(Repeated(), (torch.randn(1, 6, 8),), dynamic_shapes=({1: LENGTH},), source_root=HERE)
    assert "let nothing become a single element" in str(caught.value.fix)


COMPLAINT = "  - Not all values of n = L['x'].size()[1] in the specified range n <= 16 satisfy the generated guard {}."


@pytest.mark.parametrize(
    ("guards", "sizes"),
    [
        (["((-1) + L['x'].size()[1]) != 1"], {"n": [2]}),
        (["(1 + (((-1) + L['x'].size()[1]) // 4)) != 1", "((-1) + L['x'].size()[1]) != 1"], {"n": [1, 2, 3]}),
        (["((-3) + L['x'].size()[1]) != 0"], {"n": [3]}),
        (["((-1) + L['x'].size()[1]) != 1", "8 <= L['x'].size()[1]"], None),
        (["(L['x'].size()[1] % 8) != 3"], None),
        (["1 % (1 + (L['x'].size()[1] // 4)) != 0"], {"n": [1, 2, 3]}),
        (["1 % (2 + (L['x'].size()[1] // 4)) != 0"], {"n": []}),
        (["1 % (L['x'].size()[1] // 4) != 0"], None),
        (["__import__('os').getcwd() != 1"], None),
    ],
)
def test_the_sizes_are_read_off_the_message(guards: list[str], sizes: dict[str, list[int]] | None) -> None:
    message = "\n".join(["Constraints violated (n)! For more", *map(COMPLAINT.format, guards), "", "The error above"])
    assert left_out_sizes(message, [Asked("x", 1, Dim("n", min=1, max=16))]) == sizes


def test_torch_complains_where_it_is_replaced() -> None:
    def export() -> Any:
        return torch.export.export(Shifted(), (torch.randn(1, 6, 8),), dynamic_shapes=({1: LENGTH},), strict=False)

    with pytest.raises(Exception, match="satisfy the generated guard"):
        export()
    with single_sizes_kept():
        export()
