"""An image classifier in the style of MobileNetV2 that takes the camera's bytes: preprocessing is part of the graph.

```
edgex export samples/image_classifier.py -t xnnpack
```

The weights are random. What the sample shows is the form: uint8 pixels in, channels last, as cameras and decoders give
them; the graph itself turns them into normalised floats, so no app can get the normalisation wrong.
"""

from __future__ import annotations

import torch
from torch import nn

from edgex.samples.random_weights import randomise_weights

SIZE = 96
LABELS = ("bicycle", "bird", "book", "bottle", "cat", "chair", "cup", "dog", "flower", "lamp")

# The graph takes raw RGB bytes, so an app subtracts nothing and divides by nothing.
model_card = {
    "labels": list(LABELS),
    "image": {"input": "image", "layout": "NHWC", "color": "RGB", "mean": [0.0, 0.0, 0.0], "std": [1.0, 1.0, 1.0]},
}


class InvertedResidual(nn.Module):
    """Expand by 1 x 1, filter each channel by 3 x 3, project by 1 x 1; added to the input where shapes agree."""

    def __init__(self, channels_in: int, channels_out: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = channels_in * expansion
        self.adds = stride == 1 and channels_in == channels_out
        self.layers = nn.Sequential(
            nn.Conv2d(channels_in, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6(),
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6(),
            nn.Conv2d(hidden, channels_out, 1, bias=False), nn.BatchNorm2d(channels_out),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`[N, channels_in, H, W]` to `[N, channels_out, H / stride, W / stride]`."""
        y: torch.Tensor = self.layers(x)
        return x + y if self.adds else y


class ImageClassifier(nn.Module):
    """A shallow MobileNetV2 behind its own preprocessing."""

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        # ImageNet's statistics, for pixels scaled to 0..1
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1))
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU6())
        self.blocks = nn.Sequential(
            InvertedResidual(16, 24, stride=2, expansion=4),
            InvertedResidual(24, 24, stride=1, expansion=4),
            InvertedResidual(24, 40, stride=2, expansion=4),
            InvertedResidual(40, 40, stride=1, expansion=4),
            InvertedResidual(40, 80, stride=2, expansion=4),
        )
        self.classifier = nn.Linear(80, len(LABELS))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """RGB bytes, uint8 `[1, 96, 96, 3]`, to probabilities `[1, 10]`."""
        x = image.permute(0, 3, 1, 2).to(torch.float32) / 255.0
        x = self.blocks(self.stem((x - self.mean) / self.std))
        probabilities: torch.Tensor = self.classifier(x.mean((2, 3), keepdim=True).flatten(1)).softmax(-1)
        return probabilities


def get_model() -> nn.Module:
    """The classifier with random weights, in eval mode."""
    model = ImageClassifier().eval()
    randomise_weights(model)
    return model


def get_args() -> tuple[torch.Tensor]:
    """A picture of soft coloured waves with some noise, uint8 `[1, 96, 96, 3]`."""
    generator = torch.Generator().manual_seed(1)
    y, x = torch.meshgrid(torch.linspace(0, 6, SIZE), torch.linspace(0, 6, SIZE), indexing="ij")
    waves = torch.stack([torch.sin(x), torch.cos(y), torch.sin(x + y)], dim=-1) * 90 + 128
    noisy = waves + 20 * torch.randn(waves.shape, generator=generator)
    return (noisy.clamp(0, 255).to(torch.uint8)[None],)
