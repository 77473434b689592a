"""Regions of interest and deformable convolutions in samples of images, which are rows of a table.

```
before:  y = torchvision.roi_align.default(x, rois, 0.25, 7, 7, 2, False)       # x: [1, 64, 50, 50], rois: [100, 5]
after:   places = each roi's 14 x 14 points, y and x apart                      # [19600]
         y = (bilinear samples of x there).reshape(100, 7, 2, 7, 2, 64).mean([2, 4]).permute(0, 3, 1, 2)

before:  y = torchvision.deform_conv2d.default(x, weight, offset, mask, bias, …)
after:   y = weight @ (bilinear samples of x at each kernel element's place + its offset, times mask) + bias
```
"""

from __future__ import annotations

from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.detection.points import sample
from edgex.export.rewrites.editing.substitution import Rules, static, substitute

# Whole numbers that float32 has without gaps.
_MOST_PLACES = 2**24


def write_regions(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such operator; the same program comes back without one, or where torchvision is not loaded."""
    rules: Rules = {}
    for name, rule in (("roi_align", _aligned), ("deform_conv2d", _deformed)):
        if hasattr(torch.ops.torchvision, name):
            rules = {**rules, getattr(torch.ops.torchvision, name).default: rule}
    return substitute(
        program, "write_regions", rules, "{count} operator(s) of torchvision ({operators}) became samples"
    )


def _fits(x: torch.Tensor) -> bool:
    return x.dtype == torch.float32 and static(*x.shape) and x[:, 0].numel() <= _MOST_PLACES


def _aligned(
    x: torch.Tensor, rois: torch.Tensor, scale: float, rows: int, columns: int, samples: int, aligned: bool
) -> Any:
    """With a fixed number of samples: else it depends on the sizes of the regions."""
    if samples <= 0 or not _fits(x):
        return NotImplemented
    height, width = x.shape[2:]
    offset = 0.5 if aligned else 0.0
    image, left, top, right, bottom = rois.unbind(1)
    left, top, right, bottom = (side * scale - offset for side in (left, top, right, bottom))
    wide, high = right - left, bottom - top
    if not aligned:
        wide, high = wide.clamp(min=1.0), high.clamp(min=1.0)

    def places(start: torch.Tensor, length: torch.Tensor, bins: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
        steps = (torch.arange(bins * samples, dtype=x.dtype) + 0.5) / samples
        at = start.unsqueeze(1) + (length / bins).unsqueeze(1) * steps
        return at.clamp(0.0, size - 1.0), ((at >= -1.0) & (at <= size)).to(x.dtype)

    y, in_height = places(top, high, rows, height)
    z, in_width = places(left, wide, columns, width)
    shape = (-1, rows * samples, columns * samples)
    y, z = y.unsqueeze(2).expand(shape), z.unsqueeze(1).expand(shape)
    inside = in_height.unsqueeze(2) * in_width.unsqueeze(1)
    images = image.reshape(-1, 1, 1).expand(shape)
    found = sample(x, images.reshape(-1), y.reshape(-1), z.reshape(-1)) * inside.reshape(-1, 1)
    means = found.reshape(-1, rows, samples, columns, samples, x.shape[1]).mean([2, 4])
    return means.permute(0, 3, 1, 2)


def _deformed(
    x: torch.Tensor,
    weight: torch.Tensor,
    offset: torch.Tensor,
    mask: torch.Tensor,
    bias: torch.Tensor,
    stride_high: int,
    stride_wide: int,
    pad_high: int,
    pad_wide: int,
    step_high: int,
    step_wide: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> Any:
    if not _fits(x) or not static(*offset.shape):
        return NotImplemented
    count, channels, _, _ = x.shape
    rows, columns = weight.shape[2:]
    high, wide = offset.shape[2:]
    elements = rows * columns
    moves = offset.reshape(count * offset_groups, elements, 2, high, wide)

    def places(starts: torch.Tensor, kernel: torch.Tensor, shape: list[int], of_kernel: list[int]) -> torch.Tensor:
        return starts.reshape(shape) + kernel.reshape(of_kernel)

    floats: dict[str, Any] = {"dtype": x.dtype}
    y = places(
        torch.arange(high, **floats) * stride_high - pad_high, torch.arange(rows, **floats) * step_high,
        [1, 1, high, 1], [rows, 1, 1, 1],
    ).expand(rows, columns, high, wide).reshape(1, elements, high, wide)  # fmt: skip
    z = places(
        torch.arange(wide, **floats) * stride_wide - pad_wide, torch.arange(columns, **floats) * step_wide,
        [1, 1, 1, wide], [1, columns, 1, 1],
    ).expand(rows, columns, high, wide).reshape(1, elements, high, wide)  # fmt: skip
    y, z = y + moves[:, :, 0], z + moves[:, :, 1]
    images = x.reshape(count * offset_groups, channels // offset_groups, *x.shape[2:])
    image = torch.arange(count * offset_groups, **floats).reshape(-1, 1).expand(-1, elements * high * wide)
    found = sample(images, image.reshape(-1), y.reshape(-1), z.reshape(-1))
    if use_mask:
        found = found * mask.reshape(-1, 1)
    # From [image, group of offsets, element, place, channel] to each image's channels and elements.
    found = found.reshape(count, offset_groups, elements, high * wide, channels // offset_groups)
    found = found.permute(0, 1, 4, 2, 3).reshape(count, groups, channels // groups * elements, high * wide)
    kernels = weight.reshape(1, groups, weight.shape[0] // groups, channels // groups * elements)
    result = torch.matmul(kernels, found).reshape(count, weight.shape[0], high, wide)
    return result + bias.reshape(1, -1, 1, 1)
