"""Transformers' families that `huggingface.py` lacks, tiny: decoders with caches, vision, sound, state spaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from benchmarks.coverage.models.weights import SEED, draw_weights
from benchmarks.coverage.suite import Entry, Example

WORDS = 128
TOKENS = 12

# What most configurations call the same thing; a class takes those that it knows.
_SMALL: Mapping[str, Any] = {
    "vocab_size": WORDS,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
_SEQUENCE: Mapping[str, Any] = {
    "vocab_size": WORDS,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
_IMAGE: Mapping[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 8,
}
_STAGES: Mapping[str, Any] = {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 32, 32]}
_TEXT: Mapping[str, Any] = {**_SMALL, "projection_dim": 16, "bos_token_id": 1, "eos_token_id": 2}


@dataclass(frozen=True)
class _Family:
    """A class of transformers, its configuration, and its call by name."""

    kind: str
    config: Mapping[str, Any]
    call: str = "ids"
    wrap: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)


def _f(kind: str, config: Mapping[str, Any] = _SMALL, call: str = "ids", wrap: str = "", **extra: Any) -> _Family:
    return _Family(kind, config, call, wrap, extra)


_MOE = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}

FAMILIES: dict[str, _Family] = {
    # Decoders, with the cache that they return by default, and without it.
    "Llama": _f("LlamaForCausalLM"),
    "Llama, no cache": _f("LlamaForCausalLM", use_cache=False),
    "Llama, masked": _f("LlamaForCausalLM", _SMALL, "masked", use_cache=False),
    "Llama, static cache": _f("LlamaForCausalLM", _SMALL, "step", "static"),
    "Qwen2": _f("Qwen2ForCausalLM", use_cache=False),
    "Qwen3": _f("Qwen3ForCausalLM", use_cache=False),
    "Qwen3, static cache": _f("Qwen3ForCausalLM", _SMALL, "step", "static"),
    "Gemma": _f("GemmaForCausalLM", use_cache=False),
    "Gemma2": _f("Gemma2ForCausalLM", use_cache=False, sliding_window=8),
    "Gemma3": _f("Gemma3ForCausalLM", use_cache=False, sliding_window=8),
    "Gemma3, static cache": _f("Gemma3ForCausalLM", _SMALL, "step", "static", sliding_window=8),
    "Phi": _f("PhiForCausalLM", use_cache=False),
    "Phi3": _f("Phi3ForCausalLM", use_cache=False),
    "SmolLM3": _f("SmolLM3ForCausalLM", use_cache=False),
    "Mistral": _f("MistralForCausalLM", use_cache=False, sliding_window=8),
    "Mistral, static cache": _f("MistralForCausalLM", _SMALL, "step", "static"),
    "Mixtral": _f("MixtralForCausalLM", use_cache=False, **_MOE),
    "Qwen3Moe": _f("Qwen3MoeForCausalLM", use_cache=False, **_MOE),
    "GptOss": _f("GptOssForCausalLM", use_cache=False, sliding_window=8, **_MOE),
    "Granite": _f("GraniteForCausalLM", use_cache=False),
    "Olmo2": _f("Olmo2ForCausalLM", use_cache=False),
    "Cohere": _f("CohereForCausalLM", use_cache=False),
    "StableLm": _f("StableLmForCausalLM", use_cache=False),
    "GPTNeoX": _f("GPTNeoXForCausalLM", use_cache=False),
    "GPTJ": _f("GPTJForCausalLM", {"vocab_size": WORDS, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64,
                                   "rotary_dim": 4}, use_cache=False),
    "Bloom": _f("BloomForCausalLM", {"vocab_size": WORDS, "hidden_size": 32, "n_layer": 2, "n_head": 4},
                use_cache=False),
    "Falcon": _f("FalconForCausalLM", {k: v for k, v in _SMALL.items() if k != "head_dim"}, use_cache=False),
    "MPT": _f("MptForCausalLM", {"vocab_size": WORDS, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 64},
              use_cache=False),
    "GPT2, cache": _f("GPT2LMHeadModel", {"vocab_size": WORDS, "n_embd": 32, "n_layer": 2, "n_head": 4}),
    "Mamba": _f("MambaForCausalLM", {"vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 2,
                                     "state_size": 8}, use_cache=False),
    "Mamba2": _f("Mamba2ForCausalLM", {"vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 2,
                                       "state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 1,
                                       "chunk_size": 8}, use_cache=False),
    "Rwkv": _f("RwkvForCausalLM", {"vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 2,
                                   "attention_hidden_size": 32, "context_length": 32}, use_cache=False),
    # Encoders of text.
    "ModernBert": _f("ModernBertForMaskedLM", {**_SMALL, "reference_compile": False, "cls_token_id": 1,
                                               "sep_token_id": 2, "bos_token_id": 1, "eos_token_id": 2}, "masked"),
    "MPNet": _f("MPNetForMaskedLM", _SMALL, "masked"),
    "Funnel": _f("FunnelModel", {"vocab_size": WORDS, "d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 64,
                                 "block_sizes": [1, 1]}, "masked"),
    "Nystromformer": _f("NystromformerForMaskedLM", {**_SMALL,
                        "num_landmarks": 4, "segment_means_seq_len": 12}, "masked"),
    "Roformer": _f("RoFormerForMaskedLM", _SMALL, "masked"),
    "SqueezeBert": _f("SqueezeBertForMaskedLM", {**_SMALL, "embedding_size": 32}, "masked"),
    "XLMRoberta": _f("XLMRobertaForSequenceClassification", _SMALL, "masked"),
    "T5Encoder": _f("T5EncoderModel", {"vocab_size": WORDS, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2,
                                       "num_heads": 4}, "masked"),
    "UMT5Encoder": _f("UMT5EncoderModel", {"vocab_size": WORDS, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2,
                                           "num_heads": 4}, "masked"),
    "T5, static cache": _f("T5ForConditionalGeneration", {"vocab_size": WORDS, "d_model": 32, "d_kv": 8, "d_ff": 64,
                           "num_layers": 2, "num_decoder_layers": 2, "num_heads": 4, "decoder_start_token_id": 0},
                           "seq2seq step", "seq2seq"),
    "LED": _f("LEDForConditionalGeneration", {**_SEQUENCE, "max_encoder_position_embeddings": 64,
                                              "max_decoder_position_embeddings": 64, "attention_window": 8,
                                              "use_cache": False}, "pair"),
    "BigBird": _f("BigBirdForMaskedLM", {**_SMALL, "attention_type": "original_full"}, "masked"),
    # Sound.
    "Whisper": _f("WhisperForConditionalGeneration", {**_SEQUENCE, "num_mel_bins": 16, "max_source_positions": 16,
                  "max_target_positions": 32, "decoder_start_token_id": 1, "use_cache": False}, "mel pair"),
    "WhisperEncoder": _f("WhisperModel", {**_SEQUENCE, "num_mel_bins": 16, "max_source_positions": 16,
                                          "max_target_positions": 32}, "mel", "encoder"),
    "Wav2Vec2": _f("Wav2Vec2ForCTC", {**_SMALL, "conv_dim": [16, 16], "conv_stride": [5, 2], "conv_kernel": [10, 3],
                   "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2, "num_feat_extract_layers": 2},
                   "sound"),
    "Hubert": _f("HubertModel", {**_SMALL, "conv_dim": [16, 16], "conv_stride": [5, 2], "conv_kernel": [10, 3],
                 "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2, "num_feat_extract_layers": 2},
                 "sound"),
    "WavLM": _f("WavLMModel", {**_SMALL, "conv_dim": [16, 16], "conv_stride": [5, 2], "conv_kernel": [10, 3],
                "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2, "num_feat_extract_layers": 2},
                "sound"),
    "AudioSpectrogram": _f("ASTForAudioClassification", {**_IMAGE, "num_mel_bins": 16, "max_length": 32,
                           "frequency_stride": 8, "time_stride": 8}, "spectrogram"),
    # Pictures.
    "ViT": _f("ViTForImageClassification", _IMAGE, "image"),
    "DeiT": _f("DeiTForImageClassification", _IMAGE, "image"),
    "Beit": _f("BeitForImageClassification", _IMAGE, "image"),
    "Dinov2": _f("Dinov2Model", _IMAGE, "image"),
    "Dinov3ViT": _f("DINOv3ViTModel", _IMAGE, "image"),
    "ConvNextV2": _f("ConvNextV2ForImageClassification", _STAGES, "image"),
    "ResNet": _f("ResNetForImageClassification", {**_STAGES, "embedding_size": 8}, "image"),
    "RegNet": _f("RegNetForImageClassification", {**_STAGES, "embedding_size": 8, "groups_width": 8}, "image"),
    "Swin": _f("SwinForImageClassification", {"image_size": 32, "patch_size": 4, "embed_dim": 8, "depths": [1, 1],
                                              "num_heads": [2, 2], "window_size": 4}, "image"),
    "Swinv2": _f("Swinv2ForImageClassification", {"image_size": 32, "patch_size": 4, "embed_dim": 8, "depths": [1, 1],
                                                  "num_heads": [2, 2], "window_size": 4}, "image"),
    "Pvt": _f("PvtForImageClassification", {"image_size": 32, "depths": [1, 1, 1, 1],
              "hidden_sizes": [8, 16, 32, 32], "num_attention_heads": [1, 2, 4, 4]}, "image"),
    "MobileViT": _f("MobileViTForImageClassification", {"image_size": 64, "hidden_sizes": [16, 24, 32],
                    "neck_hidden_sizes": [8, 8, 16, 16, 24, 32, 64]}, "large image"),
    "MobileNetV2": _f("MobileNetV2ForImageClassification", {"image_size": 32, "depth_multiplier": 0.25}, "image"),
    "Segformer": _f("SegformerForSemanticSegmentation", {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 16, 32],
                    "num_attention_heads": [1, 2, 2, 4], "decoder_hidden_size": 16}, "large image"),
    "VideoMAE": _f("VideoMAEForVideoClassification", {**_IMAGE, "num_frames": 4}, "video"),
    "Timesformer": _f("TimesformerForVideoClassification", {**_IMAGE, "num_frames": 4}, "video"),
    "ClipVision": _f("CLIPVisionModel", _IMAGE, "image"),
    "ClipText": _f("CLIPTextModel", _TEXT, "masked"),
    "SiglipVision": _f("SiglipVisionModel", _IMAGE, "image"),
    "SiglipText": _f("SiglipTextModel", _TEXT, "masked"),
    "Clip": _f("CLIPModel", {"text_config": dict(_TEXT), "vision_config": dict(_IMAGE), "projection_dim": 16},
               "image and text"),
    "SamVision": _f("SamVisionModel", {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
                    "image_size": 32, "patch_size": 8, "output_channels": 16, "mlp_dim": 64, "window_size": 2,
                    "global_attn_indexes": [1]}, "image"),
    "DepthAnything": _f("DepthAnythingForDepthEstimation", {"backbone_config": {"model_type": "dinov2", **_IMAGE,
                        "out_features": ["stage1", "stage2"], "reshape_hidden_states": False},
                        "patch_size": 8, "reassemble_hidden_size": 32, "reassemble_factors": [2, 1],
                        "neck_hidden_sizes": [8, 16], "fusion_hidden_size": 8, "head_hidden_size": 8}, "image"),
    "Dpt": _f("DPTForDepthEstimation", {**_IMAGE, "backbone_out_indices": [0, 0, 1, 1],
                      "neck_hidden_sizes": [8, 8, 16, 16],
                                        "fusion_hidden_size": 8, "use_auxiliary_head": False}, "image"),
    "Detr": _f("DetrForObjectDetection", {"use_timm_backbone": False, "use_pretrained_backbone": False,
               "backbone_config": {"model_type": "resnet", **_STAGES, "embedding_size": 8,
                                   "out_features": ["stage4"]},
               "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4,
               "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "num_queries": 5},
               "large image"),
    "RtDetr": _f("RTDetrForObjectDetection", {"d_model": 32, "encoder_hidden_dim": 32, "num_queries": 10,
                 "encoder_in_channels": [16, 32, 32], "decoder_in_channels": [32, 32, 32], "decoder_layers": 1,
                 "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "encoder_attention_heads": 4,
                 "decoder_attention_heads": 4, "backbone_config": {"model_type": "rt_detr_resnet",
                 "embedding_size": 8, **_STAGES, "layer_type": "basic",
                 "out_features": ["stage2", "stage3", "stage4"]}},
                 "large image"),
    "Yolos": _f("YolosForObjectDetection", {**_IMAGE, "image_size": [32, 32], "num_detection_tokens": 5}, "image"),
}  # fmt: skip


def entries() -> list[Entry]:
    """Every family, named after what it is."""
    return [Entry(f"transformers/{name}", partial(_make, name)) for name in FAMILIES]


def _make(name: str) -> Example:
    """The module with a call."""
    from benchmarks.zoo import _torchvision

    _torchvision()  # transformers imports it where it is installed
    import transformers

    family = FAMILIES[name]
    kind = getattr(transformers, family.kind)
    settings = {**family.config, **family.extra}
    torch.manual_seed(SEED)
    model = kind(kind.config_class(**settings))
    inputs = _CALLS[family.call]()
    draw_weights(model, (), {} if family.wrap else inputs)
    if family.wrap:
        return Example(_WRAPPERS[family.wrap](transformers, model).eval(), (), inputs)
    return Example(model, (), inputs)


def _with_static_cache(transformers: Any, model: Any) -> torch.nn.Module:
    from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

    cache = {"batch_size": 1, "max_cache_len": 16}
    model.generation_config = transformers.GenerationConfig(
        use_cache=True, cache_implementation="static", max_length=16, cache_config=cache
    )
    wrapped: torch.nn.Module = TorchExportableModuleWithStaticCache(model)
    return wrapped


def _seq2seq_decoder(_transformers: Any, model: Any) -> torch.nn.Module:
    from transformers.integrations.executorch import Seq2SeqLMDecoderExportableModuleWithStaticCache

    wrapped: torch.nn.Module = Seq2SeqLMDecoderExportableModuleWithStaticCache(
        model=model, max_static_cache_length=16, batch_size=1
    )
    return wrapped


_WRAPPERS: Mapping[str, Callable[[Any, Any], torch.nn.Module]] = {
    "static": _with_static_cache,
    "seq2seq": _seq2seq_decoder,
    "encoder": lambda _transformers, model: model.get_encoder(),
}


def _ids(seed: int = SEED) -> torch.Tensor:
    return torch.randint(5, WORDS, (1, TOKENS), generator=torch.Generator().manual_seed(seed))


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(SEED))


def _masked() -> dict[str, torch.Tensor]:
    mask = torch.ones(1, TOKENS, dtype=torch.int64)
    mask[:, -2:] = 0
    return {"input_ids": _ids(), "attention_mask": mask}


_CALLS: Mapping[str, Callable[[], dict[str, torch.Tensor]]] = {
    "ids": lambda: {"input_ids": _ids()},
    "masked": _masked,
    "step": lambda: {"input_ids": torch.tensor([[7]]), "cache_position": torch.tensor([0])},
    "pair": lambda: {"input_ids": _ids(), "decoder_input_ids": _ids(SEED + 1)},
    "seq2seq step": lambda: {
        "decoder_input_ids": torch.tensor([[7]]),
        "encoder_hidden_states": _random(1, 6, 32),
        "cache_position": torch.tensor([0]),
    },
    "mel": lambda: {"input_features": _random(1, 16, 32)},
    "mel pair": lambda: {"input_features": _random(1, 16, 32), "decoder_input_ids": _ids()[:, :4]},
    "sound": lambda: {"input_values": _random(1, 800)},
    "spectrogram": lambda: {"input_values": _random(1, 32, 16)},
    "image": lambda: {"pixel_values": _random(1, 3, 32, 32)},
    "large image": lambda: {"pixel_values": _random(1, 3, 64, 64)},
    "video": lambda: {"pixel_values": _random(1, 4, 3, 32, 32)},
    "image and text": lambda: {**_masked(), "pixel_values": _random(1, 3, 32, 32)},
}
