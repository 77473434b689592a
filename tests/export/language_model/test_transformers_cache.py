"""Decoders of transformers with our cache read texts as they do without any; others are refused by name."""

from __future__ import annotations

import pytest
import torch
from onednn_support import needs_onednn

import edgex
from edgex.delegates.graph.schema import operator_name
from edgex.errors import CaptureError, UsageError
from edgex.export.capture.stage import capture_source
from edgex.export.language_model.request import read_request
from edgex.export.language_model.source import prepare_language_model, random_text
from edgex.export.quantization.running import GraphRunner
from edgex.export.rewrites.attention.cached import write_cached_attention, write_cached_attention_int8
from edgex.export.source.source import wrap_model
from edgex.runtime.session.numerics import measure_sqnr_db
from edgex.samples.random_weights import randomise_weights

transformers = pytest.importorskip("transformers", reason="the example needs transformers, which is not installed")

CONTEXT, CHUNK = 40, 8
SMALL = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
SMALL |= {"max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SHARED = {**SMALL, "num_key_value_heads": 2}
WINDOW = {**SHARED, "head_dim": 8, "sliding_window": 8}

# Shared key heads, windows shorter than the text, soft caps, tied heads, learned places.
FAMILIES = {
    "Llama": SHARED,
    "Qwen2": SHARED,
    "Qwen3": {**SHARED, "head_dim": 8},
    "Mistral": WINDOW,
    "Gemma2": {**WINDOW, "query_pre_attn_scalar": 8},
    "Phi3": SHARED,
    "GPT2": {
        "vocab_size": 96,
        "n_embd": 32,
        "n_layer": 2,
        "n_head": 4,
        "n_positions": 64,
        "bos_token_id": 1,
        "eos_token_id": 2,
    },
}


def _source(family, **changes):
    config = getattr(transformers, f"{family}Config")(**{**FAMILIES[family], **changes})
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    randomise_weights(model)
    return wrap_model(model, (), {})


@pytest.mark.parametrize("family", FAMILIES)
def test_the_cache_holds_what_the_model_computes_without_one(family):
    # It compares a text of 2 chunks + 1 in chunks, and token by token, with the model's own reading of the whole.
    source = prepare_language_model(_source(family), read_request(True, CONTEXT, CHUNK))
    assert source.language.vocabulary == 96 and source.language.eos == (2,)
    heads = FAMILIES[family].get("num_key_value_heads", 4)
    assert source.language.cache_bytes == 2 * 2 * heads * 8 * CONTEXT * 4


def test_weights_in_half_precision_are_taken_as_float32():
    source = _source("Llama")
    source.module.bfloat16()
    prepared = prepare_language_model(source, read_request(True, CONTEXT, CHUNK))
    assert any("the weights were bfloat16" in notice for notice in prepared.notices)
    assert prepared.language.cache_dtype == "float32"


def test_a_decoder_is_exported(tmp_path):
    artifact = edgex.export_model(
        _source("Llama").module, target="reference", context=CONTEXT, chunk=CHUNK, output=tmp_path, name="llama"
    )
    assert artifact.manifest.status == "verified" and artifact.manifest.llm.bos == 1


def test_a_cache_in_8_bits_is_a_quarter_and_near_the_one_in_float():
    prepared = prepare_language_model(_source("Llama"), read_request(True, CONTEXT, CHUNK, kv="int8"))
    assert prepared.language.cache_dtype == "int8" and prepared.language.cache_bytes == 2 * 2 * 2 * CONTEXT * (8 + 4)
    notice = next(notice for notice in prepared.notices if notice.startswith("the cache of"))
    decibels = int(notice.partition("its scores are ")[2].partition(" dB")[0])
    assert 25 < decibels < 80, notice
    assert any("the filled part of the cache is read" in notice for notice in prepared.notices)


def test_a_cache_in_8_bits_is_proved_against_eager_with_the_same(tmp_path):
    artifact = edgex.export_model(
        _source("Llama").module, target="onnx-cpu", context=CONTEXT, chunk=CHUNK, output=tmp_path, name="l", kv="int8"
    )
    assert artifact.manifest.verification["tolerance"]["min_sqnr_db"] == 30.0
    assert {spec.dtype for spec in artifact.manifest.method.state} == {"int8", "float32"}


@pytest.mark.parametrize(("family", "windows"), [("Llama", [0, 0]), ("Mistral", [8, 8])])
@pytest.mark.parametrize("kv", ["fp32", "int8"])
def test_attention_over_the_cache_is_one_operator(family, windows, kv):
    source = prepare_language_model(_source(family), read_request(True, CONTEXT, CHUNK, kv=kv))
    captured = capture_source(source, {}, lambda *_: None).capture.program
    passes = {"fp32": write_cached_attention, "int8": write_cached_attention_int8}
    program, rewrite = passes.pop(kv)(captured)
    assert rewrite is not None and rewrite.count == 2
    suffix = "" if kv == "fp32" else "_int8"
    names = [operator_name(node) for node in program.exported.graph.nodes]
    calls = [node for node in program.exported.graph.nodes if operator_name(node) == f"edgex::cached_attention{suffix}"]
    assert [call.args[-1] for call in calls] == windows
    # Nothing of what made numbers in 8 bits is left.
    assert not {"aten::index_copy_", "aten::round", "aten::amax"} & set(names)
    text, runners = random_text(96, CONTEXT, seed=4), [GraphRunner(captured), GraphRunner(program)]
    for part in (slice(0, CHUNK), slice(CHUNK, CHUNK + 1), slice(CHUNK + 1, CHUNK + 5), slice(3, 4)):
        given = [torch.from_numpy(text[None, part].copy()), torch.tensor([part.start])]
        expected, found = (runner.run(given)[0].numpy() for runner in runners)
        assert measure_sqnr_db(expected, found) > 100, part
    (other,) = passes.values()
    assert other(captured) == (captured, None)


@pytest.mark.parametrize("changed", ["clamp", "div"])
def test_a_cache_in_8_bits_of_another_rule_stays_as_it_is(changed, monkeypatch):
    def narrow(states):
        largest = states.abs().amax(-1, keepdim=True).clamp(min=1e-6 if changed != "clamp" else 1e-2)
        scale = largest / (127.0 if changed != "div" else 100.0)
        return torch.round(states / scale).clamp(-127, 127).to(torch.int8), scale

    monkeypatch.setattr("edgex.export.language_model.cache_layers.narrow_rows", narrow)
    source = prepare_language_model(_source("Llama"), read_request(True, CONTEXT, CHUNK, kv="int8"))
    program = capture_source(source, {}, lambda *_: None).capture.program
    assert write_cached_attention_int8(program) == (program, None)


@needs_onednn
@pytest.mark.parametrize(("family", "size"), [pytest.param("Llama", 64, marks=pytest.mark.slow), ("Mistral", 20)])
def test_a_cache_in_8_bits_is_one_kernel_on_onednn(family, size, tmp_path):
    """Texts of several parts of 128 places, chunks that are packed, and heads that are no whole registers."""
    source = _source(family, num_hidden_layers=1, head_dim=size, max_position_embeddings=512)
    artifact = edgex.export_model(
        source.module, target="onednn", context=300, chunk=70, output=tmp_path, name="l", kv="int8"
    )
    manifest = artifact.manifest
    assert manifest.status == "verified" and "write_cached_attention_int8" in {one["name"] for one in manifest.rewrites}
    least = min(case["sqnr_db"] for case in manifest.verification["cases"] if case["sqnr_db"] is not None)
    assert least > 80, f"{least:.1f} dB"


def test_what_is_no_decoder_is_refused_by_name():
    bert = transformers.BertForMaskedLM(transformers.BertConfig(**SMALL)).eval()
    with pytest.raises(CaptureError, match="BertForMaskedLM is no decoder"):
        prepare_language_model(wrap_model(bert, (), {}), read_request(True, CONTEXT, CHUNK))
    with pytest.raises(UsageError, match="--source is for models with an encoder"):
        prepare_language_model(_source("Llama"), read_request(True, CONTEXT, CHUNK, 8))


def test_a_context_is_bounded_by_the_model_and_by_memory(monkeypatch):
    with pytest.raises(UsageError, match="--context 65 is longer than LlamaForCausalLM can read"):
        prepare_language_model(_source("Llama"), read_request(True, 65, CHUNK))
    monkeypatch.setattr("edgex.export.language_model.transformers_cache.read_available_bytes", lambda: 10_000)
    with pytest.raises(UsageError, match="a cache of 40 tokens does not fit into memory") as raised:
        prepare_language_model(_source("Llama"), read_request(True, CONTEXT, CHUNK))
    assert "2 layers x 40 tokens" in raised.value.why and raised.value.fix == "--context 19"
