"""A residual network of 2.8 million parameters that takes normalised photographs; `make demo` times it.

```
edgex export samples/photo_classifier.py -t xnnpack,onnx-cpu
```

The weights are random, so its answers mean nothing; its shape and its cost are those of a small ResNet. `model_card`
tells `edgex run -i x=photo.jpg` and the Android app how to turn a photograph into its input.
"""

from __future__ import annotations

import torch
from torch import nn

from edgex.samples.random_weights import randomise_weights

SIZE = 128
WIDTHS = (32, 64, 128, 256)
LABELS = ("bicycle", "bird", "book", "bottle", "cat", "chair", "cup", "dog", "flower", "lamp")

model_card = {
    "labels": list(LABELS),
    # ImageNet's statistics, for pixels scaled to 0..1
    "image": {"input": "x", "layout": "NCHW", "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]},
}


class ResidualBlock(nn.Module):
    """Two 3 x 3 convolutions, added to the input, which a 1 x 1 convolution brings into shape where it differs."""

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels_in, channels_out, 3, stride, 1, bias=False), nn.BatchNorm2d(channels_out), nn.ReLU(),
            nn.Conv2d(channels_out, channels_out, 3, 1, 1, bias=False), nn.BatchNorm2d(channels_out),
        )  # fmt: skip
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels_out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels_out, 1, stride, bias=False), nn.BatchNorm2d(channels_out)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`[N, channels_in, H, W]` to `[N, channels_out, H / stride, W / stride]`."""
        y: torch.Tensor = (self.layers(x) + self.shortcut(x)).relu()
        return y


class PhotoClassifier(nn.Module):
    """ResNet-18's plan with half its channels."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, WIDTHS[0], 7, 2, 3, bias=False), nn.BatchNorm2d(WIDTHS[0]), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        blocks: list[nn.Module] = []
        for before, width in zip((WIDTHS[0], *WIDTHS), WIDTHS, strict=False):
            stride = 1 if width == WIDTHS[0] else 2
            blocks += [ResidualBlock(before, width, stride), ResidualBlock(width, width, 1)]
        self.blocks = nn.Sequential(*blocks)
        self.classifier = nn.Linear(WIDTHS[-1], len(LABELS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Photographs, float32 `[1, 3, 128, 128]`, to scores `[1, 10]`."""
        features = self.blocks(self.stem(x)).mean((2, 3), keepdim=True)
        scores: torch.Tensor = self.classifier(features.flatten(1))
        return scores


def get_model() -> nn.Module:
    """The classifier with random weights, in eval mode."""
    model = PhotoClassifier().eval()
    randomise_weights(model)
    return model


def get_args() -> tuple[torch.Tensor]:
    """Normalised noise in the range of photographs, float32 `[1, 3, 128, 128]`."""
    return (torch.randn(1, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0)),)
