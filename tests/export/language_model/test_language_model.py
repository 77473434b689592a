"""Language models: prefill and decode share one program and one cache, and read texts as eager does."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from language_support import VOCABULARY, Decoder, ForgetfulDecoder, GrowingDecoder, MaskedDecoder, make_decoder

import edgex
from edgex.errors import CaptureError, EdgexError, LoweringError, RunError, UsageError
from edgex.export.language_model.request import read_request
from edgex.export.language_model.source import pieces, prepare_language_model, random_text
from edgex.export.source.source import wrap_model
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.session.numerics import measure_sqnr_db

CONTEXT, CHUNK = 24, 4
# docs/llm.md exports to xnnpack, and its proof reads the same texts.
TARGETS = (pytest.param("xnnpack", marks=pytest.mark.slow), "onnx-cpu", "onednn", "reference")


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory):
    """An artifact of the same decoder for a target, made when it is first asked for."""
    made = {}

    def artifact_for(target):
        if target not in made:
            folder = tmp_path_factory.mktemp("llm")
            model = make_decoder(context=CONTEXT)
            made[target] = edgex.export_model(
                model, target=target, context=CONTEXT, chunk=CHUNK, output=folder, name="decoder"
            )
        return made[target]

    return artifact_for


@pytest.fixture
def opened(artifacts):
    """Open sessions that are closed at the end."""
    sessions = []

    def open_for(target, **settings):
        sessions.append(edgex.load(artifacts(target).path, **settings))
        return sessions[-1]

    yield open_for
    for session in sessions:
        session.close()


def _call(session, ids, position):
    return session(np.asarray(ids, np.int64)[None], np.array([position], np.int64))["logits"]


@pytest.mark.parametrize("target", TARGETS)
def test_chunks_and_single_tokens_give_what_eager_gives_to_the_whole_text(opened, target):
    prefill = opened(target)
    decode = prefill.method("decode")
    text, model = random_text(VOCABULARY, CONTEXT, seed=3), make_decoder(context=CONTEXT)
    with torch.no_grad():
        expected = model(torch.from_numpy(text[None]), torch.zeros(1, dtype=torch.int64))[0].numpy()
    for part in pieces(9, CHUNK):
        logits = _call(prefill, text[part], part.start)
        assert measure_sqnr_db(expected[part.stop - 1 : part.stop], logits) > 80, part
    for position in range(9, CONTEXT):
        logits = _call(decode, text[position : position + 1], position)
        assert measure_sqnr_db(expected[position : position + 1], logits) > 80, position


@pytest.mark.parametrize("target", TARGETS)
def test_a_position_takes_tokens_back_and_a_reset_leaves_no_trace(opened, target):
    prefill = opened(target)
    decode = prefill.method("decode")
    empty = _call(decode, [5], 6)  # looks at six places that nobody wrote
    _call(prefill, [1, 2, 3, 4], 0)
    end = _call(decode, [9], 2)
    _call(decode, [30], 2)
    assert not np.array_equal(_call(decode, [5], 6), empty)
    decode.reset()
    assert np.array_equal(_call(decode, [5], 6), empty)
    _call(prefill, [1, 2], 0)
    assert measure_sqnr_db(end, _call(decode, [9], 2)) > 80


@pytest.mark.parametrize("target", TARGETS)
def test_the_artifact_says_what_it_is_and_holds_one_program(artifacts, target):
    artifact = artifacts(target)
    manifest = artifact.manifest
    assert [(method.name, method.entry) for method in manifest.methods] == [
        ("prefill", "forward"),
        ("decode", "forward"),
    ]
    assert (manifest.llm.vocabulary, manifest.llm.context, manifest.llm.chunk) == (VOCABULARY, CONTEXT, CHUNK)
    assert manifest.llm.cache_bytes == 2 * CONTEXT * 16 * 4 and manifest.llm.eos == ()
    weights = [entry.path for entry in manifest.native_files if entry.path.startswith("model")]
    assert len(weights) <= 2, weights
    proved = {case["name"] for case in manifest.verification["cases"] if case["verdict"] == "pass"}
    lengths = (1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 1, CONTEXT)
    assert all(any(name.startswith(f"text of {length} token") for name in proved) for length in lengths), proved
    assert any("decoded: the context is full" in name for name in proved)


@pytest.mark.parametrize(
    ("method", "ids", "position", "words"),
    [
        ("decode", [1], CONTEXT, "the context is full: 1 token at position 24 would end at 25 of 24"),
        ("prefill", [1, 2, 3], CONTEXT - 2, "3 tokens at position 22 would end at 25 of 24"),
        ("decode", [1], -1, "position is -1"),
        ("decode", [VOCABULARY], 0, "token 50 is not in the vocabulary of 50"),
        ("prefill", [0, -1], 0, "token -1 is not in the vocabulary"),
        ("prefill", [], 0, "size 0 in dimension 1, outside n=1..4"),
        ("prefill", [0] * 5, 0, "size 5 in dimension 1, outside n=1..4"),
    ],
)
def test_a_session_refuses_before_the_engine_runs(opened, method, ids, position, words):
    session = opened("reference", method=method)
    with pytest.raises(RunError) as raised:
        _call(session, ids, position)
    assert words in raised.value.what


def test_sessions_of_the_methods_are_one_loaded_program(opened):
    prefill = opened("reference")
    decode = prefill.method("decode")
    assert prefill.methods == ("prefill", "decode") and decode.runner is prefill.runner
    assert prefill.method("prefill") is prefill and decode.method("prefill").inputs == prefill.inputs
    with pytest.raises(RunError, match="no method 'generate'"):
        prefill.method("generate")
    decode.close()
    with pytest.raises(RunError, match="closed"):
        _call(prefill, [1], 0)


def test_verify_runs_the_cases_of_all_methods_or_of_one(artifacts, edgex):
    path = str(artifacts("reference").path)
    verdicts = {}
    for flags in ((), ("--method", "decode")):
        done = edgex("verify", path, "--json", *flags)
        assert done.returncode == 0, done.stderr
        verdicts[flags] = {case["name"] for case in json.loads(done.stdout)["cases"]}
    assert verdicts["--method", "decode"] < verdicts[()]
    assert all("token by token" in name or "decoded" in name or "-1" in name for name in verdicts["--method", "decode"])
    done = edgex("run", path, "--method", "decode", "--json")
    assert json.loads(done.stdout)["outputs"][0]["shape"] == [1, VOCABULARY]
    done = edgex("run", path, "--method", "encode")
    assert done.returncode == 6 and "known: decode, prefill" in done.stderr


class _Scaled(Decoder):
    def forward(self, tokens, position):
        return 2 * super().forward(tokens, position)


@pytest.mark.parametrize(("kind", "rows"), [(Decoder, 1), (_Scaled, CHUNK)])
def test_the_last_layer_sees_the_last_token_only_where_nothing_follows_it(kind, rows):
    model = make_decoder(kind, context=CONTEXT)
    source = prepare_language_model(wrap_model(model, (), {}), read_request(True, CONTEXT, CHUNK))
    seen = []
    hook = model.scores.register_forward_hook(lambda _part, args, _result: seen.append(args[0].shape[1]))
    with torch.no_grad():
        source.module(*source.args)
        hook.remove()
    assert seen == [rows]
    assert not model.scores._forward_pre_hooks, "the user's module is as it was"


class _TakesTokensOnly(Decoder):
    def forward(self, tokens):
        return super().forward(tokens, torch.zeros(1, dtype=torch.int64))


class _GivesIds(Decoder):
    def forward(self, tokens, position):
        return super().forward(tokens, position).argmax(-1)


class _SeesAhead(Decoder):
    def forward(self, tokens, position):
        return super().forward(tokens, position) + self.embed(tokens).sum()


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (ForgetfulDecoder, "reads a text of 9 tokens otherwise in chunks of 4 than at once"),
        (_SeesAhead, "otherwise in chunks of 4 than at once"),
        (GrowingDecoder, "replaces its buffer attention.keys, which grows from [1, 2, 24, 8] to"),
        (_TakesTokensOnly, "forward cannot be called with tokens and a position"),
        (_GivesIds, "gives torch.int64 for 2 tokens, not scores"),
    ],
)
def test_a_decoder_that_gets_texts_wrong_is_refused_before_the_slow_steps(model, words):
    source = wrap_model(make_decoder(model, context=CONTEXT), (), {})
    with pytest.raises(CaptureError) as raised:
        prepare_language_model(source, read_request(True, CONTEXT, CHUNK))
    assert words in raised.value.what and raised.value.fix, raised.value


@pytest.mark.parametrize("target", [pytest.param("xnnpack", marks=pytest.mark.slow), "onednn"])
def test_attention_with_a_mask_over_the_whole_cache_is_lowered(target, tmp_path):
    """Its mask is as wide as the filled part, which only a run knows."""
    model = make_decoder(MaskedDecoder, context=CONTEXT)
    made = edgex.export_model(model, target=target, context=CONTEXT, chunk=CHUNK, output=tmp_path, name="masked")
    assert open_artifact(made.path).manifest.status == "verified"


class _Recurrent(torch.nn.Module):
    """Adds the token before the last to each; `clears` at position 0."""

    def __init__(self, *, clears: bool) -> None:
        super().__init__()
        self.embed, self.scores = torch.nn.Embedding(VOCABULARY, 16), torch.nn.Linear(16, VOCABULARY)
        self.clears = clears
        self.register_buffer("state", torch.zeros(1, 2, 16))

    def forward(self, tokens, position):
        x = self.embed(tokens)
        before = self.state * (position > 0) if self.clears else self.state * 1.0
        window = torch.cat([before, x], 1)
        self.state.copy_(window[:, -2:])
        return self.scores(x + window[:, :-2])


def test_a_state_that_position_0_does_not_clear_is_refused():
    torch.manual_seed(0)
    source = wrap_model(_Recurrent(clears=False).eval(), (), {})
    with pytest.raises(CaptureError) as raised:
        prepare_language_model(source, read_request(True, CONTEXT, CHUNK))
    assert "does not begin a new text at position 0" in raised.value.what and "position > 0" in raised.value.fix


def test_a_state_that_mixes_tokens_takes_none_back(tmp_path):
    torch.manual_seed(0)
    model = _Recurrent(clears=True).eval()
    made = edgex.export_model(model, target="reference", context=CONTEXT, chunk=CHUNK, output=tmp_path, name="state")
    with edgex.load(made.path) as session:
        generator = session.generator()
        assert generator.limits.rewinds is False
        generator.prefill([1, 2, 3, 4, 5])
        with pytest.raises(RunError, match="nothing can be taken back"):
            generator.rewind(2)
        generator.reset()
        generator.prefill([7])


def test_a_cache_by_positions_takes_tokens_back(artifacts):
    manifest = open_artifact(artifacts("reference").path).manifest
    assert manifest.llm is not None and manifest.llm.rewinds and "rewinds" not in manifest.llm.to_json()


def test_a_context_longer_than_the_cache_is_refused():
    source = wrap_model(make_decoder(context=CONTEXT), (), {})
    with pytest.raises(UsageError, match="cannot read a token at position 31"):
        prepare_language_model(source, read_request(True, 32, CHUNK))


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("tokenizer.json", {"model": {"vocab": {"a": 0, "b": 50}}}, "ids up to 50, the vocabulary has 50"),
        ("tokenizer.json", {"model": {}, "added_tokens": [{"id": 60, "content": "<end>"}]}, "ids up to 60"),
        ("generation_config.json", {"eos_token_id": [2, 77]}, "eos_token_id is 77, outside the vocabulary of 50"),
        ("generation_config.json", {"bos_token_id": "<s>"}, "bos_token_id is '<s>'"),
    ],
)
def test_files_of_another_model_are_refused(tmp_path, file, text, words):
    (tmp_path / file).write_text(json.dumps(text))
    with pytest.raises(UsageError) as raised:
        _prepare_in(tmp_path)
    assert words in raised.value.what


def test_ends_come_from_the_generation_config_and_files_travel(tmp_path):
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 3], "bos_token_id": 1}))
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {"a": 0}}}))
    source = _prepare_in(tmp_path)
    assert (source.language.bos, source.language.eos) == (1, (2, 3))
    assert set(source.processor_files) == {"generation_config.json", "tokenizer.json"}


def _prepare_in(folder):
    from dataclasses import replace

    source = replace(wrap_model(make_decoder(context=CONTEXT), (), {}), source_root=folder)
    return prepare_language_model(source, read_request(True, CONTEXT, CHUNK))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((True, None, None), "--llm without --context"),
        ((True, 1, None), "--context must be at least 2"),
        ((True, 16, 17), "--chunk must be 1 to the context of 16"),
        ((False, 16, None), "--context is for language models"),
        ((False, None, 16), "--chunk is for language models"),
    ],
)
def test_sizes_that_do_not_fit_together_are_refused(given, words):
    with pytest.raises(UsageError) as raised:
        read_request(*given)
    assert words in raised.value.what and raised.value.fix


@pytest.mark.parametrize(
    ("settings", "kind", "words"),
    [
        ({"target": "aoti"}, LoweringError, "does not take --llm"),
        ({"quantize": "int8"}, UsageError, "does not go with --llm"),
        ({"max_drop": 0.1, "quantize": "8da4w"}, UsageError, "--max-drop does not go with"),
    ],
)
def test_what_does_not_go_with_a_language_model_is_refused_at_once(settings, kind, words):
    class Untouched(Decoder):
        def forward(self, tokens, position):
            raise AssertionError("the model was run")

    with pytest.raises(EdgexError) as raised:
        edgex.export_model(Untouched(), **{"target": "xnnpack", **settings}, context=CONTEXT)
    assert isinstance(raised.value, kind) and words in raised.value.what
