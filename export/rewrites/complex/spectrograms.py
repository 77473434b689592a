"""Short-time Fourier transforms as convolutions with windowed waves, and back.

```
before:  z = aten.stft.default(x, 64, 16, 64, window, ..., return_complex=True)     # [2, 1024] to [2, 33, 61]
after:   re = aten.conv1d.default(x[:, None], cosines, None, [16])
         im = aten.conv1d.default(x[:, None], sines, None, [16])

before:  y = aten.istft.default(z, 64, 16, 64, window, center=True)
after:   waves = linear(re.mT, cosines) + linear(im.mT, sines)                         # [2, 61, 64]: a window each
         y = sum(pad(waves[..., 16 * i : 16 * i + 16], (0, 0, i, 3 - i)) for i in range(4)).view(2, 1, -1)
         y = y[..., 32:-32] * (1 / overlapping squares of the window)
```

Where windows do not begin a whole part of their length after each other, transposed convolutions sum them; these are
many times slower (of 129 frequencies to one channel, 0.01 of what the machine could multiply, on all engines).

Windows beyond `LONGEST` are cut out by slices and transformed in two steps, as `transforms` says; going back, their
parts of one hop each are summed:

```
before:  z = aten.stft.default(x, 4096, 1024, 4096, window, ..., return_complex=True)
after:   hops = x.view(1, -1, 1024);  n = frames
         z = rfft(cat([hops[:, :n], hops[:, 1 : n + 1], hops[:, 2 : n + 2], hops[:, 3 : n + 3]], -1) * window)
```
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.graph.schema import named_arguments
from edgex.export.rewrites.complex.fourier import matrices
from edgex.export.rewrites.complex.parts import NotTaken, Pair, Step, each
from edgex.export.rewrites.complex.transforms import transform_last

# The longest window that becomes one convolution: its waves are 1024 x 513 numbers, 2 MiB each.
LONGEST = 1024

_aten = torch.ops.aten


def split_stft(step: Step, node: Node) -> Pair:
    """`stft` without `center`, which capture has taken apart."""
    given = named_arguments(node)
    signal = step.pair(given["self"])
    length, hop, window = _windowed(given, step)
    onesided = given["onesided"] is not False
    if signal.imag is not None or not given["return_complex"] or given.get("center") or given.get("align_to_window"):
        raise NotTaken
    scale = length**-0.5 if given["normalized"] else 1.0
    if length > LONGEST:
        return _long_stft(step, node, signal.real, (length, hop, window), scale, onesided)
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
    length, hop, window = _windowed(given, step)
    shape = spectrum.real.meta["val"].shape
    if given["return_complex"] or given["onesided"] is False or not all(isinstance(size, int) for size in shape):
        raise NotTaken
    frames, edge = int(shape[-1]), length // 2 if given["center"] else 0
    whole = length + hop * (frames - 1)
    end = whole - edge if given["length"] is None else edge + given["length"]
    if end > whole or shape[-2] != length // 2 + 1:
        raise NotTaken
    scale = (length**0.5 if given["normalized"] else 1.0) / length
    dtype = spectrum.real.meta["val"].dtype
    batched = spectrum if len(shape) == 3 else each(spectrum, lambda x: step.call(_aten.unsqueeze.default, x, 0))
    if length > LONGEST:
        summed = _long_istft(step, node, batched, (length, hop, window), scale)
    else:
        summed = _overlap_waves(step, node, batched, (length, hop, window), scale)
    cut = step.call(_aten.slice.Tensor, summed, -1, edge, end)
    envelope = torch.zeros(whole, dtype=torch.float64)
    for frame in range(frames):
        envelope[frame * hop : frame * hop + length] += window * window
    inverse = step.constant(f"{node.name}_envelope", (1 / envelope[edge:end]).to(dtype))
    y = step.call(_aten.squeeze.dim, step.call(_aten.mul.Tensor, cut, inverse), 1)
    return y if len(shape) == 3 else step.call(_aten.squeeze.dim, y, 0)


# Length, hop, and the window, which is as long.
_Windows = tuple[int, int, torch.Tensor]


def _overlap_waves(step: Step, node: Node, spectrum: Pair, windows: _Windows, scale: float) -> Node:
    """The sum of all windows, `[batch, 1, samples]`: products with waves, or transposed convolutions."""
    length, hop, window = windows
    made = matrices(length, True, "real", scale, torch.float64)
    assert made.imag_to_real is not None
    dtype = spectrum.real.meta["val"].dtype
    summed: Node | None = None
    for name, part, matrix in (
        ("cosines", spectrum.real, made.real_to_real),
        ("sines", spectrum.imag, made.imag_to_real),
    ):
        if part is None:
            continue
        waves = _waves(matrix.t(), window, dtype)
        if length % hop:
            held = step.constant(f"{node.name}_{name}", waves)
            own = step.call(_aten.conv_transpose1d.default, part, held, None, [hop])
        else:
            held = step.constant(f"{node.name}_{name}", waves.squeeze(1).t().contiguous())
            own = step.call(_aten.linear.default, step.call(_aten.transpose.int, part, -1, -2), held)
        summed = step.add(summed, own)
    assert summed is not None
    return summed if length % hop else _overlap(step, summed, hop)


def _overlap(step: Step, signal: Node, hop: int) -> Node:
    """The sum of windows that begin a hop after each other: `[batch, frames, length]` to `[batch, 1, samples]`."""
    batch, frames, length = signal.meta["val"].shape
    count = length // hop
    summed: Node | None = None
    for at in range(count):
        part = step.call(_aten.slice.Tensor, signal, -1, at * hop, (at + 1) * hop)
        part = step.call(_aten.constant_pad_nd.default, part, [0, 0, at, count - 1 - at], 0.0)
        summed = step.add(summed, part)
    return step.call(_aten.reshape.default, summed, [batch, 1, (frames + count - 1) * hop])


def _long_stft(step: Step, node: Node, signal: Node, windows: _Windows, scale: float, onesided: bool) -> Pair:
    length, hop, window = windows
    shape = signal.meta["val"].shape
    if length % hop or not isinstance(shape[-1], int):
        raise NotTaken
    frames, lead = (shape[-1] - length) // hop + 1, list(shape[:-1])
    pieces = frames + length // hop - 1
    cut = step.call(_aten.slice.Tensor, signal, -1, 0, pieces * hop)
    hops = step.call(_aten.reshape.default, cut, [*lead, pieces, hop])
    slices = [step.call(_aten.slice.Tensor, hops, -2, at, at + frames) for at in range(length // hop)]
    framed = step.call(_aten.cat.default, slices, -1) if len(slices) > 1 else slices[0]
    framed = step.call(
        _aten.mul.Tensor, framed, step.constant(f"{node.name}_window", window.to(signal.meta["val"].dtype))
    )
    spectrum = transform_last(step, Pair(framed, None), length, False, "real" if onesided else "complex", scale)
    return each(spectrum, lambda x: step.call(_aten.transpose.int, x, -1, -2))


def _long_istft(step: Step, node: Node, spectrum: Pair, windows: _Windows, scale: float) -> Node:
    """The sum of all windows, `[batch, 1, samples]`."""
    length, hop, window = windows
    if length % hop:
        raise NotTaken
    rows = each(spectrum, lambda x: step.call(_aten.transpose.int, x, -1, -2))
    signal = transform_last(step, rows, length, True, "real", scale).real
    weight = step.constant(f"{node.name}_window", window.to(signal.meta["val"].dtype))
    return _overlap(step, step.call(_aten.mul.Tensor, signal, weight), hop)


def _waves(matrix: torch.Tensor, window: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """`[waves, 1, length]`, as convolutions take them."""
    return (matrix * window).unsqueeze(1).to(dtype)


def _windowed(given: Mapping[str, Any], step: Step) -> _Windows:
    length = int(given["n_fft"])
    hop = length // 4 if given["hop_length"] is None else int(given["hop_length"])
    width = length if given["win_length"] is None else int(given["win_length"])
    window = torch.ones(width, dtype=torch.float64)
    if given["window"] is not None:
        window = step.value(given["window"]).to(torch.float64)
    before = (length - width) // 2
    return length, hop, torch.nn.functional.pad(window, (before, length - width - before))
