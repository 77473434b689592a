"""Methods of one artifact that share state: what one writes, another reads, in every engine and from any of them."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import torch
from pte_support import write_manifest

import edgex
from edgex.delegates.xnnpack.delegate import XnnpackDelegate, XnnpackOptions
from edgex.errors import UsageError, VerificationError
from edgex.export.capture.stage import capture_source
from edgex.export.methods.sequences import make_shared_case
from edgex.export.rewrites.proof import ProvedRewrites
from edgex.export.source.source import find_model, wrap_methods
from edgex.export.target_model import TargetModel
from edgex.runtime.session.numerics import measure_sqnr_db

TARGETS = ("onnx-cpu", "reference", *(pytest.param(target, marks=pytest.mark.slow) for target in ("xnnpack", "onednn")))

MODEL = """\
import torch
from torch import nn

from edgex.samples.random_weights import randomise_weights


class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.key, self.value, self.query = (nn.Linear(16, 16) for _ in range(3))
        self.scores = nn.Linear(16, 50)
        self.register_buffer("keys", torch.zeros(1, 12, 16))
        self.register_buffer("values", torch.zeros(1, 12, 16))
        self.register_buffer("memory", torch.full((1, 5, 16), 0.25))

    def encode(self, source):
        self.memory.copy_(torch.tanh(self.key(source)))
        return self.memory.mean(1)

    def write(self, x, position):
        places = position + torch.arange(x.shape[1])
        self.keys.index_copy_(1, places, self.key(x))
        self.values.index_copy_(1, places, self.value(x))

    def prefill(self, tokens, position):
        x = self.embed(tokens)
        self.write(x, position)
        return x.sum(-1)

    def decode(self, token, position):
        x = self.embed(token)
        self.write(x, position)
        seen = torch.arange(12)[None, None] <= position
        weights = (self.query(x) @ self.keys.transpose(1, 2)).masked_fill(~seen, -1e9).softmax(-1)
        x = x + weights @ self.values
        weights = (self.query(x) @ self.memory.transpose(1, 2)).softmax(-1)
        return self.scores(x + weights @ self.memory)


torch.manual_seed(0)
MODEL = Cached().eval()
randomise_weights(MODEL)


def methods():
    return {
        "encode": (MODEL.encode, (torch.randn(1, 5, 16),)),
        "prefill": (MODEL.prefill, (torch.tensor([[3, 9, 4]]), torch.tensor([0]))),
        "decode": (MODEL.decode, (torch.tensor([[7]]), torch.tensor([3]))),
    }
"""
SOURCE = np.random.default_rng(1).normal(size=(1, 5, 16)).astype(np.float32)


def _quiet(_stage, _detail):
    """No progress."""


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("shared") / "cached.py"
    path.write_text(MODEL)
    return path


@pytest.fixture(scope="module")
def model(model_file):
    return find_model(str(model_file), several=True)


@pytest.fixture(scope="module")
def expected(model):
    """What eager gives: of a decoder that was given nothing, and after its encoder and a prompt."""
    cached = model.module.model
    (before, after) = [], []
    with torch.no_grad():
        before = cached.decode(torch.tensor([[7]]), torch.tensor([0])).clone()
        cached.encode(torch.from_numpy(SOURCE))
        cached.prefill(torch.tensor([[3, 9, 4]]), torch.tensor([0]))
        after = cached.decode(torch.tensor([[7]]), torch.tensor([3])).clone()
    cached.keys.zero_(), cached.values.zero_(), cached.memory.fill_(0.25)
    return before.numpy(), after.numpy()


def _check_session(session, expected):
    encode, prefill, decode = (session.method(name) for name in ("encode", "prefill", "decode"))
    for _ in range(2):
        (before,) = decode(np.array([[7]]), np.array([0]))
        assert measure_sqnr_db(expected[0], before) > 90
        encode(SOURCE)
        prefill(np.array([[3, 9, 4]]), np.array([0]))
        (after,) = decode(np.array([[7]]), np.array([3]))
        assert measure_sqnr_db(expected[1], after) > 90
        assert measure_sqnr_db(expected[1], before) < 40
        session.reset()
    kept = decode.read_state()
    assert set(kept) == {"model.keys", "model.values", "model.memory"} and set(encode.read_state()) == {"model.memory"}
    assert float(kept["model.memory"].min()) == 0.25
    encode(SOURCE)
    written = encode.read_state()["model.memory"]
    assert np.array_equal(decode.read_state()["model.memory"], written)
    decode.write_state(kept)
    assert float(encode.read_state()["model.memory"].max()) == 0.25


@pytest.mark.parametrize("target", TARGETS)
def test_what_one_method_writes_another_reads_whichever_was_opened(model_file, expected, target):
    namespace = find_model(str(model_file), several=True)
    methods = {own.method: (getattr(namespace.module.model, own.method), own.args) for own in
               (namespace, *namespace.others)}  # fmt: skip
    artifact = edgex.export_model(methods, target=target, output=model_file.parent)
    for first in ("encode", "decode"):
        with edgex.load(artifact.path, method=first, threads=1) as session:
            _check_session(session, expected)
    index = json.loads((artifact.path / "golden" / "index.json").read_text())
    (shared,) = [case for case in index["cases"] if case["name"].startswith("shared state")]
    assert shared["step_methods"] == ["encode", "prefill", "decode", "decode"]
    verdict = edgex.verify(artifact.path)
    assert verdict.passed
    shown = [case.name for case in verdict.cases if case.name.startswith("shared state")]
    assert len(shown) == 4 and shown[-1].endswith("step 4 (decode)")


def test_xnnpack_keeps_shared_state_once_in_one_program(model, expected, tmp_path):
    """The export with its proof is among the slow tests."""
    found = capture_source(model, {}, _quiet)
    programs = {str(one.source.method): one.capture.program for one in (found, *found.others)}
    folder = tmp_path / "cached.xnnpack.edgex"
    folder.mkdir()
    lowered = XnnpackDelegate().lower_methods(programs, XnnpackOptions())
    lowered.write(folder)
    artifact = write_manifest(folder, lowered)
    for first in ("encode", "decode"):
        with edgex.load(artifact.path, method=first, threads=1, allow_non_finite=True) as session:
            _check_session(session, expected)


class Counter(torch.nn.Module):
    def __init__(self, start=0.0):
        super().__init__()
        self.register_buffer("count", torch.full((1,), start))

    def add(self, x):
        self.count.add_(x)
        return self.count * 1

    def read(self, x):
        return self.count + x


class Reader(torch.nn.Module):
    def __init__(self, counter):
        super().__init__()
        self.inner = counter

    def forward(self, x):
        return self.inner.count * x


def _states(methods):
    found = capture_source(wrap_methods(methods), {}, _quiet)
    return {str(one.source.method): [spec.name for spec in one.capture.program.state] for one in (found, *found.others)}


def test_state_has_one_name_for_each_tensor_whatever_the_modules_call_it():
    x, one, two = torch.ones(1), Counter().eval(), Counter(5.0).eval()
    assert _states({"add": (one.add, (x,)), "read": (Reader(one).eval(), (x,))}) == {
        "add": ["model.count"],
        "read": ["model.count"],
    }
    # Two modules with buffers of one name: two tensors, two names.
    assert _states({"add": (one.add, (x,)), "other": (two.add, (x,))}) == {
        "add": ["add.model.count"],
        "other": ["other.model.count"],
    }
    # What nobody writes is a constant.
    assert _states({"read": (one.read, (x,)), "again": (Reader(one).eval(), (x,))}) == {"read": [], "again": []}


def _models(methods):
    found = capture_source(wrap_methods(methods), {}, _quiet)
    return [
        TargetModel(None, one.source, one.capture.eager, ProvedRewrites(one.capture.program, ()))
        for one in (found, *found.others)
    ]


def test_a_sequence_must_show_that_state_is_shared():
    class Blind(Counter):
        def read(self, x):
            return self.count * 0 + x

    x, model = torch.ones(1), Blind().eval()
    blind = _models({"add": (model.add, (x,)), "read": (model.read, (x,))})
    with pytest.raises(VerificationError, match="do not show that the methods share state") as refused:
        make_shared_case(blind, None, allow_inconclusive=False)
    assert "example_sequence" in str(refused.value)
    assert make_shared_case(blind, None, allow_inconclusive=True).kind == "skipped"
    model = Counter().eval()
    shown = _models({"read": (model.read, (x,)), "add": (model.add, (x,))})
    # The examples in their order read before anything was written.
    with pytest.raises(VerificationError):
        make_shared_case(shown, None, allow_inconclusive=False)
    case = make_shared_case(shown, [("add", ((x,), {})), ("read", ((x,), {}))], allow_inconclusive=False)
    assert [step.method for step in case.steps] == ["add", "read"] and case.over_methods
    (found,) = case.steps[1].outputs.values()
    assert float(found[0]) == 2.0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("3", "is of type int"),
        ("[(torch.ones(1),)]", r"example_sequence\[0\] is not \(method, example inputs\)"),
        ("[('decod', (torch.ones(1),))]", r"names no method: 'decod'"),
        ("[('decode', (torch.ones(1),))]", r"example_sequence\[0\] do not fit decode\(token, position\)"),
    ],
)
def test_sequences_that_are_not_as_they_must_be(tmp_path, given, message):
    path = tmp_path / "wrong.py"
    path.write_text(f"{MODEL}\n\nexample_sequence = {given}\n")
    sys.modules.pop("wrong", None)
    with pytest.raises(UsageError, match=message):
        find_model(str(path), several=True)
