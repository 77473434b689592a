"""Write an image's pixels as a sequence, and back, as permutes of the image's four dimensions.

```
before:  y = aten.transpose.int(aten.flatten.using_ints(x, 2), 1, 2)    # x: [1, 96, 14, 14], patches as tokens
after:   y = aten.permute.default(x, [0, 2, 3, 1]).reshape(1, 196, 96)

before:  y = aten.view.default(aten.transpose.int(x, 1, 2), [1, 96, 14, 14])
after:   y = aten.permute.default(x.reshape(1, 14, 14, 96), [0, 3, 1, 2])

before:  y = aten.pixel_shuffle.default(x, 2)                           # x: [1, 64, 80, 80]
after:   pixels = aten.permute.default(x, [0, 2, 3, 1]).reshape(1, 80, 80, 16, 2, 2).permute(0, 1, 4, 2, 5, 3)
         y = aten.permute.default(pixels.reshape(1, 160, 160, 16), [0, 3, 1, 2])
```

XNNPACK has images with their channels last: such a permute moves nothing behind a convolution or ahead of one. The same
for `pixel_unshuffle` and `channel_shuffle`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute

aten = torch.ops.aten

_VIEWS = (aten.view.default, aten.reshape.default, aten.flatten.using_ints, aten.unflatten.int)


def permute_pixels(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such pair of a view and a transpose; the same program comes back without one."""
    to_tokens = Rule(_tokens, where=_is_of_image, operands=_sources)
    to_image = Rule(_image, where=_is_of_tokens, operands=_sources)
    rules: Rules = {
        aten.transpose.int: to_tokens,
        aten.permute.default: to_tokens,
        **dict.fromkeys(_VIEWS, to_image),
        aten.pixel_shuffle.default: _to_pixels,
        aten.pixel_unshuffle.default: _to_channels,
        aten.channel_shuffle.default: _among_channels,
    }
    return substitute(program, "permute_pixels", rules, "{count} operator(s) ({operators}) became permutes of images")


def _sources(node: Node) -> tuple[Any, ...]:
    """What the first operator of the pair reads, and the sizes of the result."""
    source: Any = node.args[0]
    return source.args[0], list(node.meta["val"].shape)


def _is_of_image(node: Node) -> bool:
    """Whether it swaps the channels and the pixels of a flattened image."""
    source: Any = node.args[0]
    if not isinstance(source, Node) or source.target not in _VIEWS or not _swaps(node):
        return False
    image: Any = source.args[0]
    return _is_flattened(image.meta["val"], source.meta["val"])


def _is_of_tokens(node: Node) -> bool:
    """Whether it is an image of a sequence whose channels were brought ahead."""
    source: Any = node.args[0]
    if not isinstance(source, Node) or not _swaps(source) or _is_of_image(source):
        return False
    return _is_flattened(node.meta["val"], source.meta["val"])


def _is_flattened(image: torch.Tensor, flat: torch.Tensor) -> bool:
    """Whether the second is the first with height and width as one dimension."""
    if image.dim() != 4 or not image.is_floating_point() or not static(*image.shape, *flat.shape):
        return False
    count, channels, height, width = image.shape
    return tuple(flat.shape) == (count, channels, height * width)


def _swaps(node: Node) -> bool:
    """Whether it swaps the last two of three dimensions."""
    if node.target not in (aten.transpose.int, aten.permute.default) or node.meta["val"].dim() != 3:
        return False
    given = named_arguments(node)
    if node.target is aten.permute.default:
        return [dim % 3 for dim in given["dims"]] == [0, 2, 1]
    return {given["dim0"] % 3, given["dim1"] % 3} == {1, 2}


def _tokens(image: torch.Tensor, shape: list[int]) -> torch.Tensor:
    return image.permute(0, 2, 3, 1).reshape(shape)


def _image(tokens: torch.Tensor, shape: list[int]) -> torch.Tensor:
    count, channels, height, width = shape
    return tokens.reshape(count, height, width, channels).permute(0, 3, 1, 2)


def _to_pixels(x: torch.Tensor, by: int) -> Any:
    if not _is_image(x):
        return NotImplemented
    count, channels, height, width = x.shape
    parts = x.permute(0, 2, 3, 1).reshape(count, height, width, channels // by**2, by, by).permute(0, 1, 4, 2, 5, 3)
    return parts.reshape(count, height * by, width * by, channels // by**2).permute(0, 3, 1, 2)


def _to_channels(x: torch.Tensor, by: int) -> Any:
    if not _is_image(x):
        return NotImplemented
    count, channels, height, width = x.shape
    parts = x.permute(0, 2, 3, 1).reshape(count, height // by, by, width // by, by, channels).permute(0, 1, 3, 5, 2, 4)
    return parts.reshape(count, height // by, width // by, channels * by**2).permute(0, 3, 1, 2)


def _among_channels(x: torch.Tensor, groups: int) -> Any:
    if not _is_image(x):
        return NotImplemented
    count, channels, height, width = x.shape
    parts = x.permute(0, 2, 3, 1).reshape(count, height, width, groups, channels // groups).transpose(3, 4)
    return parts.reshape(count, height, width, channels).permute(0, 3, 1, 2)


def _is_image(x: torch.Tensor) -> bool:
    return x.dim() == 4 and x.is_floating_point() and static(*x.shape)
