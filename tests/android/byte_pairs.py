"""Byte-level tokenizers as decoders have them, and texts that such tokenizers trip over."""

from __future__ import annotations

import json
from typing import Any

_GREEDY = {"temperature": 0.0, "top_k": 0, "top_p": 1.0, "repetition_penalty": 1.0, "seed": 0, "max_new": 24}
PROMPTS = ("The with statement is used to", "A", "The for statement is used to iterate over the elements of a sequence")
QUESTIONS = (
    _GREEDY,
    {**_GREEDY, "max_new": 80},
    {**_GREEDY, "temperature": 0.8, "top_k": 40, "top_p": 0.9, "seed": 7},
    {**_GREEDY, "temperature": 1.3, "seed": 2**40 + 3},
    {**_GREEDY, "temperature": 0.7, "top_p": 0.5, "repetition_penalty": 1.3, "seed": 123},
    {**_GREEDY, "repetition_penalty": 1.5, "top_k": 1},
)

TEXTS = (
    "The for statement", "  two  spaces\n\n\tand a tab ",
    "I'll don't WE'RE it's", "naïve café e\u0301", "日本語 中文", "1234567 x2",
    "a\u00a0b\u3000c\u2028d",
    "🙂👩‍👩‍👧", "x" * 60, "<|end|>after<|end|><|end|> it", "!?...—", "\x00\x7f\x85", "ſ 'ſ", "A",
)  # fmt: skip

# How Llama 3 cuts (Qwen's differs in the digits).
_LLAMA = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
    r"\s+(?!\S)|\s+"
)


def make_tokenizer(kind: str) -> dict[str, Any]:
    """The content of `tokenizer.json`, trained on the texts.

    Args:
        kind: `split` cuts by an expression, composes letters, takes whole words and begins texts with an id; `digits`
            takes digits one by one.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    is_split = kind == "split"
    tokenizer = Tokenizer(models.BPE(ignore_merges=is_split))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not is_split)
    if is_split:
        cut = pre_tokenizers.Split(Regex(_LLAMA), "isolated")
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([cut, byte_level])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=["<|end|>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([*TEXTS, "The for statement is the statement of the world"] * 3, trainer)
    if is_split:
        tokenizer.post_processor = processors.TemplateProcessing(single="<|end|> $A", special_tokens=[("<|end|>", 0)])
    data: dict[str, Any] = json.loads(tokenizer.to_str())
    return data
