"""The decoders of the comparison: published sizes, random weights, nothing downloaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Shape:
    """The sizes of a decoder, as its config and a GGUF file name them."""

    title: str
    layers: int
    width: int
    feed_forward: int
    heads: int
    key_heads: int
    vocabulary: int
    biased: bool
    """Whether query, key and value have a bias; that is Qwen2's difference from Llama."""

    @property
    def head_size(self) -> int:
        """Numbers of a head's key."""
        return self.width // self.heads


SHAPES = {
    "smollm2_135m": Shape("SmolLM2-135M", 30, 576, 1536, 9, 3, 49_152, biased=False),
    "qwen2_5_0_5b": Shape("Qwen2.5-0.5B", 24, 896, 4_864, 14, 2, 151_936, biased=True),
    "llama3_2_1b": Shape("Llama-3.2-1B", 16, 2_048, 8_192, 32, 8, 128_256, biased=False),
}


def make_model(shape: Shape) -> nn.Module:
    """A decoder of this shape, head and embedding tied, with random weights.

    Each layer adds little to what the embedding says, as in trained models. Where layers of noise add up to more than
    it, 4 bits leave 6 dB of the scores, and no proof passes; so 4-bit recipes keep about 15.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

    sizes: dict[str, Any] = {
        "num_hidden_layers": shape.layers,
        "hidden_size": shape.width,
        "intermediate_size": shape.feed_forward,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.key_heads,
        "vocab_size": shape.vocabulary,
        "tie_word_embeddings": True,
        "max_position_embeddings": 2048,
        "bos_token_id": None,
        "eos_token_id": 0,
    }
    torch.manual_seed(0)
    if shape.biased:
        model: nn.Module = Qwen2ForCausalLM(Qwen2Config(**sizes))
    else:
        model = LlamaForCausalLM(LlamaConfig(**sizes))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_tokens" in name:
                parameter.normal_(std=0.5)
            elif parameter.ndim == 2:
                adds = name.endswith(("o_proj.weight", "down_proj.weight"))
                parameter.normal_(std=(parameter.shape[1] * (2 * shape.layers if adds else 1)) ** -0.5)
    return model.eval()


def smollm2_135m() -> nn.Module:
    """SmolLM2-135M's shape."""
    return make_model(SHAPES["smollm2_135m"])


def qwen2_5_0_5b() -> nn.Module:
    """Qwen2.5-0.5B's shape."""
    return make_model(SHAPES["qwen2_5_0_5b"])


def llama3_2_1b() -> nn.Module:
    """Llama-3.2-1B's shape."""
    return make_model(SHAPES["llama3_2_1b"])


MODELS: dict[str, Callable[[], nn.Module]] = {
    "smollm2_135m": smollm2_135m,
    "qwen2_5_0_5b": qwen2_5_0_5b,
    "llama3_2_1b": llama3_2_1b,
}
