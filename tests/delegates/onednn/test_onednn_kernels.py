"""No reference kernel where layouts are mixed: oneDNN computes them all the same, some hundred times slower."""

from __future__ import annotations

import ctypes
import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest
import torch
import torch.nn.functional as F
from onednn_cases import CASES as OPERATORS
from onednn_support import HAS_AVX512, Int8Conv, Int8Linear, Network, capture, load, lower, needs_onednn, rounded
from torch import nn

pytestmark = needs_onednn


def glu(x: torch.Tensor, layer: nn.Module) -> torch.Tensor:
    one, other = layer(x).chunk(2, -1)
    return F.silu(one) * other


def channel_glu(x: torch.Tensor, layer: nn.Module) -> torch.Tensor:
    one, other = layer(x).chunk(2, 1)
    return one * other.sigmoid()


def convnext_blocks(
    x: torch.Tensor, stem: nn.Module, depthwise: nn.Module, norm: nn.Module, up: nn.Module, down: nn.Module
) -> torch.Tensor:
    x = stem(x)
    for _ in range(2):
        made = norm(depthwise(x).permute(0, 2, 3, 1))
        x = x + (down(F.gelu(up(made))) * 0.5).permute(0, 3, 1, 2)
    return x


def audio_stem(x: torch.Tensor, layer: nn.Module, positions: nn.Module) -> torch.Tensor:
    return F.gelu(layer(x)).permute(0, 2, 1) + positions.weight


def channel_softmax(x: torch.Tensor, layer: nn.Module) -> torch.Tensor:
    return layer(x).softmax(1)


def channel_norm(x: torch.Tensor, layer: nn.Module) -> torch.Tensor:
    made = layer(x)
    centred = made - made.mean(1, keepdim=True)
    return layer(centred / torch.sqrt(centred.pow(2).mean(1, keepdim=True) + 1e-6))


def permuted_sum(x: torch.Tensor, layer: nn.Module) -> torch.Tensor:
    return layer(x) + F.relu(x).permute(0, 1, 3, 2)


def windows(x: torch.Tensor, layer: nn.Module, norm: nn.Module) -> torch.Tensor:
    x = x.permute(0, 2, 3, 1)
    parts = norm(x).view(1, 4, 4, 4, 4, 32).permute(0, 1, 3, 2, 4, 5).reshape(16, 16, 32)
    x = x + layer(parts).view(1, 4, 4, 4, 4, 32).permute(0, 1, 3, 2, 4, 5).reshape(1, 16, 16, 32)
    return x + layer(F.gelu(layer(norm(x))))


def chains(make: Callable[..., torch.Tensor], shape: Sequence[int]) -> Callable[..., tuple[torch.Tensor, ...]]:
    """What a network does with the result of a layer: sums and products with tensors of all repetitions."""

    def run(x: torch.Tensor, *layer: nn.Module) -> tuple[torch.Tensor, ...]:
        def tensor(*kept: int) -> torch.Tensor:
            # Of the input, so that it lies as the caller's tensors do.
            sizes = [size if dim in kept else 1 for dim, size in enumerate(shape)]
            return x.flatten()[: math.prod(sizes)].reshape(sizes) + 1

        dims = range(len(shape))
        whole, channel, place = tensor(*dims), tensor(1), tensor(*dims[2:])

        def made() -> torch.Tensor:
            return make(x, *layer)

        return (
            *(
                made() + whole,
                made() * whole,
                F.relu(made()) + whole,
                made() + x.sum() + whole,
                made() + whole + whole.abs(),
            ),
            *(made() * channel, made() + place, made() * tensor(dims[-1]), made() + tensor(0), made() * tensor(0, 1)),
            *(F.silu(made()) * channel + whole, F.gelu(made() * whole), (made() + channel) * whole, whole - made()),
            *(torch.maximum(made(), whole), F.relu(made() * whole + whole), (made() / whole.exp()).sigmoid() * whole),
            *(made() + tensor(0, *dims[2:]), made() * tensor(*dims[1:-1]), tensor(dims[-1]) - made()),
        )

    return run


def rows_by_hand(x: torch.Tensor, layer: nn.Module, scale: nn.Module) -> torch.Tensor:
    """RMS norm, then a gate and a shift for each sample, as diffusion transformers have them."""
    x = x * (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * scale.weight[0]
    gate, shift = layer(x[:, 0]).chunk(2, -1)
    return x * (1 + gate[:, None]) + shift[:, None]


def merged_patches(x: torch.Tensor, norm: nn.Module, layer: nn.Module) -> torch.Tensor:
    parts = [x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
    return layer(norm(torch.cat(parts, -1)))


def windows_of_heads(x: torch.Tensor, layer: nn.Module, bias: nn.Module, mask: nn.Module) -> torch.Tensor:
    """Swin, by hand and with the operator: a bias for each head, a mask for each window."""
    query, key, value = layer(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
    added = bias.weight.view(4, 16, 16) + mask.weight.view(-1, 1, 16, 16)
    scores = F.normalize(query, dim=-1) @ F.normalize(key, dim=-1).transpose(-2, -1) + bias.weight.view(4, 16, 16)
    mixed = (scores + mask.weight.view(-1, 1, 16, 16)).softmax(-1) @ value
    return mixed + F.scaled_dot_product_attention(query, key, value, attn_mask=added)


def bias_of_places(x: torch.Tensor, layer: nn.Module, places: nn.Module) -> tuple[torch.Tensor, ...]:
    """Swin V2: a bias that a product makes for each place, heads innermost, and that is permuted to the scores."""
    query, key, value = layer(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
    bias = places(x[0].repeat(16, 1)).view(16, 16, 4).permute(2, 0, 1)
    scores = query @ key.transpose(-2, -1)
    sums = scores + 16 * bias.sigmoid(), scores * bias.contiguous(), bias.exp() - scores, scores + bias[:, :1]
    return *(one.softmax(-1) @ value for one in sums), scores + bias.mT, F.relu(scores + bias[0])


def relative_places(x: torch.Tensor, layer: nn.Module, rows: nn.Module, columns: nn.Module) -> torch.Tensor:
    """SAM: scores of 4 x 4 places, with what the query says of rows and columns."""
    query, key, value = layer(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
    places = query.unflatten(2, (4, 4))
    by_row = torch.einsum("bhrcs,rks->bhrck", places, rows.weight.view(4, 4, 8))[..., None]
    by_column = torch.einsum("bhrcs,cks->bhrck", places, columns.weight.view(4, 4, 8))[..., None, :]
    scores = (query @ key.transpose(-2, -1) * 0.3).unflatten(3, (4, 4)).unflatten(2, (4, 4))
    return (scores + by_row + by_column).flatten(4, 5).flatten(2, 3).softmax(-1) @ value


def spatial_attention(
    x: torch.Tensor, norm: nn.Module, layer: nn.Module, rows: nn.Module, columns: nn.Module
) -> torch.Tensor:
    """A weight a place, which two products made and which so lies by columns; then the residual (CSATv2)."""
    made = layer(norm(x.permute(0, 2, 3, 1))).permute(0, 3, 1, 2)
    small = made.mean(1, keepdim=True)[..., :8, :8]
    places = (columns.weight @ (rows.weight @ small).transpose(2, 3)).transpose(2, 3)
    return x + made * places


def pooled_queries(x: torch.Tensor, layer: nn.Module) -> tuple[torch.Tensor, ...]:
    """A third of what a layer gives for each place, as an image: gaps between places (Hiera)."""
    query, key, value = (
        part.view(x.shape).permute(0, 3, 1, 2) for part in layer(x).view(len(x), -1, 3, x.shape[-1]).unbind(2)
    )
    return F.max_pool2d(query, 2), F.avg_pool2d(key, 3, 2, 1), F.interpolate(value, scale_factor=2.0, mode="bilinear")


def pooled_rows(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What a norm over the whole image writes by rows (PoolFormer)."""
    made = F.group_norm(x, 1)
    return F.avg_pool2d(made, 3, 1, 1), F.max_pool2d(made, 2)


def single_columns(x: torch.Tensor, low: nn.Module, whole: nn.Module, columns: nn.Module) -> torch.Tensor:
    """Matrices of one column, some of which lie with others behind their numbers (DCN-v2 with experts)."""
    first = whole(x).unsqueeze(2)
    made = first * (columns.weight @ low(x).tanh().unsqueeze(2) + columns.weight[:, :1])
    return torch.cat([made, first], 2)


def every_other(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Rows of 17 numbers of which every other one is read."""
    y = (x + 1)[..., ::2]
    return y.softmax(-1), y @ y.mT, y.sum(-1), torch.cat([y, y], 1), y.transpose(1, 2) + 1


def sinks(x: torch.Tensor) -> torch.Tensor:
    """Attention with a score that no key has (gpt-oss), also behind a scale; and a maximum of what is joined."""
    query, key, value = x.unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
    scores = torch.cat([query @ key.transpose(-2, -1), query[..., :1].abs()], -1)
    mixed = scores.softmax(-1)[..., :-1] @ value + (scores * 0.5).softmax(-1)[..., :-1] @ value
    return mixed + scores.amax(-1, keepdim=True)


def small_block(x: torch.Tensor, norm: nn.Module, up: nn.Module, down: nn.Module) -> torch.Tensor:
    # No GELU: PyTorch asks a oneDNN of its own for that, which writes to the same log.
    rooted = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
    return rooted + down(F.silu(up(norm(x))) * torch.tanh(up(x)).sigmoid())


def int8_image_residual(x: torch.Tensor, point: nn.Module, places: nn.Module) -> torch.Tensor:
    """A sum with images that lie by rows, as what is computed of the caller's: the convolution lies by channels."""
    for layer in (point, places):
        x = x - x.mean(1, keepdim=True)
        x = rounded(layer(rounded(x)) + x)
    return point(x)


def int8_residual(x: torch.Tensor, layer: nn.Module) -> torch.Tensor:
    return rounded(rounded(F.gelu(rounded(layer(rounded(x))))) + rounded(x))


def int8_talking_heads(x: torch.Tensor, before: nn.Module, after: nn.Module) -> torch.Tensor:
    """Scores that lie by rows between convolutions over the heads, which want these innermost."""
    return after(rounded((before(rounded(x)) + 1).softmax(-1), -128))


def as_it_is(given: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return given + x


def by_channels(given: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return (given.movedim(1, -1).contiguous() + x).movedim(-1, 1) if given.dim() > 1 else given + x


def by_columns(given: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return (given.mT.contiguous() + x).mT if given.dim() > 1 else given + x


def with_gaps(given: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return (torch.cat([given, given], -1) + x)[..., : given.shape[-1]] if given.dim() > 1 else given + x


def by_channels_with_gaps(given: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return with_gaps(given.movedim(1, -1).contiguous(), x).movedim(-1, 1) if given.dim() > 1 else given + x


def all_operators(lie: Callable[..., torch.Tensor], *, mixed: bool) -> Callable[..., list[torch.Tensor]]:
    """Every case of the operators' table, in one program; `mixed`: only the first input lies so."""

    def run(x: torch.Tensor, *layers: nn.Module) -> list[torch.Tensor]:
        found: list[torch.Tensor] = []
        left = list(layers)
        for name, (function, inputs, *own) in OPERATORS.items():
            taken = [left.pop(0) for _ in (own[0] if own else ())]
            # Dilated: oneDNN has no other kernel. And a view that needs rows.
            if name == "max_pool" or (lie is not as_it_is and name == "views_alone_and_twice"):
                continue
            numbers = [(lie if number == 0 or not mixed else as_it_is)(given, x) for number, given in enumerate(inputs)]
            made = function(*numbers, *taken)
            found.extend(made if isinstance(made, (tuple, list)) else [made])
        return found

    return run


# Smaller ones the backend would compute by itself.
IMAGE = (1, 32, 32, 32)
CASES: dict[str, tuple] = {
    "behind_convolution": (chains(lambda x, c: c(x), (2, 8, 45, 45)), (2, 8, 45, 45), nn.Conv2d(8, 8, 3, padding=1)),
    **{
        f"behind_{name}": (chains(lambda x, c: c(x), (2, 8, 45, 45)), (2, 8, 45, 45), layer)
        for name, layer in {
            "groups": nn.Conv2d(8, 8, 3, padding=1, groups=2),
            "channels": nn.Conv2d(8, 8, 3, padding=1, groups=8),
            "dilated_channels": nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=8),
        }.items()
    },
    "pooled_rows": (pooled_rows, IMAGE),
    "single_columns": (single_columns, (64, 32), nn.Linear(32, 16), nn.Linear(32, 85), nn.Embedding(85, 16)),
    "every_other": (every_other, (3, 40, 17)),
    "behind_product": (chains(lambda x: x @ x.mT, (2, 5, 49, 49)), (2, 5, 49, 49)),
    "behind_concatenation": (chains(lambda x: torch.cat([x, x], 1)[:, :4], (2, 4, 45, 65)), (2, 4, 45, 65)),
    **{
        f"all_operators_{lie.__name__}{'_mixed' * mixed}": (
            *(all_operators(lie, mixed=mixed), (1,)),
            *(layer for case in OPERATORS.values() for layer in (*case[2:], ())[0]),
        )
        for lie in (as_it_is, by_channels, by_columns, with_gaps, by_channels_with_gaps)
        for mixed in ((False, True) if lie is not as_it_is else (False,))
    },
    "rows_by_hand": (rows_by_hand, (2, 512, 64), nn.Linear(64, 128), nn.Embedding(1, 64)),
    "merged_patches": (merged_patches, (1, 64, 64, 8), nn.LayerNorm(32), nn.Linear(32, 16)),
    "windows_of_heads": (windows_of_heads, (8, 16, 32), nn.Linear(32, 96), nn.Embedding(4, 256), nn.Embedding(8, 256)),
    "bias_of_places": (bias_of_places, (8, 16, 32), nn.Linear(32, 96), nn.Linear(32, 4)),
    "int8_image_residual": (int8_image_residual, IMAGE, Int8Conv(32, pointwise=True), Int8Conv(32)),
    "int8_talking_heads": (
        int8_talking_heads,
        IMAGE,
        *(Int8Conv(32, pointwise=True), Int8Conv(32, pointwise=True)),
    ),
    "int8_residual": (int8_residual, (128, 64), Int8Linear(64, 64)),
    "sinks": (sinks, (2, 128, 96)),
    "relative_places": (relative_places, (64, 16, 32), nn.Linear(32, 96), nn.Embedding(16, 8), nn.Embedding(16, 8)),
    "glu": (glu, IMAGE, nn.Linear(32, 64)),
    "channel_glu": (channel_glu, IMAGE, nn.Conv2d(32, 64, 1)),
    "convnext_blocks": (
        convnext_blocks,
        IMAGE,
        *(nn.Conv2d(32, 32, 2, 2), nn.Conv2d(32, 32, 7, padding=3, groups=32), nn.LayerNorm(32)),
        *(nn.Linear(32, 128), nn.Linear(128, 32)),
    ),
    "audio_stem": (audio_stem, (1, 32, 64), nn.Conv1d(32, 48, 3, padding=1), nn.Embedding(64, 48)),
    "channel_softmax": (channel_softmax, IMAGE, nn.Conv2d(32, 21, 1)),
    "channel_norm": (channel_norm, IMAGE, nn.Conv2d(32, 32, 1)),
    "permuted_sum": (permuted_sum, IMAGE, nn.Linear(32, 32)),
    "spatial_attention": (
        *(spatial_attention, IMAGE, nn.LayerNorm(32), nn.Linear(32, 32)),
        *(nn.Embedding(32, 8), nn.Embedding(32, 8)),
    ),
    "pooled_queries": (pooled_queries, (4, 16, 16, 32), nn.Linear(32, 96)),
    "windows": (windows, (1, 32, 16, 16), nn.Linear(32, 32), nn.LayerNorm(32)),
}
# Where oneDNN has other kernels on a machine without AVX-512, and these fuse less.
FUSED = (
    *("behind_convolution", "behind_groups", "behind_channels", "behind_dilated_channels", "behind_product"),
    *("behind_concatenation", "bias_of_places", "int8_image_residual", "int8_residual", "int8_talking_heads"),
    "pooled_rows",
)
# The table again in further orders: half a minute each.
SLOW = tuple(
    f"all_operators_{order}"
    for order in (
        *("by_channels", "by_channels_mixed", "by_columns", "by_columns_mixed", "with_gaps", "with_gaps_mixed"),
        *("by_channels_with_gaps", "by_channels_with_gaps_mixed"),
    )
)
# Where a call of oneDNN's costs more than all there is to compute.
SMALL: dict[str, tuple] = {
    "small_block": (small_block, (2, 5, 16), nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)),
}


@pytest.fixture(scope="module")
def kernels() -> dict[str, list[str]]:
    return log_kernels("DEFAULT", [name for name in (*CASES, *SMALL) if name not in SLOW])


@pytest.fixture(scope="module")
def kernels_of_further_orders() -> dict[str, list[str]]:
    return log_kernels("DEFAULT", SLOW)


@pytest.fixture(scope="module")
def kernels_without_avx512(kernels: dict[str, list[str]]) -> dict[str, list[str]]:
    return log_kernels("AVX2", FUSED) if HAS_AVX512 else kernels


def log_kernels(isa: str, names: Sequence[str]) -> dict[str, list[str]]:
    """For each case what oneDNN's log says of what it executed, in a process that has the log from its start."""
    environment = {
        **os.environ,
        "DNNL_VERBOSE": "1",
        "ONEDNN_MAX_CPU_ISA": isa,
        "OMP_WAIT_POLICY": "passive",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    command = [sys.executable, __file__, *names]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        if line.startswith("case "):
            found[line.removeprefix("case ")] = []
        elif ",exec," in line:
            found[list(found)[-1]].append(line)
    assert list(found) == list(names) and any(found.values()), "oneDNN has logged nothing"
    return found


@pytest.mark.parametrize("name", [name for name in CASES if name not in SLOW])
def test_no_reference_kernel(name: str, kernels: dict[str, list[str]]) -> None:
    slow = [line for line in kernels[name] if ",ref:" in line or ",gemm:ref" in line]
    assert not slow, "\n".join(slow)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_no_reference_kernel_in_further_orders(name: str, kernels_of_further_orders: dict[str, list[str]]) -> None:
    test_no_reference_kernel(name, kernels_of_further_orders)


@pytest.mark.parametrize("name", FUSED)
def test_no_reference_kernel_without_avx512(name: str, kernels_without_avx512: dict[str, list[str]]) -> None:
    test_no_reference_kernel(name, kernels_without_avx512)


def test_no_pooling_of_rows(kernels: dict[str, list[str]], kernels_without_avx512: dict[str, list[str]]) -> None:
    """It goes number by number without AVX-512, under another name."""
    for name, lines in (("default", kernels["pooled_rows"]), ("avx2", kernels_without_avx512["pooled_rows"])):
        assert not any(",simple_nchw" in line for line in lines), name


@pytest.mark.parametrize("name", SMALL)
def test_no_kernel_at_all(name: str, kernels: dict[str, list[str]]) -> None:
    assert not kernels[name], "\n".join(kernels[name])


def execute() -> None:
    """Run all cases; the log goes to the standard output, behind a line with the case's name."""
    c = ctypes.CDLL(None)
    for name in sys.argv[1:]:
        function, shape, *layers = (CASES | SMALL)[name]
        inputs = [torch.ones(shape)]
        print("case", name, flush=True)
        loaded = load(lower(capture(Network(function, *layers), inputs)), threads=1)
        loaded(*inputs)
        c.fflush(None)
        loaded.runner.close()


if __name__ == "__main__":
    execute()
