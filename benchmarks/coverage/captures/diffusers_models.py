"""Diffusers' denoisers and autoencoders, small: their configurations are frozen dicts, outputs their own classes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from benchmarks.coverage.models.weights import SEED, draw_weights
from benchmarks.coverage.suite import Entry, Example

_WIDTH = 32


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(SEED))


def _step() -> torch.Tensor:
    return torch.tensor([7])


def _unet_2d(library: Any) -> tuple[Any, dict[str, Any]]:
    model = library.UNet2DModel(
        sample_size=16,
        in_channels=3,
        out_channels=3,
        layers_per_block=1,
        block_out_channels=(32, 64),
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        norm_num_groups=8,
    )
    return model, {"sample": _random(1, 3, 16, 16), "timestep": _step()}


def _unet_2d_condition(library: Any) -> tuple[Any, dict[str, Any]]:
    model = library.UNet2DConditionModel(
        sample_size=16,
        layers_per_block=1,
        block_out_channels=(32, 64),
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=_WIDTH,
        attention_head_dim=8,
        norm_num_groups=8,
    )
    return model, {
        "sample": _random(1, 4, 16, 16),
        "timestep": _step(),
        "encoder_hidden_states": _random(1, 7, _WIDTH),
    }


def _sd3(library: Any) -> tuple[Any, dict[str, Any]]:
    model = library.SD3Transformer2DModel(
        sample_size=16,
        patch_size=2,
        in_channels=4,
        num_layers=2,
        attention_head_dim=8,
        num_attention_heads=4,
        joint_attention_dim=_WIDTH,
        caption_projection_dim=_WIDTH,
        pooled_projection_dim=_WIDTH,
        out_channels=4,
        pos_embed_max_size=16,
    )
    return model, {
        "hidden_states": _random(1, 4, 16, 16),
        "encoder_hidden_states": _random(1, 7, _WIDTH),
        "pooled_projections": _random(1, _WIDTH),
        "timestep": _step(),
    }


def _vae(library: Any) -> tuple[Any, dict[str, Any]]:
    model = library.AutoencoderKL(
        block_out_channels=(32, 64),
        down_block_types=("DownEncoderBlock2D", "DownEncoderBlock2D"),
        up_block_types=("UpDecoderBlock2D", "UpDecoderBlock2D"),
        latent_channels=4,
        norm_num_groups=8,
    )
    return model, {"sample": _random(1, 3, 16, 16)}


def _tiny_vae(library: Any) -> tuple[Any, dict[str, Any]]:
    return library.AutoencoderTiny(encoder_block_out_channels=(16, 16), decoder_block_out_channels=(16, 16),
                                   num_encoder_blocks=(1, 1), num_decoder_blocks=(1, 1)), {
        "sample": _random(1, 3, 16, 16)
    }  # fmt: skip


def _vq(library: Any) -> tuple[Any, dict[str, Any]]:
    return library.VQModel(block_out_channels=(32,), norm_num_groups=8), {"sample": _random(1, 3, 16, 16)}


def _dit(library: Any) -> tuple[Any, dict[str, Any]]:
    model = library.DiTTransformer2DModel(
        num_attention_heads=4, attention_head_dim=8, in_channels=4, num_layers=2, sample_size=8, norm_num_groups=8
    )
    return model, {"hidden_states": _random(1, 4, 8, 8), "timestep": _step(), "class_labels": torch.tensor([3])}


def _pixart(library: Any) -> tuple[Any, dict[str, Any]]:
    model = library.PixArtTransformer2DModel(
        num_attention_heads=4,
        attention_head_dim=8,
        in_channels=4,
        num_layers=2,
        cross_attention_dim=_WIDTH,
        sample_size=8,
        caption_channels=_WIDTH,
        norm_num_groups=8,
    )
    return model, {
        "hidden_states": _random(1, 4, 8, 8),
        "encoder_hidden_states": _random(1, 7, _WIDTH),
        "timestep": _step(),
    }


def _flux(library: Any) -> tuple[Any, dict[str, Any]]:
    model = library.FluxTransformer2DModel(
        in_channels=4,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=_WIDTH,
        pooled_projection_dim=_WIDTH,
        axes_dims_rope=(4, 4, 8),
    )
    return model, {
        "hidden_states": _random(1, 16, 4),
        "encoder_hidden_states": _random(1, 7, _WIDTH),
        "pooled_projections": _random(1, _WIDTH),
        "timestep": torch.tensor([0.5]),
        "img_ids": _random(16, 3).abs().round(),
        "txt_ids": torch.zeros(7, 3),
    }


def _controlnet(library: Any) -> tuple[Any, dict[str, Any]]:
    model = library.ControlNetModel(
        block_out_channels=(32, 64),
        layers_per_block=1,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        cross_attention_dim=_WIDTH,
        attention_head_dim=8,
        norm_num_groups=8,
        conditioning_embedding_out_channels=(16, 16),
    )
    return model, {
        "sample": _random(1, 4, 16, 16),
        "timestep": _step(),
        "encoder_hidden_states": _random(1, 7, _WIDTH),
        "controlnet_cond": _random(1, 3, 32, 32),
    }


def _unet_1d(library: Any) -> tuple[Any, dict[str, Any]]:
    model = library.UNet1DModel(
        sample_size=32, in_channels=2, out_channels=2, block_out_channels=(32, 32, 64), extra_in_channels=16
    )
    return model, {"sample": _random(1, 2, 32), "timestep": _step()}


_MODELS: dict[str, Callable[[Any], tuple[Any, dict[str, Any]]]] = {
    "UNet2DModel": _unet_2d,
    "UNet2DConditionModel": _unet_2d_condition,
    "UNet1DModel": _unet_1d,
    "ControlNetModel": _controlnet,
    "SD3Transformer2DModel": _sd3,
    "FluxTransformer2DModel": _flux,
    "DiTTransformer2DModel": _dit,
    "PixArtTransformer2DModel": _pixart,
    "AutoencoderKL": _vae,
    "AutoencoderTiny": _tiny_vae,
    "VQModel": _vq,
}


def entries() -> list[Entry]:
    """Every model by its class."""
    return [Entry(f"diffusers/{name}", partial(_make, name)) for name in _MODELS]


def _make(name: str) -> Example:
    """The module with a call."""
    from benchmarks.zoo import _torchvision

    _torchvision()  # transformers, which diffusers imports, imports it
    import diffusers

    torch.manual_seed(SEED)
    model, inputs = _MODELS[name](diffusers)
    return Example(draw_weights(model), (), inputs)
