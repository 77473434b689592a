"""Which artifacts are language models, what they take, and which prompts are refused before anything is loaded."""

import json
from dataclasses import replace

import numpy as np
import pytest
from decoder_support import CHUNK, CONTEXT, POSITION, SCORES, TOKENS, VOCABULARY, unloaded

from edgex.errors import ArtifactError, RunError
from edgex.runtime.artifact.specs import Dim
from edgex.runtime.generation.limits import Limits, read_limits


def test_what_an_ordinary_artifact_takes(tmp_path):
    config = {"eos_token_id": [2, 5], "bos_token_id": 1}
    found = read_limits(unloaded(tmp_path, files={"generation_config.json": json.dumps(config)}))
    assert found == Limits(VOCABULARY, CONTEXT, CHUNK, 1, (2, 5))


def test_a_model_that_counts_its_position_has_no_end(tmp_path):
    one = replace(TOKENS, shape=(1, 1))
    assert read_limits(unloaded(tmp_path, inputs=[one])) == Limits(VOCABULARY, None, 1)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"state": []}, "carries no state"),
        ({"inputs": [replace(TOKENS, dtype="float32"), POSITION]}, "its first input is tokens: float32"),
        ({"inputs": [replace(TOKENS, shape=(2, 1)), POSITION]}, "its first input is tokens: int64[2, 1]"),
        ({"inputs": [replace(TOKENS, shape=(1, 8)), POSITION]}, "takes 8 tokens at once"),
        ({"inputs": [replace(TOKENS, shape=(1, Dim("n", 2, 8))), POSITION]}, "takes n=2..8 tokens at once"),
        ({"inputs": [TOKENS, POSITION, replace(POSITION, name="mask")]}, "takes 3 inputs"),
        ({"inputs": [TOKENS, replace(POSITION, dtype="float32")]}, "its second input is position: float32"),
        ({"inputs": [TOKENS, replace(POSITION, shape=(4,))]}, "fits neither one position nor"),
        ({"outputs": [SCORES, replace(SCORES, name="output_1")]}, "gives 2 outputs"),
        ({"outputs": [replace(SCORES, dtype="int64")]}, "its output is output_0: int64"),
        ({"outputs": [replace(SCORES, shape=(1, Dim("v", 1, 9)))]}, "its output is"),
    ],
)
def test_what_is_no_language_model(changes, why, tmp_path):
    with pytest.raises(RunError) as caught:
        read_limits(unloaded(tmp_path, **changes))
    assert "no language model" in caught.value.what and why in caught.value.why


@pytest.mark.parametrize("card", [{}, {"context": 0}, {"context": "long"}])
def test_a_cache_of_unknown_size_is_refused(card, tmp_path):
    with pytest.raises(RunError, match="nothing says how many tokens") as caught:
        read_limits(unloaded(tmp_path, card=card))
    assert 'model_card = {"context": N}' in caught.value.fix


def test_positions_of_each_token_and_scalar_positions_are_taken(tmp_path):
    for number, shape in enumerate([(), (1,), TOKENS.shape[1:]]):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert read_limits(unloaded(folder, inputs=[TOKENS, replace(POSITION, shape=shape)])).context == CONTEXT


@pytest.mark.parametrize(
    ("ids", "taken", "word"),
    [
        ([0, VOCABULARY], 0, f"{VOCABULARY}: no such id in a vocabulary of {VOCABULARY}"),
        ([-1], 0, "-1: no such id"),
        ([99, 98, 97, 96], 0, "99, 98, 97, …: no such id"),
        ([1] * (CONTEXT + 1), 0, f"{CONTEXT + 1} tokens do not fit the context of {CONTEXT}"),
        ([1, 1], CONTEXT - 1, f"2 tokens do not fit the context of {CONTEXT}, of which {CONTEXT - 1} are taken"),
        ([1.0], 0, "1.0 is no id"),
        ([True], 0, "True is no id"),
        (["1"], 0, "'1' is no id"),
    ],
)
def test_ids_that_cannot_be_run(ids, taken, word):
    with pytest.raises(RunError) as caught:
        Limits(VOCABULARY, CONTEXT).check_ids(ids, taken)
    assert word in caught.value.what


def test_ids_that_can(tmp_path):
    limits = Limits(VOCABULARY, CONTEXT)
    assert limits.check_ids(np.array([[3, 0]], np.int32)) == [3, 0] and limits.check_ids((np.int64(1),)) == [1]
    assert len(limits.check_ids([1] * CONTEXT)) == CONTEXT and limits.check_ids([], CONTEXT + 1) == []


@pytest.mark.parametrize("config", ['{"eos_token_id": "</s>"}', '{"eos_token_id": [true]}', "[]", "{"])
def test_damaged_settings(config, tmp_path):
    with pytest.raises(ArtifactError):
        read_limits(unloaded(tmp_path, files={"generation_config.json": config}))
