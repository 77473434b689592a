"""Language models with an encoder: encode, prefill and decode over one cache, from a module of the user's own."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from edgex import load, verify
from edgex.errors import CaptureError, DeviceError, RunError, UsageError
from edgex.export.language_model.request import LanguageRequest, read_request
from edgex.export.language_model.source import prepare_language_model
from edgex.export.pipeline import export_to_targets
from edgex.export.settings import ExportSettings
from edgex.export.source.source import find_model, wrap_model
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.execute.kit.generation import decoder_flags, is_language_model
from edgex.runtime.generation.limits import read_limits

VOCABULARY, WIDTH, CONTEXT, FRAMES, CHUNK = 48, 16, 24, 10, 6

MODEL = """\
import math

import torch
from torch import nn

from edgex.samples.random_weights import randomise_weights

VOCABULARY, WIDTH, CONTEXT, FRAMES = 48, 16, 24, 10
model_card = {"eos_token_id": 0, "decoder_start_token_id": 1}


class Listener(nn.Module):
    def __init__(self):
        super().__init__()
        self.read = nn.Sequential(nn.Linear(6, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.place = nn.Embedding(CONTEXT, WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.ask, self.heard_key, self.heard_value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.scores = nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("keys", torch.zeros(1, CONTEXT, WIDTH))
        self.register_buffer("values", torch.zeros(1, CONTEXT, WIDTH))
        self.register_buffer("memory_keys", torch.zeros(1, FRAMES, WIDTH))
        self.register_buffer("memory_values", torch.zeros(1, FRAMES, WIDTH))

    def encode(self, frames):
        x = self.read(frames)
        self.memory_keys.copy_(self.heard_key(x))
        self.memory_values.copy_(self.heard_value(x))
        return {"heard": x}

    def forward(self, tokens, position):
        places = position + torch.arange(tokens.shape[1])
        x = self.embed(tokens) + self.place(places)
        self.keys.index_copy_(1, places, self.key(x))
        self.values.index_copy_(1, places, self.value(x))
        hidden = torch.arange(CONTEXT)[None] > places[:, None]
        scores = self.query(x) @ self.keys.transpose(1, 2) / math.sqrt(WIDTH)
        x = x + scores.masked_fill(hidden, -1e9).softmax(-1) @ self.values
        heard = (self.ask(x) @ self.memory_keys.transpose(1, 2) / math.sqrt(WIDTH)).softmax(-1)
        return self.scores(x + heard @ self.memory_values)


def get_model():
    torch.manual_seed(0)
    model = Listener().eval()
    randomise_weights(model)
    return model, (torch.randn(1, FRAMES, 6),)
"""


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("listener") / "listener.py"
    path.write_text(MODEL)
    return path


@pytest.fixture(scope="module")
def listener(model_file):
    return find_model(str(model_file), language=True).module


@pytest.fixture(scope="module")
def exported(model_file):
    settings = ExportSettings(("onnx-cpu",), output=model_file.parent, language=LanguageRequest(CONTEXT, CHUNK))
    found = find_model(str(model_file), language=True)
    report = export_to_targets(lambda: found, settings, name="listener", stop_at_failure=True)
    return report.artifacts[0].path


def _frames(seed=3):
    return np.random.default_rng(seed).normal(size=(1, FRAMES, 6)).astype(np.float32)


def _eager(model, frames, count, start=(1,)):
    """The likeliest tokens after a beginning, by the module itself."""
    ids = list(start)
    with torch.no_grad():
        model.encode(torch.from_numpy(frames))
        scores = model(torch.tensor([ids]), torch.tensor([0]))
        for _ in range(count):
            ids.append(int(scores[0, -1].argmax()))
            scores = model(torch.tensor([ids[-1:]]), torch.tensor([len(ids) - 1]))
    return ids[len(start) :]


def test_it_is_proved_over_its_three_methods(exported):
    artifact = open_artifact(exported)
    manifest = artifact.manifest
    assert manifest.status == "verified"
    assert [method.name for method in manifest.methods] == ["encode", "prefill", "decode"]
    assert (manifest.llm.encode, manifest.llm.start, manifest.llm.eos) == ("encode", (1,), (0,))
    states = {method.name: {spec.name.rpartition(".")[2] for spec in method.state} for method in manifest.methods}
    assert states["encode"] == {"memory_keys", "memory_values"} < states["prefill"] == states["decode"]
    read = {spec.name: spec.output for spec in manifest.find_method("prefill").state}
    assert sum(output is None for output in read.values()) == 2  # what is only read is not handed back
    index = json.loads((exported / "golden" / "index.json").read_text())
    texts = [case for case in index["cases"] if case["name"].startswith(("text of", "prompt of"))]
    assert {case["method"] for case in texts} == {"prefill", "decode"}
    assert all(case["step_methods"][0] == "encode" for case in texts)
    assert verify(exported).passed


def test_a_generator_is_fed_and_generates_what_eager_does(exported, listener, tmp_path):
    frames, other = _frames(), _frames(4)
    with load(exported, method="decode") as session:
        generator = session.generator()
        for begin in (lambda: generator.prefill([1]), lambda: list(generator.stream(max_new=2))):
            with pytest.raises(RunError, match="the encoder has not been given its input"):
                begin()
        with pytest.raises(RunError, match=r"'frames' has shape \(1, 5, 6\)"):
            generator.feed(frames[:, :5])
        generator.feed(frames)
        found = list(generator.stream(max_new=8, ignore_eos=True))
        assert found == _eager(listener, frames, 8) and generator.ids[0] == 1
        generator.rewind(3)
        assert list(generator.stream(max_new=3, ignore_eos=True)) == found[-3:]
        generator.save(tmp_path / "prefix.safetensors")
        on = list(generator.stream(max_new=3, ignore_eos=True))
        generator.feed(frames=other)  # a new text about something else
        assert list(generator.stream([5, 9], max_new=4, ignore_eos=True)) == _eager(listener, other, 4, (5, 9))
        generator.reset()
        with pytest.raises(RunError, match="has not been given"):
            generator.prefill([1])
        generator.restore(tmp_path / "prefix.safetensors")  # what was read of the source is in it
        assert list(generator.stream(max_new=3, ignore_eos=True)) == on
        with pytest.raises(RunError, match="do not fit the context of 24"):
            generator.stream([3] * CONTEXT)


def test_generate_takes_the_encoders_input(exported, listener, tmp_path, edgex):
    np.save(tmp_path / "frames.npy", _frames())
    given = ["generate", str(exported), "--input", str(tmp_path / "frames.npy"), "--max-new", "5", "--ignore-eos"]
    done = edgex(*given)
    assert done.stdout.strip() == ",".join(map(str, _eager(listener, _frames(), 5)))
    assert "the source encoded in" in done.stderr
    document = json.loads(edgex(*given, "--ids", "1,7", "--json").stdout)
    assert document["ids"] == _eager(listener, _frames(), 5, (1, 7))
    assert document["prompt_tokens"] == 2 and document["seconds"]["encode"] > 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--ids", "1,2"], 2, "the encoder has not been given its input"),
        (["--input", "nothing.npy"], 2, "no such file"),
        (["--input", "short.npy"], 6, "'frames' has shape (1, 5, 6)"),
        (["--input", "x=short.npy"], 6, "unknown input 'x'"),
        ([], 2, "needs --prompt or --ids"),
    ],
)
def test_what_generate_refuses(exported, tmp_path, edgex, arguments, code, message):
    np.save(tmp_path / "short.npy", _frames()[:, :5])
    done = edgex("generate", str(exported), *(part.replace("short.npy", f"{tmp_path}/short.npy") for part in arguments))
    assert done.returncode == code
    assert message in " ".join(done.stderr.split())


def test_the_native_runner_refuses_it_by_name(exported):
    artifact = open_artifact(exported)
    assert not is_language_model(artifact)
    with pytest.raises(DeviceError, match="texts begin with an encoder"):
        decoder_flags(artifact)


def test_an_encoder_of_tokens_takes_a_text_as_its_source(exported):
    limits = read_limits(open_artifact(exported))
    assert not limits.reads_text
    spec = replace(limits.source[0], dtype="int64", shape=(1, 9))
    reading = replace(limits, source=(spec,))
    assert reading.reads_text and reading.check_source([4, 5])["frames"].tolist() == [[4, 5]]
    with pytest.raises(RunError, match="no token for the encoder"):
        reading.check_source([])


class _Encoding(torch.nn.Module):
    """As little of an encoder and a decoder as is asked about."""

    def __init__(self, encode):
        super().__init__()
        self.register_buffer("memory", torch.zeros(1, 4))
        self.register_buffer("seen", torch.zeros(1, 8))
        self.embed = torch.nn.Embedding(16, 16)
        self._encode = encode

    def encode(self, x):
        return self._encode(self, x)

    def forward(self, tokens, position):
        self.seen[:, position + torch.arange(tokens.shape[1])] = tokens.float()
        return self.embed(tokens)


def _forgets(model, x):
    return x * 2


def _grows(model, x):
    model.memory = torch.cat([x, x], 1)
    return x


@pytest.mark.parametrize(
    ("encode", "message"),
    [(_forgets, "encode writes no buffer"), (_grows, r"encode replaces its buffer memory, of \[1, 4\]")],
)
def test_encoders_that_do_not_write_in_place_are_named(encode, message):
    source = wrap_model(_Encoding(encode).eval(), (torch.ones(1, 4),), {})
    with pytest.raises(CaptureError, match=message) as refused:
        prepare_language_model(source, LanguageRequest(8, 2))
    assert "self.memory.copy_" in refused.value.fix


def test_an_encoder_needs_example_inputs_that_fit(listener):
    asked = LanguageRequest(CONTEXT, CHUNK)
    with pytest.raises(UsageError, match="encode has no example inputs"):
        prepare_language_model(wrap_model(listener, (), {}), asked)
    with pytest.raises(UsageError, match=r"do not fit encode\(frames\)"):
        prepare_language_model(wrap_model(listener, (torch.ones(1), torch.ones(1)), {}), asked)
    with pytest.raises(UsageError, match="--source is for models of transformers"):
        prepare_language_model(wrap_model(listener, (torch.ones(1, FRAMES, 6),), {}), replace(asked, source=5))
    with pytest.raises(UsageError, match="--source must be at least 1"):
        read_request(True, CONTEXT, None, 0)
    with pytest.raises(UsageError, match="--source is for language models"):
        read_request(False, None, None, 4)
