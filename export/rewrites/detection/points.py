"""Bilinear samples of images at places in pixels, as rows of a table: what torchvision's operators have in common."""

from __future__ import annotations

import torch


def sample(images: torch.Tensor, image: torch.Tensor, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Samples, 0 for what a corner outside of the image would add.

    Args:
        images: `[count, channels, height, width]`.
        image: Which image each place is in, floating-point numbers, as many as `y` or one.
        y: Rows, `[places]`, counted from the centre of the first pixel.
        x: Columns, alike.

    Returns:
        `[places, channels]`.
    """
    count, channels, height, width = images.shape
    table = images.permute(0, 2, 3, 1).reshape(count * height * width, channels)
    top, left = torch.floor(y), torch.floor(x)
    found = None
    for row, by_row in ((top, 1.0 - (y - top)), (top + 1.0, y - top)):
        for column, by_column in ((left, 1.0 - (x - left)), (left + 1.0, x - left)):
            inside = (row >= 0) & (row <= height - 1) & (column >= 0) & (column <= width - 1)
            weight = torch.where(inside, by_row * by_column, 0.0)
            place = (image * height + row.clamp(0, height - 1)) * width + column.clamp(0, width - 1)
            number = place.to(torch.int64).clamp(0, len(table) - 1)  # NaN becomes any number
            part = table.index_select(0, number) * weight.unsqueeze(1)
            found = part if found is None else found + part
    assert found is not None
    return found
