"""Encoders with decoders of transformers: what the decoder attends to is made once, and read as the model reads it."""

from __future__ import annotations

import pytest
import torch

import edgex
from edgex.errors import UsageError
from edgex.export.language_model.request import LanguageRequest
from edgex.export.language_model.source import prepare_language_model
from edgex.export.source.source import wrap_model
from edgex.runtime.artifact.specs import Dim
from edgex.samples.random_weights import randomise_weights

transformers = pytest.importorskip("transformers", reason="the example needs transformers, which is not installed")

CONTEXT, CHUNK, SOURCE = 40, 8, 24
ENDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 3}
SIZES = {"vocab_size": 96, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4}
SIZES |= {"decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, **ENDS}
LEARNED = {**SIZES, "max_position_embeddings": 64}
FAMILIES = {
    "Whisper": {**SIZES, "num_mel_bins": 8, "max_source_positions": 20, "max_target_positions": 64},
    "T5": {"vocab_size": 96, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, **ENDS},
    "Bart": LEARNED,
    "Marian": LEARNED,
    "Pegasus": LEARNED,
}


def _source(family, *args):
    config = getattr(transformers, f"{family}Config")(**FAMILIES[family])
    kind = "MTModel" if family == "Marian" else "ForConditionalGeneration"
    model = getattr(transformers, family + kind)(config).eval()
    randomise_weights(model)
    return wrap_model(model, args, {})


def _ask(family, **changes):
    source = None if family == "Whisper" else SOURCE
    return LanguageRequest(**{"context": CONTEXT, "chunk": CHUNK, "source": source, **changes})


@pytest.mark.parametrize("family", FAMILIES)
def test_the_decoder_reads_the_source_as_the_model_does_without_a_cache(family):
    # It compares a text of 2 chunks + 1 in chunks, and token by token, with the model's own reading of the whole.
    encode = prepare_language_model(_source(family), _ask(family))
    (decoder,) = encode.others
    assert (encode.method, decoder.method) == ("encode", "prefill")
    language = decoder.language
    assert (language.vocabulary, language.start, language.eos) == (96, (3,), (2,))
    assert encode.dynamic == ({} if family == "Whisper" else {("source", 1): Dim("s", 1, SOURCE)})
    # What an earlier source left behind the end of a shorter one is not seen.
    model = encode.module.model
    if family != "Whisper":
        tokens, start = torch.tensor([[3, 7, 8]]), torch.zeros(1, dtype=torch.int64)
        long, short = torch.arange(SOURCE)[None] + 4, torch.tensor([[9, 8, 7]])
        with torch.no_grad():
            model.encode(short)
            alone = model(tokens, start).clone()
            model.encode(long)
            assert not torch.allclose(model(tokens, start), alone, atol=1e-3)
            model.encode(short)
            assert torch.allclose(model(tokens, start), alone, atol=1e-5)


def test_one_is_exported_and_translates(tmp_path):
    model = _source("T5").module
    artifact = edgex.export_model(
        model, target="onnx-cpu", context=CONTEXT, chunk=CHUNK, source=SOURCE, output=tmp_path, name="t5"
    )
    assert artifact.manifest.status == "verified"
    source, ids = torch.tensor([[5, 9, 30, 2]]), [3]
    with torch.no_grad():
        for _ in range(6):
            scores = model(input_ids=source, decoder_input_ids=torch.tensor([ids])).logits
            ids.append(int(scores[0, -1].argmax()))
    with edgex.load(artifact.path) as session:
        generator = session.generator()
        generator.feed(source.numpy())
        assert list(generator.stream(max_new=6, ignore_eos=True)) == ids[1:]


def test_sizes_are_bounded_by_the_model():
    with pytest.raises(UsageError, match="--context 65 is longer than WhisperForConditionalGeneration"):
        prepare_language_model(_source("Whisper"), _ask("Whisper", context=65))
    with pytest.raises(UsageError, match="--source 65 is longer than BartForConditionalGeneration"):
        prepare_language_model(_source("Bart"), _ask("Bart", source=65))
    with pytest.raises(UsageError, match="--source is for encoders of text"):
        prepare_language_model(_source("Whisper"), _ask("Whisper", source=10))
    with pytest.raises(UsageError, match="the example has 30 tokens"):
        prepare_language_model(_source("T5", torch.ones(1, 30, dtype=torch.int64)), _ask("T5"))
