"""What people export now: families of transformers and diffusers that no published benchmark lists, small.

Configurations keep what makes an architecture, as those of `huggingface.py` do: layers are 2, widths 64,
images 64 pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks.coverage.models.weights import SEED, draw_weights
from benchmarks.coverage.suite import Entry, Example

_SIDE = 64
_TOKENS = 16

_LAYERS = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
_SIGHT = {**_LAYERS, "image_size": _SIDE, "patch_size": 16}
_WORDS = {**_LAYERS, "vocab_size": 512, "max_position_embeddings": 64}
_GROUPED = {**_WORDS, "num_key_value_heads": 2, "head_dim": 16, "use_cache": False, "pad_token_id": 0}
_GEMMA = {**_GROUPED, "sliding_window": 8, "query_pre_attn_scalar": 16}
_EXPERTS = {"experts_implementation": "batched_mm", "num_experts_per_tok": 2}
_MAMBA = {"vocab_size": 512, "hidden_size": 64, "num_hidden_layers": 2, "state_size": 8, "use_cache": False}
_SPEECH = {
    **_LAYERS,
    "vocab_size": 32,
    "conv_dim": (32, 32, 32),
    "conv_stride": (5, 4, 4),
    "conv_kernel": (10, 8, 8),
    "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}
_WHISPER = {
    "vocab_size": 512,
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "num_mel_bins": 16,
    "max_source_positions": 32,
    "max_target_positions": 32,
    "use_cache": False,
    "pad_token_id": 0,
}
_STAGES = {"depths": [2, 2], "num_heads": [2, 4], "embed_dim": 32, "window_size": 4}
_RESNET = {"embedding_size": 16, "hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1], "layer_type": "basic"}
_DETR = {
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "num_queries": 10,
}
_RT_DETR = {
    **_DETR,
    "encoder_hidden_dim": 64,
    "encoder_layers": 1,
    "encoder_in_channels": [16, 32, 64],
    "decoder_in_channels": [64, 64, 64],
}
_SEGFORMER = {
    "hidden_sizes": [16, 32, 48, 64],
    "depths": [1, 1, 1, 1],
    "num_attention_heads": [1, 2, 2, 4],
    "decoder_hidden_size": 32,
}
_UNET = {
    "sample_size": 16,
    "block_out_channels": (32, 64),
    "layers_per_block": 1,
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
    "cross_attention_dim": 32,
    "attention_head_dim": 8,
    "norm_num_groups": 8,
}
_VAE = {
    "block_out_channels": (16, 32),
    "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2,
    "norm_num_groups": 8,
}
_DIT = {
    "num_attention_heads": 4,
    "attention_head_dim": 16,
    "num_layers": 2,
    "sample_size": 8,
    "num_embeds_ada_norm": 10,
}


def draw_normal(*shape: int) -> torch.Tensor:
    """Float32 noise, the same at every call."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(SEED))


def draw_ids(count: int = _TOKENS) -> torch.Tensor:
    """`[1, count]` words below 500, int64, the same at every call."""
    return torch.randint(5, 500, (1, count), generator=torch.Generator().manual_seed(SEED))


_CALLS: Mapping[str, Callable[[], dict[str, torch.Tensor]]] = {
    "image": lambda: {"pixel_values": draw_normal(1, 3, _SIDE, _SIDE)},
    "video": lambda: {"pixel_values": draw_normal(1, 4, 3, _SIDE, _SIDE)},
    "words": lambda: {"input_ids": draw_ids()},
    "both": lambda: {"input_ids": draw_ids(), "pixel_values": draw_normal(1, 3, _SIDE, _SIDE)},
    "sound": lambda: {"input_values": draw_normal(1, 3200)},
    "log-mel": lambda: {"input_features": draw_normal(1, 16, 64), "decoder_input_ids": draw_ids()[:, :8]},
    "noise": lambda: {
        "sample": draw_normal(1, 4, 16, 16),
        "timestep": torch.tensor([3]),
        "encoder_hidden_states": draw_normal(1, 8, 32),
    },
    "picture": lambda: {"sample": draw_normal(1, 3, 32, 32)},
    "labelled": lambda: {
        "hidden_states": draw_normal(1, 4, 8, 8),
        "timestep": torch.tensor([3]),
        "class_labels": torch.tensor([1]),
    },
}


def _backbone(kind: str, **config: Any) -> Callable[[], Any]:
    """A configuration inside of another one, made where transformers is there."""

    def make() -> Any:
        import transformers

        return getattr(transformers, kind)(**config)

    return make


# Name: library's class, configuration, call.
FAMILIES: Mapping[str, tuple[str, Mapping[str, Any], str]] = {
    "SigLIP": ("SiglipModel", {"text_config": _WORDS, "vision_config": _SIGHT}, "both"),
    "CLIP": ("CLIPModel", {"text_config": _WORDS, "vision_config": _SIGHT}, "both"),
    "DINOv2": ("Dinov2Model", _SIGHT, "image"),
    "DINOv3": ("DINOv3ViTModel", _SIGHT, "image"),
    "VideoMAE": ("VideoMAEForVideoClassification", {**_SIGHT, "num_frames": 4}, "video"),
    "SegFormer": ("SegformerForSemanticSegmentation", _SEGFORMER, "image"),
    "DepthAnything": (
        "DepthAnythingForDepthEstimation",
        {
            "backbone_config": _backbone(
                "Dinov2Config", **_SIGHT, out_features=["stage1", "stage2"], reshape_hidden_states=False
            ),
            "reassemble_hidden_size": 64,
            "patch_size": 16,
            "reassemble_factors": [2, 1],
            "neck_hidden_sizes": [32, 32],
            "fusion_hidden_size": 32,
        },
        "image",
    ),
    "DETR": (
        "DetrForObjectDetection",
        {**_DETR, "backbone_config": _backbone("ResNetConfig", **_RESNET, out_features=["stage4"])},
        "image",
    ),
    "RT-DETR": (
        "RTDetrForObjectDetection",
        {
            **_RT_DETR,
            "backbone_config": _backbone("RTDetrResNetConfig", **_RESNET, out_features=["stage2", "stage3", "stage4"]),
        },
        "image",
    ),
    "YOLOS": ("YolosForObjectDetection", {**_SIGHT, "image_size": [_SIDE, _SIDE], "num_detection_tokens": 10}, "image"),
    "SAM": (
        "SamVisionModel",
        {**_SIGHT, "output_channels": 32, "window_size": 2, "global_attn_indexes": [1], "mlp_dim": 128},
        "image",
    ),
    "SwinV2": ("Swinv2ForImageClassification", {**_STAGES, "image_size": _SIDE, "patch_size": 4}, "image"),
    "ConvNeXtV2": (
        "ConvNextV2ForImageClassification",
        {"hidden_sizes": [16, 32], "depths": [1, 1], "num_stages": 2},
        "image",
    ),
    "PoolFormer": (
        "PoolFormerForImageClassification",
        {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1]},
        "image",
    ),
    "wav2vec2": ("Wav2Vec2ForCTC", _SPEECH, "sound"),
    "Conformer": ("Wav2Vec2ConformerForCTC", {**_SPEECH, "position_embeddings_type": "relative"}, "sound"),
    "Whisper": ("WhisperForConditionalGeneration", _WHISPER, "log-mel"),
    "ModernBERT": ("ModernBertForMaskedLM", {**_WORDS, "pad_token_id": 0, "local_attention": 8}, "words"),
    "Llama": ("LlamaForCausalLM", _GROUPED, "words"),
    "Qwen2": ("Qwen2ForCausalLM", _GROUPED, "words"),
    "Qwen3": ("Qwen3ForCausalLM", _GROUPED, "words"),
    "Gemma2": ("Gemma2ForCausalLM", _GEMMA, "words"),
    "Gemma3": ("Gemma3ForCausalLM", _GEMMA, "words"),
    "Phi3": ("Phi3ForCausalLM", _GROUPED, "words"),
    "SmolLM3": ("SmolLM3ForCausalLM", _GROUPED, "words"),
    "Mixtral": ("MixtralForCausalLM", {**_GROUPED, **_EXPERTS, "num_local_experts": 4}, "words"),
    "Qwen3-MoE": (
        "Qwen3MoeForCausalLM",
        {**_GROUPED, **_EXPERTS, "num_experts": 4, "moe_intermediate_size": 32},
        "words",
    ),
    "GPT-OSS": ("GptOssForCausalLM", {**_GROUPED, **_EXPERTS, "num_local_experts": 4, "sliding_window": 8}, "words"),
    "Mamba": ("MambaForCausalLM", _MAMBA, "words"),
    "Mamba2": (
        "Mamba2ForCausalLM",
        {**_MAMBA, "num_heads": 8, "head_dim": 16, "n_groups": 1, "chunk_size": 8},
        "words",
    ),
    "RWKV": (
        "RwkvForCausalLM",
        {"vocab_size": 512, "hidden_size": 64, "num_hidden_layers": 2, "context_length": 32},
        "words",
    ),
    "UNet2DCondition": ("diffusers.UNet2DConditionModel", _UNET, "noise"),
    "AutoencoderKL": ("diffusers.AutoencoderKL", _VAE, "picture"),
    "DiT": ("diffusers.DiTTransformer2DModel", _DIT, "labelled"),
}


def entries() -> list[Entry]:
    """All of them, in the table's order."""
    return [Entry(f"modern/{name}", partial(_make, name)) for name in FAMILIES]


def _make(name: str) -> Example:
    """The module with a call."""
    kind, config, call = FAMILIES[name]
    torch.manual_seed(SEED)
    module, inputs = build(kind, config), _CALLS[call]()
    return Example(draw_weights(module, (), inputs), (), inputs)


def build(kind: str, config: Mapping[str, Any]) -> nn.Module:
    """A module of transformers, or of diffusers where its class is named so.

    Args:
        kind: `LlamaForCausalLM`, `diffusers.AutoencoderKL`.
        config: Arguments of its configuration; functions make configurations inside of it.
    """
    return _of_diffusers(kind, config) if kind.startswith("diffusers.") else _of_transformers(kind, config)


def _of_transformers(kind: str, config: Mapping[str, Any]) -> nn.Module:
    from benchmarks.zoo import _torchvision

    _torchvision()  # transformers imports it where it is installed
    import transformers

    class_: Any = getattr(transformers, kind)
    made = {key: value() if callable(value) else value for key, value in config.items()}
    module: nn.Module = class_(class_.config_class(**made))
    return module


def _of_diffusers(kind: str, config: Mapping[str, Any]) -> nn.Module:
    import diffusers

    module: nn.Module = getattr(diffusers, kind.split(".")[1])(**config)
    return module
