"""The 46 Hugging Face architectures of PyTorch's published inductor benchmark, small, with weights of our own.

Names are the benchmark's. Configurations keep what makes an architecture: its attention, positions, norms and heads;
layers are 2, widths 64 and words 512.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from benchmarks.coverage.models.weights import SEED, draw_weights
from benchmarks.coverage.suite import Entry, Example

WORDS = 512
TOKENS = 16

# In the benchmark's list, and no longer in transformers 5.
GONE = {"Speech2Text2ForCausalLM": "transformers removed Speech2Text2"}

_ENCODER = {
    "vocab_size": WORDS,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": 64,
}
_SEQUENCE = {
    "vocab_size": WORDS,
    "max_position_embeddings": 64,
    "d_model": 64,
    "encoder_layers": 2,
    "encoder_ffn_dim": 128,
    "encoder_attention_heads": 4,
    "decoder_layers": 2,
    "decoder_ffn_dim": 128,
    "decoder_attention_heads": 4,
    "use_cache": False,
}
_GPT2 = {"vocab_size": WORDS, "n_positions": 64, "n_embd": 64, "n_layer": 2, "n_head": 4, "use_cache": False}
_T5 = {
    "vocab_size": WORDS,
    "d_model": 64,
    "d_kv": 16,
    "d_ff": 128,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "use_cache": False,
}
_DEBERTA = {
    **_ENCODER,
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
    "max_relative_positions": -1,
    "pooler_hidden_size": 64,
}
_DEBERTA_V2 = {**_DEBERTA, "position_buckets": 8, "share_att_key": True, "norm_rel_ebd": "layer_norm"}
_DISTIL = {"vocab_size": WORDS, "max_position_embeddings": 64, "n_layers": 2, "n_heads": 4, "dim": 64}
_MOBILE = {**_ENCODER, "embedding_size": 32, "intra_bottleneck_size": 32, "true_hidden_size": 32}
_LAYOUT = {**_ENCODER, "max_2d_position_embeddings": 128}
_DECODER = {"is_decoder": True, "use_cache": False}


@dataclass(frozen=True)
class _Architecture:
    """A class of transformers, its configuration, and what it is called with: `ids`, `masked`, `pair`, `layout`."""

    kind: str
    config: Mapping[str, Any]
    call: str = "masked"
    extra: Mapping[str, Any] = field(default_factory=dict)


def _a(kind: str, config: Mapping[str, Any], call: str = "masked", **extra: Any) -> _Architecture:
    return _Architecture(kind, config, call, extra)


ARCHITECTURES = {
    "AlbertForMaskedLM": _a("AlbertForMaskedLM", _ENCODER, embedding_size=32),
    "AlbertForQuestionAnswering": _a("AlbertForQuestionAnswering", _ENCODER, embedding_size=32),
    "AllenaiLongformerBase": _a("LongformerForMaskedLM", _ENCODER, "ids", attention_window=[8, 8]),
    "BartForCausalLM": _a("BartForCausalLM", _SEQUENCE, "ids"),
    "BartForConditionalGeneration": _a("BartForConditionalGeneration", _SEQUENCE, "pair"),
    "BertForMaskedLM": _a("BertForMaskedLM", _ENCODER),
    "BertForQuestionAnswering": _a("BertForQuestionAnswering", _ENCODER),
    "BlenderbotForCausalLM": _a("BlenderbotForCausalLM", _SEQUENCE, "ids"),
    "BlenderbotSmallForCausalLM": _a("BlenderbotSmallForCausalLM", _SEQUENCE, "ids"),
    "BlenderbotSmallForConditionalGeneration": _a("BlenderbotSmallForConditionalGeneration", _SEQUENCE, "pair"),
    "CamemBert": _a("CamembertForMaskedLM", _ENCODER),
    "DebertaForMaskedLM": _a("DebertaForMaskedLM", _DEBERTA),
    "DebertaForQuestionAnswering": _a("DebertaForQuestionAnswering", _DEBERTA),
    "DebertaV2ForMaskedLM": _a("DebertaV2ForMaskedLM", _DEBERTA_V2),
    "DebertaV2ForQuestionAnswering": _a("DebertaV2ForQuestionAnswering", _DEBERTA_V2),
    "DistilBertForMaskedLM": _a("DistilBertForMaskedLM", _DISTIL, hidden_dim=128),
    "DistilBertForQuestionAnswering": _a("DistilBertForQuestionAnswering", _DISTIL, hidden_dim=128),
    "DistillGPT2": _a("GPT2LMHeadModel", _GPT2, "ids"),
    "ElectraForCausalLM": _a("ElectraForCausalLM", {**_ENCODER, **_DECODER}, "ids", embedding_size=32),
    "ElectraForQuestionAnswering": _a("ElectraForQuestionAnswering", _ENCODER, embedding_size=32),
    "GPT2ForSequenceClassification": _a("GPT2ForSequenceClassification", _GPT2, "ids", pad_token_id=0),
    "GoogleFnet": _a("FNetForMaskedLM", _ENCODER, "ids"),
    "LayoutLMForMaskedLM": _a("LayoutLMForMaskedLM", _LAYOUT, "layout"),
    "LayoutLMForSequenceClassification": _a("LayoutLMForSequenceClassification", _LAYOUT, "layout"),
    "M2M100ForConditionalGeneration": _a("M2M100ForConditionalGeneration", _SEQUENCE, "pair"),
    "MBartForCausalLM": _a("MBartForCausalLM", _SEQUENCE, "ids"),
    "MBartForConditionalGeneration": _a("MBartForConditionalGeneration", _SEQUENCE, "pair"),
    "MT5ForConditionalGeneration": _a("MT5ForConditionalGeneration", _T5, "pair"),
    "MegatronBertForCausalLM": _a("MegatronBertForCausalLM", {**_ENCODER, **_DECODER}, "ids"),
    "MegatronBertForQuestionAnswering": _a("MegatronBertForQuestionAnswering", _ENCODER),
    "MobileBertForMaskedLM": _a("MobileBertForMaskedLM", _MOBILE),
    "MobileBertForQuestionAnswering": _a("MobileBertForQuestionAnswering", _MOBILE),
    "OPTForCausalLM": _a(
        "OPTForCausalLM",
        {k: v for k, v in _ENCODER.items() if k != "intermediate_size"},
        ffn_dim=128,
        word_embed_proj_dim=64,
        use_cache=False,
    ),
    "PLBartForCausalLM": _a("PLBartForCausalLM", _SEQUENCE, "ids"),
    "PLBartForConditionalGeneration": _a("PLBartForConditionalGeneration", _SEQUENCE, "pair"),
    "PegasusForCausalLM": _a("PegasusForCausalLM", _SEQUENCE, "ids"),
    "PegasusForConditionalGeneration": _a("PegasusForConditionalGeneration", _SEQUENCE, "pair"),
    "RobertaForCausalLM": _a("RobertaForCausalLM", {**_ENCODER, **_DECODER}, "ids"),
    "RobertaForQuestionAnswering": _a("RobertaForQuestionAnswering", _ENCODER),
    "T5ForConditionalGeneration": _a("T5ForConditionalGeneration", _T5, "pair"),
    "T5Small": _a("T5ForConditionalGeneration", _T5, "pair", num_layers=3, num_heads=8, d_kv=8),
    "TrOCRForCausalLM": _a(
        "TrOCRForCausalLM",
        {k: v for k, v in _SEQUENCE.items() if not k.startswith("encoder")},
        "ids",
    ),
    "XGLMForCausalLM": _a(
        "XGLMForCausalLM",
        {"vocab_size": WORDS, "max_position_embeddings": 64, "d_model": 64, "use_cache": False},
        ffn_dim=128,
        num_layers=2,
        attention_heads=4,
    ),
    "XLNetLMHeadModel": _a(
        "XLNetLMHeadModel",
        {"vocab_size": WORDS, "d_model": 64, "n_layer": 2, "n_head": 4, "d_inner": 128},
        "ids",
        use_mems_eval=False,
    ),
    "YituTechConvBert": _a("ConvBertForMaskedLM", _ENCODER, embedding_size=64),
}


def entries() -> list[Entry]:
    """The architectures that transformers 5 has, in the benchmark's order."""
    return [Entry(f"huggingface/{name}", partial(_make, name)) for name in ARCHITECTURES]


def _make(name: str) -> Example:
    """The module with a call."""
    from benchmarks.zoo import _torchvision

    _torchvision()  # transformers imports it where it is installed
    import transformers

    architecture = ARCHITECTURES[name]
    kind = getattr(transformers, architecture.kind)
    config = kind.config_class(**{**architecture.config, **architecture.extra})
    torch.manual_seed(SEED)
    return Example(draw_weights(kind(config)), (), _CALLS[architecture.call]())


def _ids(seed: int = SEED) -> torch.Tensor:
    """Words from 5 up: those below are padding and other marks."""
    return torch.randint(5, WORDS, (1, TOKENS), generator=torch.Generator().manual_seed(seed))


def _masked() -> dict[str, torch.Tensor]:
    """Words, of which the last two are padding."""
    mask = torch.ones(1, TOKENS, dtype=torch.int64)
    mask[:, -2:] = 0
    return {"input_ids": _ids(), "attention_mask": mask}


def _layout() -> dict[str, torch.Tensor]:
    """Words with their boxes on the page: left, top, right, bottom."""
    generator = torch.Generator().manual_seed(SEED)
    corner = torch.randint(0, 60, (1, TOKENS, 2), generator=generator)
    size = torch.randint(1, 60, (1, TOKENS, 2), generator=generator)
    return {**_masked(), "bbox": torch.cat([corner, corner + size], 2)}


_CALLS: Mapping[str, Callable[[], dict[str, torch.Tensor]]] = {
    "ids": lambda: {"input_ids": _ids()},
    "masked": _masked,
    "pair": lambda: {"input_ids": _ids(), "decoder_input_ids": _ids(SEED + 1)},
    "layout": _layout,
}
