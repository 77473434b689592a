"""Short-time Fourier transforms as convolutions with windowed waves, and back.

```
before:  z = aten.stft.default(x, 64, 16, 64, window, ..., return_complex=True)     # [2, 1024] to [2, 33, 61]
after:   re = aten.conv1d.default(x[:, None], cosines, None, [16])
         im = aten.conv1d.default(x[:, None], sines, None, [16])

before:  y = aten.istft.default(z, 64, 16, 64, window, center=True)
after:   y = conv_transpose1d(re, cosines, None, [16]) + conv_transpose1d(im, sines, None, [16])
         y = y[..., 32:-32] * (1 / overlapping squares of the window)
```
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.graph.schema import named_arguments
from edgex.export.rewrites.complex.fourier import matrices
from edgex.export.rewrites.complex.operators import NotTaken, Pair, Step

# The longest window that becomes a convolution: its waves are 1024 x 513 numbers, 2 MiB each.
LONGEST = 1024

_aten = torch.ops.aten


def split_stft(step: Step, node: Node) -> Pair:
    """`stft` without `center`, which capture has taken apart."""
    given = named_arguments(node)
    signal = step.pair(given["self"])
    length, hop, window = _windowed(step, given)
    onesided = given["onesided"] is not False
    if signal.imag is not None or not given["return_complex"] or given.get("center") or given.get("align_to_window"):
        raise NotTaken
    scale = length**-0.5 if given["normalized"] else 1.0
    made = matrices(length, False, "real" if onesided else "complex", scale, torch.float64)
    assert made.real_to_imag is not None
    x = step.call(_aten.unsqueeze.default, signal.real, -2)
    dtype = signal.real.meta["val"].dtype
    parts = []
    for name, matrix in (("cosines", made.real_to_real), ("sines", made.real_to_imag)):
        waves = step.constant(f"{node.name}_{name}", _waves(matrix, window, dtype))
        parts.append(step.call(_aten.conv1d.default, x, waves, None, [hop]))
    return Pair(*parts)


def split_istft(step: Step, node: Node) -> Node:
    """`istft` to a real signal, of a known number of frames."""
    given = named_arguments(node)
    spectrum = step.pair(given["self"])
    length, hop, window = _windowed(step, given)
    shape = spectrum.real.meta["val"].shape
    if given["return_complex"] or given["onesided"] is False or not all(isinstance(size, int) for size in shape):
        raise NotTaken
    frames, edge = int(shape[-1]), length // 2 if given["center"] else 0
    whole = length + hop * (frames - 1)
    end = whole - edge if given["length"] is None else edge + given["length"]
    if end > whole or shape[-2] != length // 2 + 1:
        raise NotTaken
    made = matrices(length, True, "real", (length**0.5 if given["normalized"] else 1.0) / length, torch.float64)
    assert made.imag_to_real is not None
    dtype = spectrum.real.meta["val"].dtype
    parts = []
    for name, part, matrix in (
        ("cosines", spectrum.real, made.real_to_real),
        ("sines", spectrum.imag, made.imag_to_real),
    ):
        if part is not None:
            waves = step.constant(f"{node.name}_{name}", _waves(matrix.t(), window, dtype))
            part = part if len(shape) == 3 else step.call(_aten.unsqueeze.default, part, 0)
            parts.append(step.call(_aten.conv_transpose1d.default, part, waves, None, [hop]))
    summed = parts[0] if len(parts) == 1 else step.add(parts[0], parts[1])
    cut = step.call(_aten.slice.Tensor, summed, -1, edge, end)
    envelope = torch.zeros(whole, dtype=torch.float64)
    for frame in range(frames):
        envelope[frame * hop : frame * hop + length] += window * window
    inverse = step.constant(f"{node.name}_envelope", (1 / envelope[edge:end]).to(dtype))
    y = step.call(_aten.squeeze.dim, step.call(_aten.mul.Tensor, cut, inverse), 1)
    return y if len(shape) == 3 else step.call(_aten.squeeze.dim, y, 0)


def _waves(matrix: torch.Tensor, window: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """`[waves, 1, length]`, as convolutions take them."""
    return (matrix * window).unsqueeze(1).to(dtype)


def _windowed(step: Step, given: Mapping[str, Any]) -> tuple[int, int, torch.Tensor]:
    """Length, hop and window, which is as long."""
    length = int(given["n_fft"])
    hop = length // 4 if given["hop_length"] is None else int(given["hop_length"])
    width = length if given["win_length"] is None else int(given["win_length"])
    if length > LONGEST:
        raise NotTaken
    window = torch.ones(width, dtype=torch.float64)
    if given["window"] is not None:
        window = step.value(given["window"]).to(torch.float64)
    before = (length - width) // 2
    return length, hop, torch.nn.functional.pad(window, (before, length - width - before))
