"""Every operator of the target onednn as a case: a function, its inputs, its layers."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from onednn_support import random
from torch import nn


def layers(*made: nn.Module) -> tuple[nn.Module, ...]:
    generator = torch.Generator().manual_seed(1)
    for layer in made:
        for value in layer.state_dict().values():
            if value.is_floating_point():
                value.copy_(torch.rand(value.shape, generator=generator) + 0.1)
    return made


IMAGE, WIDE = random(2, 4, 6, 6), random(2, 4, 6, 6, seed=1)
TOKENS, OTHER = random(2, 5, 8), random(2, 5, 8, seed=2)

# Name -> (function of inputs and layers, inputs, layers). One case may hold several forms of one operator.
CASES: dict[str, tuple] = {
    "relu": (lambda x: F.relu(x), (IMAGE,)),
    "sigmoid": (lambda x: x.sigmoid(), (IMAGE,)),
    "tanh": (lambda x: x.tanh(), (IMAGE,)),
    "gelu": (lambda x: F.gelu(x), (IMAGE,)),
    "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), (IMAGE,)),
    "elu": (lambda x: (F.elu(x), F.elu(x, 0.7), F.selu(x)), (IMAGE,)),
    "prelu": (lambda x, y, a, b: (a(x), b(y)), (IMAGE, TOKENS), layers(nn.PReLU(4), nn.PReLU())),
    "pad": (lambda x, y: (F.pad(x, (1, 0, 2, 3), value=0.5), F.pad(y, (2, 0))), (IMAGE, TOKENS)),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.2), (IMAGE,)),
    "hardswish": (lambda x: F.hardswish(x * 3), (IMAGE,)),
    "hardsigmoid": (lambda x: F.hardsigmoid(x * 3), (IMAGE,)),
    "mish": (lambda x: F.mish(x), (IMAGE,)),
    "silu": (lambda x: F.silu(x), (IMAGE,)),
    "softplus": (lambda x: (F.softplus(x), F.softplus(x, beta=2)), (IMAGE,)),
    "abs": (lambda x: x.abs(), (IMAGE,)),
    "exp": (lambda x: x.exp(), (IMAGE,)),
    "log": (lambda x: x.log(), (IMAGE.abs() + 2,)),
    "sqrt": (lambda x: x.sqrt(), (IMAGE.abs() + 0.1,)),
    "square": (lambda x: x**2, (IMAGE,)),
    "cube": (lambda x: x**3, (IMAGE,)),
    "views_of_size_one": (
        lambda x: (x.transpose(1, 2) * 2, x.permute(0, 3, 1, 2).abs() + 1, x.transpose(1, 2) @ x.mT),
        (random(2, 1, 3, 4),),
    ),
    "neg": (lambda x: -x, (IMAGE,)),
    "clamp": (lambda x: (x.clamp(-0.5, 0.5), x.clamp(min=0.1), x.clamp(max=0.2)), (IMAGE,)),
    "relu6": (lambda x: (F.relu6(x * 5), F.hardtanh(x)), (IMAGE,)),
    "add": (lambda x, y: (x + y, x + 2.5, torch.add(x, y, alpha=2)), (IMAGE, WIDE)),
    "sub": (lambda x, y: (x - y, 2.5 - x, torch.sub(x, y, alpha=0.5)), (IMAGE, WIDE)),
    "mul": (lambda x, y: (x * y, x * 3), (IMAGE, WIDE)),
    "div": (lambda x, y: (x / y, x / 2), (IMAGE, WIDE.abs() + 1)),
    "maximum": (lambda x, y: torch.maximum(x, y), (IMAGE, WIDE)),
    "minimum": (lambda x, y: torch.minimum(x, y), (IMAGE, WIDE)),
    "broadcast": (
        lambda x, y: (x + y, y + x, x - y, y - x, x * y, x / y, torch.maximum(y, x)),
        (IMAGE, random(4, 1, 1).abs() + 1),
    ),
    "broadcast_scalar": (lambda x, s: (x * s, s - x), (IMAGE, torch.tensor(2.5))),
    "softmax": (lambda x: (x.softmax(-1), x.softmax(1)), (IMAGE,)),
    "log_softmax": (lambda x: (F.log_softmax(x, -1), F.log_softmax(x, 1)), (IMAGE,)),
    "mean": (lambda x: (x.mean((2, 3)), x.mean(-1, keepdim=True), x.mean()), (IMAGE + 1,)),
    "sum": (lambda x: (x.sum(1), x.sum((0, 1, 2, 3)), x.sum()), (IMAGE + 1,)),
    "amax": (lambda x: x.amax((1, 2)), (IMAGE,)),
    "amin": (lambda x: x.amin(3), (IMAGE,)),
    "prod": (lambda x: x.prod(1), (IMAGE + 1,)),
    "max_pool": (
        lambda x: (F.max_pool2d(x, 2), F.max_pool2d(x, 3, 2, 1), F.max_pool2d(x, 2, dilation=2)),
        (random(2, 4, 7, 7),),
    ),
    "max_pool_ceil": (lambda x: F.max_pool2d(x, 2, ceil_mode=True), (random(2, 4, 7, 7),)),
    "avg_pool": (lambda x: (F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, 2, 1)), (random(2, 4, 7, 7),)),
    "avg_pool_exclude": (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), (random(2, 4, 7, 7),)),
    "adaptive_avg_pool": (lambda x: F.adaptive_avg_pool2d(x, 1), (IMAGE + 1,)),
    "cat": (lambda x, y: (torch.cat([x, y], 1), torch.cat([x, y, x], -1)), (IMAGE, WIDE)),
    "nearest": (lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, size=(12, 18))), (IMAGE,)),
    "bilinear": (
        lambda x: (F.interpolate(x, scale_factor=2, mode="bilinear"), F.interpolate(x, size=(9, 4), mode="bilinear")),
        (IMAGE,),
    ),
    "linear": (lambda x, a, b: (a(x), b(x)), (TOKENS,), layers(nn.Linear(8, 6), nn.Linear(8, 3, bias=False))),
    "matmul": (lambda x, y: (x @ y.transpose(1, 2), x @ y[0].t(), x[0] @ y[0].t()), (TOKENS, OTHER)),
    "bmm": (lambda x, y: torch.bmm(x, y.transpose(1, 2)), (TOKENS, OTHER)),
    "addmm": (
        lambda x, y: (torch.addmm(y[0][0, :5], x[0], y[0].t()), torch.addmm(x[0][:, :5], x[0], y[0].t())),
        (TOKENS, OTHER),
    ),
    "conv1d": (lambda x, c: c(x), (random(2, 8, 11),), layers(nn.Conv1d(8, 6, 3, padding=1, stride=2))),
    "conv2d": (lambda x, c: c(x), (IMAGE,), layers(nn.Conv2d(4, 6, (1, 3), stride=(2, 1), padding=(0, 1)))),
    "conv_groups": (lambda x, c: c(x), (IMAGE,), layers(nn.Conv2d(4, 8, 3, groups=2, dilation=2))),
    "conv_depthwise": (lambda x, c: c(x), (IMAGE,), layers(nn.Conv2d(4, 4, 3, groups=4, padding=1, bias=False))),
    "conv_transpose": (
        lambda x, a, b: (a(x), b(x)),
        (IMAGE,),
        layers(nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1), nn.ConvTranspose2d(4, 6, 2, groups=2, bias=False)),
    ),
    "conv_transpose1d": (lambda x, c: c(x), (random(2, 8, 5),), layers(nn.ConvTranspose1d(8, 6, 3, stride=2))),
    "layer_norm": (
        lambda x, a, b: (a(x), b(x), F.layer_norm(x, (8,))),
        (TOKENS,),
        layers(nn.LayerNorm(8), nn.LayerNorm(8, bias=False)),
    ),
    "batch_norm": (lambda x, n: n(x), (IMAGE,), layers(nn.BatchNorm2d(4))),
    "views": (
        lambda x: (
            F.relu(x).permute(0, 2, 3, 1),
            F.relu(x).flatten(1),
            x.exp()[:, 1:3, ::2].tanh(),
            x.tanh().split(2, 1)[1].exp(),
            x.tanh().permute(0, 2, 1, 3).reshape(2, 6, 24).exp(),
            x.transpose(2, 3).reshape(2, -1).exp(),
            x.tanh().unsqueeze(0).squeeze(0) * 2,
            x.tanh()[:, 0] + 1,
        ),
        (IMAGE,),
    ),
    "cast": (lambda x: (x.to(torch.bfloat16) * 2).to(torch.float32), (IMAGE,)),
    "views_alone_and_twice": (lambda x: (F.relu(x), F.relu(x).view(8, 36), F.relu(x).view(-1) + 1), (IMAGE,)),
}
# What oneDNN 3.2 gets wrong unless the delegate takes care: rows with gaps under a layer norm, and a pooling into which
# it fuses an operator of two tensors.
# The result leaves as a permuted view: its rows must lie side by side all the same.
CASES["layer_norm_of_channels"] = (
    lambda x, a: a(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2),
    (IMAGE,),
    layers(nn.LayerNorm(IMAGE.shape[1])),
)
CASES["layer_norm_of_slices"] = (
    lambda x, n: (n(x.exp()[:, 1:4]), n(x.exp()[:, 0]), n(torch.cat([x, x], -1).exp()[..., 4:12])),
    (TOKENS,),
    layers(nn.LayerNorm(8)),
)
CASES["pool_and_add"] = (
    lambda x, y: (F.avg_pool2d(x, 3, 1, 1) + y, F.max_pool2d(x, 3, 1, 1) * y, F.max_pool2d(x, 3, 1, 1) + y.exp()),
    (IMAGE, WIDE),
)
CASES["interpolate_and_add_twice"] = (
    lambda x, y: F.relu(
        x + F.interpolate(y[..., :3, :3], scale_factor=2) + F.interpolate(y[..., 3:, 3:] * 2, scale_factor=2)
    ),
    (IMAGE, WIDE),
)
# Operators that oneDNN runs in float32 only.
FP32_CASES: dict[str, tuple] = {"round": (lambda x: (x * 3).round(), (IMAGE,))}


def heads(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(2, 5, 2, 4).transpose(1, 2)


def attention(causal: bool) -> Callable:
    def run(x: torch.Tensor, projection: nn.Module) -> torch.Tensor:
        query, key, value = (heads(part) for part in projection(x).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=causal)
        return mixed.transpose(1, 2).flatten(2)

    return run


CASES["attention"] = (attention(causal=False), (TOKENS,), layers(nn.Linear(8, 24)))
CASES["attention_causal"] = (attention(causal=True), (TOKENS,), layers(nn.Linear(8, 24)))


def attention_mask() -> torch.Tensor:
    """Some left out, a row of which nothing is left, and numbers that are next to nothing but not -inf."""
    mask = torch.zeros(2, 1, 5, 5)
    mask[0, 0, 1, :3] = float("-inf")
    mask[1, 0, 2] = float("-inf")
    mask[1, 0, 3] = -1e30
    mask[0, 0, 4, :4], mask[0, 0, 4, 4] = -1e30, float("-inf")
    mask[0, 0, 0] = torch.arange(5) / 4
    return mask


def attention_masked(x: torch.Tensor, *masks: torch.Tensor) -> tuple[torch.Tensor, ...]:
    query = heads(x)
    mixed = (F.scaled_dot_product_attention(query * 1.5, query, query + 1, attn_mask=mask) for mask in masks)
    return tuple(result.transpose(1, 2).flatten(2) for result in mixed)


CASES["attention_masked"] = (
    lambda x, mask: attention_masked(x, mask, mask, mask[0, 0] * 1, mask[:, :, :1]),
    (TOKENS, attention_mask()),
)
CASES["attention_mask_constant"] = (
    lambda x, given: attention_masked(x, given.weight, given.weight),
    (TOKENS,),
    (nn.Embedding.from_pretrained(attention_mask()[1, 0]),),
)
CASES["expand"] = (
    lambda x, y: (
        x.exp()[:, :, None].expand(2, 4, 3, 6, 6).reshape(2, 12, 36) * 1.5,  # keys shared between heads
        x.tanh().expand(3, 2, 4, 6, 6),
        x[:, :1].exp().expand(2, 4, 6, 6) - y,
        y - x[:, :1].exp().expand(2, 4, 6, 6),
        x[:, :1].exp().expand(2, 4, 6, 6) / y.exp(),
        x[:, :1].exp().expand(2, 4, 6, 6) @ y.transpose(2, 3),
    ),
    (IMAGE, WIDE),
)
