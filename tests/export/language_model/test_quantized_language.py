"""Language models in few bits: the head and the table apart from the layers, and how far choices move."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from language_support import VOCABULARY, make_decoder

import edgex
from edgex.delegates.recipes.recipes import get_recipe
from edgex.errors import QuantizationError, UsageError
from edgex.export.capture.stage import capture_source
from edgex.export.language_model.request import read_request
from edgex.export.language_model.source import prepare_language_model
from edgex.export.proof.language_cases import make_language_cases
from edgex.export.proof.verification import QuantizedReference
from edgex.export.quantization.linear.head import find_head
from edgex.export.quantization.linear.layers import quantize_linear, quantize_tables
from edgex.export.quantization.running import GraphRunner
from edgex.export.source.source import wrap_model
from edgex.runtime.session.agreement import measure_agreement
from edgex.runtime.session.numerics import measure_sqnr_db

CONTEXT, CHUNK = 24, 4


@pytest.fixture(scope="module")
def captured():
    """A decoder's program."""
    source = prepare_language_model(
        wrap_model(make_decoder(context=CONTEXT), (), {}), read_request(True, CONTEXT, CHUNK)
    )
    return capture_source(source, {}, lambda *_: None).capture


def _scores(program, capture):
    return GraphRunner(program).run(capture.eager.example)[0].numpy()


def test_the_head_is_the_layer_behind_which_nothing_computes(captured):
    head = find_head(captured.program.exported)
    assert tuple(head.args[1].meta["val"].shape) == (VOCABULARY, 16)


def test_a_head_in_8_bits_and_one_in_float_are_closer_to_eager_than_one_in_4(captured):
    recipe, found = get_recipe("8da4w", 16), {}
    expected = captured.eager.example_outputs[0].numpy()
    for head in ("recipe", "int8", "float"):
        program = quantize_linear(captured.program, replace(recipe, head=head), frozenset()).program
        found[head] = measure_sqnr_db(expected, _scores(program, captured))
    assert found["recipe"] + 1 < found["int8"] <= found["float"] + 3, found


def test_a_table_in_8_bits_costs_a_quarter_and_little_accuracy(captured):
    program = quantize_tables(captured.program, get_recipe("8da4w", 16))
    assert program.inputs == captured.program.inputs and program.state == captured.program.state
    tables = [tensor for tensor in program.exported.state_dict.values() if tensor.dtype == torch.int8]
    assert sorted(tuple(table.shape) for table in tables) == [(CONTEXT, 16), (VOCABULARY, 16)]
    sqnr = measure_sqnr_db(captured.eager.example_outputs[0].numpy(), _scores(program, captured))
    assert 30 < sqnr < 100, sqnr


@pytest.mark.parametrize("target", [pytest.param("xnnpack", marks=pytest.mark.slow), "onnx-cpu", "onednn"])
def test_an_artifact_in_few_bits_is_proved_and_says_how_far_its_choices_are(tmp_path, target):
    given = {"quantize": "8da8w"} if target == "xnnpack" else {"group_size": 16}
    artifact = edgex.export_model(
        make_decoder(context=CONTEXT), target=target, context=CONTEXT, chunk=CHUNK, output=tmp_path, name="decoder",
        **{"quantize": "8da4w", "head": "int8", "embedding": "int8", **given},
    )  # fmt: skip
    manifest = json.loads((artifact.path / "manifest.json").read_text())
    assert manifest["quantization"]["head"] == manifest["quantization"]["embedding"] == "int8"
    verdict = manifest["verification"]
    compared = {case["reference"] for case in verdict["cases"] if case["sqnr_db"] is not None}
    assert verdict["passed"] and compared == {"eager", "quantized"}
    agreement = verdict["agreement"]
    assert agreement["calls"] == 13 and 0 < agreement["kl_divergence"] < 0.5, agreement
    assert agreement["greedy_prefix"] <= 13 * agreement["top1"] + 1, agreement


def test_agreement_counts_choices_and_where_they_part():
    rng = np.random.default_rng(0)
    expected = [rng.standard_normal((1, 8)) for _ in range(4)]
    same = measure_agreement(expected, [scores + 3.0 for scores in expected])
    assert (same.calls, same.top1, same.greedy_prefix) == (4, 1.0, 4) and abs(same.kl_divergence) < 1e-12
    other = measure_agreement(expected, [expected[0], -expected[1], *expected[2:]])
    assert (other.top1, other.greedy_prefix) == (0.75, 1) and other.kl_divergence > 0.1, other


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ({"head": "int8"}, UsageError, "--head int8 without a recipe"),
        ({"embedding": "int8", "quantize": "int8-dynamic"}, UsageError, "--embedding int8 does not go with"),
        ({"head": "int4", "quantize": "8da4w"}, UsageError, "--head int4 is unknown"),
        ({"kv": "int8"}, UsageError, "--kv int8 is for models of transformers"),
    ],
)
def test_what_has_nothing_to_act_on_is_refused(given, kind, words):
    with pytest.raises(kind) as raised:
        edgex.export_model(make_decoder(context=CONTEXT), target="onnx-cpu", context=CONTEXT, **given)
    assert words in raised.value.what


def test_a_model_without_a_table_is_told_so(captured):
    program = quantize_tables(captured.program, get_recipe("8da4w", 16))
    with pytest.raises(QuantizationError, match="no table of embeddings"):
        quantize_tables(program, get_recipe("8da4w", 16))


def test_a_case_that_is_left_out_is_not_answered(captured):
    """Answers are what a proof of a large model takes its time for."""
    llm = prepare_language_model(
        wrap_model(make_decoder(context=CONTEXT), (), {}), read_request(True, CONTEXT, CHUNK)
    ).language
    program = quantize_linear(captured.program, get_recipe("8da4w", 16), frozenset()).program
    quantized = QuantizedReference(GraphRunner(program))
    answered = []

    def make(skip):
        answered.clear()
        return make_language_cases(captured.program, captured.eager, llm, skip, answered.append, quantized)

    everything = [case.name for case in make(())]
    assert len(answered) == len([name for name in everything if name in answered])
    left = [name for name in answered if "one by one" not in name]
    cases = {case.name: case for case in make(left)}
    assert [*cases] == everything and len(answered) == 1 and answered[0] not in left
    assert all(cases[name].kind == "skipped" and "--skip-case" in cases[name].reason for name in left)
    with pytest.raises(UsageError, match="there is no such case") as caught:
        make(("text of 9 tokens",))
    assert not answered and left[0] in str(caught.value.why)
