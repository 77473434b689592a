"""`edgex why` of language models and of models with several methods."""

from __future__ import annotations

import json

import pytest
import torch
from language_support import Decoder, make_decoder
from llm_files import DECODER, METHODS
from torch import nn

import edgex as api

SIZES = ("--llm", "--context", "64", "--chunk", "16")


class Loop(Decoder):
    """Goes through the tokens one by one, in Python."""

    def forward(self, tokens, position):
        x = self.norms[0](self.embed(tokens))
        state = self.attention.keys[:, 0, 0] * (position > 0)
        rows = []
        for at in range(tokens.shape[1]):
            state = 0.5 * state + x[:, at, :8]
            rows.append(torch.cat((state, x[:, at, 8:]), 1))
        self.attention.keys[:, 0, 0] = state
        return self.scores(torch.stack(rows, 1))


def test_a_language_model_is_asked_about_with_its_cache(tmp_path, edgex):
    (tmp_path / "decoder.py").write_text(DECODER)
    done = edgex("why", "decoder.py", "-t", "onnx-cpu,reference", *SIZES, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [target["target"] for target in document["targets"]] == ["onnx-cpu", "reference"]
    assert all("method" not in target for target in document["targets"])
    assert "prefill and decode are one program: what is said of one holds for the other" in document["notices"]
    refused = edgex("why", "decoder.py", "-t", "litert", *SIZES)
    assert refused.returncode == 5 and "does not take --llm" in refused.stderr
    plain = edgex("why", "decoder.py", "-t", "onnx-cpu")
    assert plain.returncode == 2 and "--llm --context N takes a decoder with its cache" in plain.stderr
    assert "224" not in plain.stderr


def test_sizes_of_a_text_are_nothing_that_could_be_made_static(tmp_path, edgex):
    (tmp_path / "decoder.py").write_text(DECODER)
    done = edgex("why", "decoder.py", "-t", "xnnpack", *SIZES, "--json")
    assert done.returncode == 0, done.stderr
    (target,) = json.loads(done.stdout)["targets"]
    left = [item for item in target["delegation"]["fallbacks"] if item["code"] == "dynamic_shape"]
    assert left
    assert all("as a text is read" in item["workaround"] for item in left)
    assert "make the dimension static" not in done.stdout


def test_every_method_has_its_own_answer(tmp_path, edgex):
    (tmp_path / "counter.py").write_text(METHODS)
    done = edgex("why", "counter.py", "-t", "xnnpack,onnx-cpu", "--json")
    assert done.returncode == 0, done.stderr
    targets = json.loads(done.stdout)["targets"]
    assert [(target["target"], target["method"]) for target in targets] == [
        ("xnnpack", "add"), ("onnx-cpu", "add"), ("xnnpack", "read"), ("onnx-cpu", "read")
    ]  # fmt: skip
    (left,) = targets[0]["delegation"]["fallbacks"]
    assert left["op"] == "aten.cumsum.default" and left["taken_by"] == ["onnx-cpu"]
    alone = edgex("why", "counter.py", "-t", "xnnpack", "--method", "read")
    assert alone.returncode == 0 and "xnnpack, read" in " ".join(alone.stdout.split())
    assert "cumsum" not in alone.stdout
    unknown = edgex("why", "counter.py", "-t", "xnnpack", "--method", "nix")
    assert unknown.returncode == 2 and "known: add, read" in unknown.stderr


def test_a_loop_over_tokens_is_explained_without_flags_that_nobody_gave():
    report = api.why(make_decoder(Loop), target="reference", context=24, chunk=4)
    (blocker,) = report.blockers
    assert blocker.what == "the number of tokens in a call cannot vary"
    assert blocker.where.startswith("test_why_methods.py:") and "for at in range" in blocker.where
    assert "--chunk 1" in blocker.fix and "--dynamic" not in blocker.fix
    assert not api.why(make_decoder(Loop), target="reference", context=24, chunk=1).blockers


@pytest.mark.parametrize("target", ["reference"])
def test_other_models_are_asked_about_as_before(target):
    report = api.why(nn.Linear(4, 2), (torch.zeros(1, 4),), target=target)
    assert report.targets[0].method is None and "method" not in report.to_json()["targets"][0]
