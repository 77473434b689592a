"""A keyword spotter: a GRU over the energy in 40 frequency bands, one second of audio, twelve words.

```
edgex export samples/keyword_spotter.py -t xnnpack
```

The weights are random and the audio is made here: a rising tone in noise.
"""

from __future__ import annotations

import torch
from torch import nn

from edgex.samples.random_weights import randomise_weights

BANDS, FRAMES, HIDDEN = 40, 25, 64  # 25 frames of 40 ms
WORDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go", "unknown", "silence")

model_card = {"labels": list(WORDS), "audio": {"bands": BANDS, "frames": FRAMES, "frame_seconds": 0.04}}


class KeywordSpotter(nn.Module):
    """Convolution over time, one GRU layer, a score for each word from the last frame's state."""

    def __init__(self) -> None:
        super().__init__()
        self.smooth = nn.Conv1d(BANDS, HIDDEN, kernel_size=3, padding=1)
        self.gru = nn.GRU(HIDDEN, HIDDEN, batch_first=True)
        self.classifier = nn.Linear(HIDDEN, len(WORDS))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Log energies `[1, 25, 40]` (frames, bands) to scores `[1, 12]`."""
        x = self.smooth(features.transpose(1, 2)).relu().transpose(1, 2)
        states, _ = self.gru(x)
        scores: torch.Tensor = self.classifier(states[:, -1])
        return scores


def get_model() -> nn.Module:
    """The spotter with random weights, in eval mode."""
    model = KeywordSpotter().eval()
    randomise_weights(model)
    return model


def get_args() -> tuple[torch.Tensor]:
    """A tone that climbs through the bands, in noise: log energies `[1, 25, 40]`."""
    generator = torch.Generator().manual_seed(1)
    frame = torch.arange(FRAMES)[:, None]
    band = torch.arange(BANDS)[None]
    tone = torch.exp(-((band - 5 - frame) ** 2) / 8.0)
    noise = 0.05 * torch.rand(FRAMES, BANDS, generator=generator)
    return (torch.log(tone + noise + 1e-2)[None],)
