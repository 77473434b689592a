"""A vocoder block in the style of HiFi-GAN: a mel spectrogram in, a waveform out, 16 samples a frame.

```
edgex export samples/vocoder.py -t xnnpack
```

Every convolution is weight-normalised, as such models are trained. The norm is a computation on parameters alone; where
it stays in the graph, the engine repeats it on every run. edgex folds it at export. The weights are random.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from edgex.samples.random_weights import randomise_weights

BANDS, WIDTH, FRAMES = 80, 48, 32

model_card = {"audio": {"bands": BANDS, "samples_per_frame": 16}}


class ResidualBlock(nn.Module):
    """Two dilated convolutions, each added to its input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(
            nn.Conv1d(channels, channels, 3, padding=dilation, dilation=dilation) for dilation in (1, 3)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`[1, channels, samples]` to the same shape."""
        for convolution in self.convolutions:
            x = x + convolution(nn.functional.leaky_relu(x, 0.1))
        return x


class Vocoder(nn.Module):
    """Two upsampling stages of factor 4, a residual block after each."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(BANDS, WIDTH, 7, padding=3)
        self.upsample = nn.ModuleList(
            nn.ConvTranspose1d(WIDTH >> step, WIDTH >> (step + 1), 8, stride=4, padding=2) for step in range(2)
        )
        self.residual = nn.ModuleList(ResidualBlock(WIDTH >> (step + 1)) for step in range(2))
        self.last = nn.Conv1d(WIDTH >> 2, 1, 7, padding=3)

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        """Log mel energies `[1, 80, 32]` to samples between -1 and 1, `[1, 1, 512]`."""
        x = self.first(mel)
        for upsample, residual in zip(self.upsample, self.residual, strict=True):
            x = residual(upsample(nn.functional.leaky_relu(x, 0.1)))
        return torch.tanh(self.last(nn.functional.leaky_relu(x)))


def get_model() -> nn.Module:
    """The vocoder with random weights, every convolution weight-normalised, in eval mode."""
    model = Vocoder()
    randomise_weights(model)
    for layer in list(model.modules()):
        if isinstance(layer, (nn.Conv1d, nn.ConvTranspose1d)):
            weight_norm(layer)  # magnitude and direction of the weight that stands there
    return model.eval()


def get_args() -> tuple[torch.Tensor]:
    """Smooth bands with some noise, like speech: log mel energies `[1, 80, 32]`."""
    generator = torch.Generator().manual_seed(1)
    envelope = torch.sin(torch.linspace(0, 9, BANDS))[:, None] * torch.cos(torch.linspace(0, 5, FRAMES))[None]
    return ((envelope + 0.2 * torch.randn(BANDS, FRAMES, generator=generator))[None],)
