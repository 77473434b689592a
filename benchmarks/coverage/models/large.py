"""What people export most, at the sizes that they are published with: up to half a billion parameters.

Most are the default configurations of transformers' classes, which are those of a published model. They take minutes
and gigabytes each, so a run names them: `python -m benchmarks.coverage --only 'large/*' --memory 16`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from benchmarks.coverage.models.modern import build, draw_ids, draw_normal
from benchmarks.coverage.models.weights import SEED, draw_weights
from benchmarks.coverage.suite import Entry, Example

_LLAMA = {"use_cache": False, "tie_word_embeddings": True}
# https://huggingface.co/HuggingFaceTB/SmolLM2-135M/blob/main/config.json
_SMOL = {
    **_LLAMA,
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
}
# https://huggingface.co/Qwen/Qwen2.5-0.5B/blob/main/config.json
_QWEN = {
    **_LLAMA,
    "vocab_size": 151936,
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
}
# https://huggingface.co/state-spaces/mamba-130m-hf/blob/main/config.json
_MAMBA = {"vocab_size": 50280, "hidden_size": 768, "num_hidden_layers": 24, "state_size": 16, "use_cache": False}
# https://huggingface.co/stabilityai/sd-vae-ft-mse/blob/main/config.json
_VAE = {
    "block_out_channels": (128, 256, 512, 512),
    "down_block_types": ("DownEncoderBlock2D",) * 4,
    "up_block_types": ("UpDecoderBlock2D",) * 4,
    "layers_per_block": 2,
}
# DiT-S/2 of Peebles and Xie, Scalable Diffusion Models with Transformers, 2023, table 1.
_DIT = {"num_attention_heads": 6, "attention_head_dim": 64, "num_layers": 12, "sample_size": 32}


def _image(side: int) -> Callable[[], dict[str, torch.Tensor]]:
    return lambda: {"pixel_values": draw_normal(1, 3, side, side)}


def _words(count: int) -> Callable[[], dict[str, torch.Tensor]]:
    return lambda: {"input_ids": draw_ids(count)}


# Name: library's class, configuration, call.
FAMILIES: Mapping[str, tuple[str, Mapping[str, Any], Callable[[], dict[str, torch.Tensor]]]] = {
    "BERT-base": ("BertModel", {}, _words(128)),
    "CLIP-ViT-B-32": ("CLIPModel", {}, lambda: {**_words(77)(), **_image(224)()}),
    "SigLIP-base": ("SiglipModel", {}, lambda: {**_words(64)(), **_image(224)()}),
    "DINOv2-base": ("Dinov2Model", {}, _image(224)),
    "DINOv3-small": ("DINOv3ViTModel", {}, _image(224)),
    "DepthAnything-small": ("DepthAnythingForDepthEstimation", {}, _image(518)),
    "SAM-base-encoder": ("SamVisionModel", {}, _image(1024)),
    "SegFormer-B0": ("SegformerForSemanticSegmentation", {}, _image(512)),
    "DETR-R50": ("DetrForObjectDetection", {}, _image(640)),
    "RT-DETR-R50": ("RTDetrForObjectDetection", {}, _image(640)),
    "VideoMAE-base": ("VideoMAEForVideoClassification", {}, lambda: {"pixel_values": draw_normal(1, 16, 3, 224, 224)}),
    "wav2vec2-base": ("Wav2Vec2ForCTC", {}, lambda: {"input_values": draw_normal(1, 16000)}),
    "Whisper-tiny": (
        "WhisperForConditionalGeneration",
        {"use_cache": False},
        lambda: {"input_features": draw_normal(1, 80, 3000), "decoder_input_ids": draw_ids(8)},
    ),
    "T5-small": (
        "T5ForConditionalGeneration",
        {"use_cache": False},
        lambda: {"input_ids": draw_ids(64), "decoder_input_ids": draw_ids(16)},
    ),
    "SmolLM2-135M": ("LlamaForCausalLM", _SMOL, _words(64)),
    "Qwen2.5-0.5B": ("Qwen2ForCausalLM", _QWEN, _words(64)),
    "Mamba-130M": ("MambaForCausalLM", _MAMBA, _words(16)),
    "SD-VAE": ("diffusers.AutoencoderKL", _VAE, lambda: {"sample": draw_normal(1, 3, 256, 256)}),
    "DiT-S-2": (
        "diffusers.DiTTransformer2DModel",
        _DIT,
        lambda: {
            "hidden_states": draw_normal(1, 4, 32, 32),
            "timestep": torch.tensor([3]),
            "class_labels": torch.tensor([1]),
        },
    ),
}
# Of timm's widely used families one each.
TIMM = (
    "resnet50",
    "vit_base_patch16_224",
    "efficientnet_b0",
    "mobilenetv3_large_100",
    "convnext_tiny",
    "swin_tiny_patch4_window7_224",
)


def entries() -> list[Entry]:
    """All of them, in the tables' order."""
    found = [Entry(f"large/{name}", partial(_make, name)) for name in FAMILIES]
    return found + [Entry(f"large/{name}", partial(_of_timm, name)) for name in TIMM]


def _make(name: str) -> Example:
    """The module with a call."""
    kind, config, call = FAMILIES[name]
    torch.manual_seed(SEED)
    module, inputs = build(kind, config), call()
    return Example(draw_weights(module, (), inputs), (), inputs)


def _of_timm(name: str) -> Example:
    from benchmarks.zoo import _torchvision

    _torchvision()  # timm imports it
    import timm

    torch.manual_seed(SEED)
    args = (draw_normal(1, 3, 224, 224) / 4,)
    return Example(draw_weights(timm.create_model(name, pretrained=False).eval(), args), args)
