"""A small tokenizer of BERT's kind as `tokenizer.json`, and texts that such tokenizers trip over."""

from __future__ import annotations

from typing import Any

_WORDS = ("the", "cat", "sat", "un", "##believ", "##able", "naive", "cafe", "##s", "1", "##0", "##9", "σ", "i")
_SIGNS = (".", ",", "!", "'", "$", "-", "…", "—", "中", "文", "日")
VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", *_WORDS, *_SIGNS)

TEXTS = (
    "The cat sat.", "unbelievable cats!", "  naïve\tCAFÉ\n", "中文日the", "109 $1,0-9…", "the—cat 'sat'", "ΣΣ Σ",
    "I İ i", "cat\u200bcat\x07 \u3000sat", "x" * 101, "zebra the", "", "e\u0301 cafe\u0301s", "the cat " * 40,
)  # fmt: skip


def make_tokenizer(**changes: Any) -> dict[str, Any]:
    """The content of `tokenizer.json`; changes replace parts of it."""
    ids = {token: number for number, token in enumerate(VOCABULARY)}
    frame = [{"SpecialToken": {"id": name, "type_id": 0}} for name in ("[CLS]", "[SEP]")]
    parts = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
        "normalizer": {
            "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [frame[0], {"Sequence": {"id": "A", "type_id": 0}}, frame[1]],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {
                name: {"id": name, "ids": [ids[name]], "tokens": [name]} for name in ("[CLS]", "[SEP]")
            },
        },
        "decoder": None,
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": ids,
        },
    }  # fmt: skip
    return {**parts, **changes}
