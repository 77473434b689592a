"""Weights in 8 and 4 bits as the backend's kernels read them: sixteen outputs side by side.

```
weights  8 bits: s8 [blocks, groups, group / 4, 16 outputs, 4 inputs]
         4 bits: u8 [blocks, groups, group / 8, 16 outputs, 4 inputs], each byte 8 + the number of one of the first
                 four inputs, and in its upper half 8 + that of one of the four after them
scales   f32 [blocks, groups, 16]
sums     f32 [blocks, 16]: of what an output's weights mean, for the zero points of activations
```

Outputs that fill the last block are zeros, and so are inputs that fill a layer's only group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgex.delegates.recipes.pieces import fill_in_pieces

if TYPE_CHECKING:
    import torch

# Outputs of a block: what one register of AVX-512 has sums for.
BLOCK = 16
# Inputs whose products a processor sums at once.
QUAD = 4


def packed_shape(outputs: int, inputs: int, groups: int, bits: int) -> tuple[int, int, int]:
    """Blocks, groups and bytes of a group of the packed weights."""
    group = -(-inputs // groups // QUAD) * QUAD
    return -(-outputs // BLOCK), groups, group * BLOCK * bits // 8


def pack_weights(weight: torch.Tensor, groups: int, bits: int) -> torch.Tensor:
    """The weights `[out, in]` as bytes of the shape that `packed_shape` tells; int8, or uint8 for 4 bits."""
    import torch

    outputs, inputs = weight.shape
    group = -(-inputs // groups // QUAD) * QUAD

    def pack(rows: slice) -> tuple[torch.Tensor]:
        some = weight[rows]
        padded = torch.zeros(-(-len(some) // BLOCK) * BLOCK, groups * group, dtype=torch.int8)
        padded[: len(some), :inputs] = some
        quads = padded.view(-1, BLOCK, groups, group // QUAD, QUAD).permute(0, 2, 3, 1, 4)
        if bits == 8:
            return (quads.reshape(len(quads), groups, -1),)
        numbers = (quads + 8).to(torch.uint8)
        return ((numbers[:, :, 0::2] | (numbers[:, :, 1::2] << 4)).reshape(len(quads), groups, -1),)

    blocks, _, _ = packed_shape(outputs, inputs, groups, bits)
    (packed,) = fill_in_pieces(blocks, BLOCK * inputs, lambda some: pack(slice(some.start * BLOCK, some.stop * BLOCK)))
    return packed


def pack_scales(scale: torch.Tensor) -> torch.Tensor:
    """The scales `[out, groups]` as `[blocks, groups, 16]`."""
    import torch

    outputs, groups = scale.shape
    blocks = -(-outputs // BLOCK)
    padded = torch.zeros(blocks * BLOCK, groups)
    padded[:outputs] = scale
    return padded.view(blocks, BLOCK, groups).transpose(1, 2).contiguous()


def sum_weights(weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """What the weights of each output come to, `[blocks, 16]`."""
    import torch

    (outputs, inputs), groups = weight.shape, scale.shape[1]

    def add(rows: slice) -> tuple[torch.Tensor]:
        some = weight[rows].view(-1, groups, inputs // groups).sum(-1, dtype=torch.int64)
        return ((some.double() * scale[rows].double()).sum(-1).float(),)

    padded = torch.zeros(-(-outputs // BLOCK) * BLOCK)
    (padded[:outputs],) = fill_in_pieces(outputs, inputs, add)
    return padded.view(-1, BLOCK)
