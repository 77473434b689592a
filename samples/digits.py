"""A small convnet for handwritten digits, trained on real scans: scikit-learn's 1,797 images of 8 x 8 pixels.

```
edgex export samples/digits.py -t xnnpack,onnx-cpu
```

Training takes seconds on a processor and happens once: the weights are kept in the user's cache.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import nn

HELD_OUT = 360  # the last scans are never trained on
EPOCHS = 12
BATCH = 32

_BATCH_DIM = torch.export.Dim("batch", min=1, max=64)
dynamic_shapes = {"x": {0: _BATCH_DIM}}
model_card = {
    "labels": [str(digit) for digit in range(10)],
    "data": "scikit-learn load_digits: UCI Optical Recognition of Handwritten Digits",
}


class Digits(nn.Module):
    """Three convolutions with batch norm, two poolings, one linear layer: 15,498 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        )  # fmt: skip
        self.classifier = nn.Linear(32 * 2 * 2, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scans `[N, 1, 8, 8]` with ink from 0 to 16, as the data set has them, to scores `[N, 10]`."""
        features: torch.Tensor = self.features(x / 16.0)
        scores: torch.Tensor = self.classifier(features.flatten(1))
        return scores


def load_split() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """The real scans as (training, held out), each (images float32 `[N, 1, 8, 8]`, digits int64 `[N]`)."""
    from sklearn.datasets import load_digits

    data = load_digits()
    images = data.images.astype(np.float32)[:, None]
    digits = data.target.astype(np.int64)
    return (images[:-HELD_OUT], digits[:-HELD_OUT]), (images[-HELD_OUT:], digits[-HELD_OUT:])


def get_model() -> nn.Module:
    """The trained model, in eval mode; trains it when the cache has no weights of this version of the file."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    model = Digits().eval()
    cached = weights_path()
    try:
        model.load_state_dict(load_file(cached))
    except (OSError, SafetensorError):  # not there yet, or damaged
        train_digits(model)
        _save_weights(model, cached)
    return model


def get_args() -> tuple[torch.Tensor]:
    """Eight held-out scans, `[8, 1, 8, 8]`."""
    _, (images, _) = load_split()
    return (torch.from_numpy(images[:8].copy()),)


def calibration_data() -> Iterator[torch.Tensor]:
    """Batches of training scans, for `--quantize int8`: 20 of 16, `[16, 1, 8, 8]`."""
    (images, _), _ = load_split()
    for rows in range(0, 320, 16):
        yield torch.from_numpy(images[rows : rows + 16].copy())


def evaluate(run: Callable[[torch.Tensor], tuple[np.ndarray, ...]]) -> float:
    """The share of the held-out scans that are read right.

    Args:
        run: Runs the model on one batch; its outputs as arrays.
    """
    _, (images, digits) = load_split()
    right = 0
    for rows in range(0, HELD_OUT, 60):
        (scores,) = run(torch.from_numpy(images[rows : rows + 60].copy()))
        right += int((scores.argmax(1) == digits[rows : rows + 60]).sum())
    return right / HELD_OUT


def train_digits(model: nn.Module, seed: int = 0) -> None:
    """Train in place on the training scans; the same seed and the same PyTorch give the same weights."""
    (images, digits), _ = load_split()
    x, y = torch.from_numpy(images), torch.from_numpy(digits)
    threads = torch.get_num_threads()
    # One thread: sums keep their order whatever the machine, and so small a model gains nothing from more.
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            _fit(model, x, y)
    finally:
        torch.set_num_threads(threads)
    model.eval()


def _fit(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    for layer in model.modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear, nn.BatchNorm2d)):
            layer.reset_parameters()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    model.train()
    for _ in range(EPOCHS):
        for rows in torch.split(torch.randperm(len(x)), BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        schedule.step()


def weights_path() -> Path:
    """Where the trained weights are kept: the file's name carries this source's hash and PyTorch's version."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    key = hashlib.sha256(Path(__file__).read_bytes() + torch.__version__.encode()).hexdigest()[:16]
    return cache / "edgex" / "samples" / f"digits-{key}.safetensors"


def _save_weights(model: nn.Module, path: Path) -> None:
    """Write to a temporary neighbour and rename, so that an interrupted run leaves no half file."""
    from safetensors.torch import save_file

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            save_file(model.state_dict(), Path(folder) / path.name)
            (Path(folder) / path.name).replace(path)
    except OSError as error:
        warnings.warn(f"the trained digits weights were not kept, next time trains again: {error}", stacklevel=2)
