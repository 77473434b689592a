"""Artifacts with several methods: an encoder and a decoder of one model, each proved, shared weights kept once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from pte_support import write_manifest

import edgex
from edgex.delegates.registry import get_delegate
from edgex.delegates.xnnpack.delegate import XnnpackDelegate, XnnpackOptions
from edgex.errors import EdgexError, LoweringError, RunError, UsageError
from edgex.export.capture.stage import capture_source
from edgex.export.language_model.request import LanguageRequest
from edgex.export.pipeline import export_to_targets
from edgex.export.proof.verification import explain_failure
from edgex.export.quantization.calibration.samples import of_method
from edgex.export.settings import ExportSettings
from edgex.export.source.source import find_model, wrap_methods
from edgex.export.source.stage import find_source
from edgex.export.source.user_file import load_file
from edgex.runtime.artifact.golden import golden_of_method
from edgex.runtime.engines.trace.source_map import read_source_map, read_weights
from edgex.runtime.session.non_finite import FiniteCheck
from edgex.runtime.session.numerics import measure_sqnr_db

TARGETS = ("onnx-cpu", *(pytest.param(target, marks=pytest.mark.slow) for target in ("xnnpack", "onednn")))
WORDS, WIDTH = 1000, 32

MODEL = """\
import torch
from torch import nn

from edgex.samples.random_weights import randomise_weights


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(1000, 32)
        self.query, self.key, self.value = (nn.Linear(32, 32) for _ in range(3))
        self.linear = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
        self.scores = nn.Linear(32, 40)

    def attend(self, x, memory):
        weights = (self.query(x) @ self.key(memory).transpose(1, 2) / 32**0.5).softmax(-1)
        x = x + weights @ self.value(memory)
        return x + self.linear(x)

    def encode(self, source):
        x = self.embed(source)
        return self.attend(x, x)

    def decode(self, target, memory):
        return {"scores": self.scores(self.attend(self.embed(target), memory))}


torch.manual_seed(0)
MODEL = Translator()
randomise_weights(MODEL)


def get_model():
    return MODEL, (torch.ones(1),)


def methods():
    source, target = torch.arange(6)[None], torch.arange(4)[None]
    return {
        "encode": (MODEL.encode, (source,)),
        "decode": (
            MODEL.decode,
            (target, MODEL.eval().encode(source).detach()),
            {"target": {1: torch.export.Dim("n", min=2, max=9)}, "memory": None},
        ),
    }
"""


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("methods") / "translate.py"
    path.write_text(MODEL)
    return path


@pytest.fixture(scope="module")
def artifact_of(model_file):
    """The artifact for a target, made when it is first asked for."""
    made = {}

    def export(target):
        if target not in made:
            methods = load_file(model_file)["methods"]()
            made[target] = edgex.export_model(methods, target=target, output=model_file.parent)
        return made[target]

    return export


@pytest.fixture(scope="module")
def translator(model_file):
    return find_model(str(model_file), several=True).others[0].module.model


def _quiet(_stage, _detail):
    """No progress."""


def _inputs(words=5):
    numbers = np.random.default_rng(1)
    return numbers.integers(0, WORDS, (1, 6)), numbers.integers(0, WORDS, (1, words))


@pytest.mark.parametrize("target", TARGETS)
def test_every_method_gives_what_eager_gives(artifact_of, translator, target):
    source, tokens = _inputs()
    with torch.no_grad():
        memory = translator.encode(torch.from_numpy(source)).numpy()
        scores = translator.decode(torch.from_numpy(tokens), torch.from_numpy(memory))["scores"].numpy()
    with edgex.load(artifact_of(target).path, threads=1) as encode:
        decode = encode.method("decode")
        assert encode.methods == ("encode", "decode") and encode.method("encode") is encode
        assert decode.runner is encode.method("decode").runner is not encode.runner
        (found,) = encode(source)
        assert measure_sqnr_db(memory, found) > 80
        assert measure_sqnr_db(scores, decode(tokens, found)["scores"]) > 80
        with pytest.raises(RunError, match="no method 'decod'") as refused:
            encode.method("decod")
        assert "known: decode, encode" in str(refused.value)
        with pytest.raises(RunError, match=r"outside n=2\.\.9"):
            decode(np.zeros((1, 10), np.int64), found)
    with pytest.raises(RunError, match="closed"):
        decode(tokens, found)
    with edgex.load(artifact_of(target).path, threads=1, method="decode") as alone:
        assert measure_sqnr_db(scores, alone(tokens, found)["scores"]) > 80


@pytest.mark.parametrize("target", TARGETS)
def test_every_method_was_proved_and_has_its_own_operators_and_weights(artifact_of, target):
    artifact = artifact_of(target)
    assert artifact.manifest.status == "verified"
    verdict = artifact.manifest.verification
    assert {case["method"] for case in verdict["cases"] if case["verdict"] == "pass"} == {"encode", "decode"}
    for name in ("encode", "decode"):
        own = artifact.select(name)
        assert golden_of_method(own)[0].name == "example"
        operators = read_source_map(own, {}).operators.values()
        assert any("linear" in operator.op for operator in operators)
        assert all((operator.source or "").startswith("translate.py:") for operator in operators)
        assert any(row.name.endswith("scores.weight") for row in read_weights(own)) == (name == "decode")


@pytest.mark.parametrize("target", TARGETS[:2])
def test_weights_of_several_methods_are_in_the_file_once(artifact_of, translator, target):
    weights = sum(parameter.nbytes for parameter in translator.parameters())
    assert weights < artifact_of(target).manifest.model_bytes < 1.5 * weights


def test_values_are_refused_for_the_method_that_was_not_proved_with_them(artifact_of):
    artifact = artifact_of("onnx-cpu").select("decode")

    def watched(method):
        refuses = [{"values": "NaN", "inputs": ["memory"], "method": method}]
        manifest = replace(artifact.manifest, verification={**artifact.manifest.verification, "refuses": refuses})
        return FiniteCheck(replace(artifact, manifest=manifest)).watched

    assert watched("decode") == {1: ("NaN",)} and not watched("encode")


def test_all_methods_are_verified_again_or_one(artifact_of):
    verdict = edgex.verify(artifact_of("onnx-cpu").path)
    assert verdict.passed and {case.method for case in verdict.cases} == {"encode", "decode"}


def test_xnnpack_has_all_methods_in_one_program(translator, tmp_path):
    """The export with its proof is among the slow tests."""
    source, tokens = map(torch.from_numpy, _inputs(4))
    with torch.no_grad():
        memory = translator.encode(source)
        scores = translator.decode(tokens, memory)["scores"]
    given = wrap_methods({"encode": (translator.encode, (source,)), "decode": (translator.decode, (tokens, memory))})
    found = capture_source(given, {}, _quiet)
    programs = {str(one.source.method): one.capture.program for one in (found, *found.others)}
    folder = tmp_path / "translate.xnnpack.edgex"
    folder.mkdir()
    lowered = XnnpackDelegate().lower_methods(programs, XnnpackOptions())
    lowered.write(folder)
    assert lowered.files == ("model.pte",) and set(lowered.method_debug) == {"encode", "decode"}
    with edgex.load(write_manifest(folder, lowered).path, threads=1, allow_non_finite=True) as encode:
        (found_memory,) = encode(source)
        assert measure_sqnr_db(memory.numpy(), found_memory) > 80
        assert measure_sqnr_db(scores.numpy(), encode.method("decode")(tokens, found_memory)["scores"]) > 80
    weights = sum(parameter.nbytes for parameter in translator.parameters())
    assert weights < (folder / "model.pte").stat().st_size < 1.5 * weights


def test_python_code_gives_examples_with_each_method(translator, tmp_path):
    source = torch.arange(6)[None]
    with pytest.raises(UsageError, match="args does not go with several methods"):
        edgex.export_model({"only": (translator.embed, (source,))}, (source,), target="onnx-cpu", output=tmp_path)


def test_a_failed_proof_names_the_method():
    case = {
        "name": "example",
        "method": "decode",
        "output": "scores",
        "verdict": "fail",
        "reason": "too far",
        "sqnr_db": 3,
    }
    document = {"reason": "method decode: example: too far", "cases": [case, case], "repeats": None}
    assert "method decode: example, scores: too far" in str(explain_failure(document, "xnnpack"))


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("{}", "gives no method"),
        ("[MODEL]", "gives an object of type list"),
        ("{'2x': (MODEL.encode, ())}", "names a method '2x'"),
        ("{'class': (MODEL.encode, ())}", "names a method 'class'"),
        ("{'../up': (MODEL.encode, ())}", "names a method '../up'"),
        ("{'a': (MODEL.encode, (torch.arange(6)[None],)), 'A': (MODEL.encode, ())}", "has both 'a' and 'A'"),
        ("{'a': MODEL.encode}", "is not (module or its method, example inputs)"),
        ("{'a': (lambda x: x, (torch.ones(1),))}", "neither a module nor a method of one"),
        ("{'a': (MODEL.decode, (torch.arange(4)[None],))}", r"\['a'\] do not fit decode(target, memory)"),
        ("{'a': (MODEL.encode, 3)}", "of type int as example inputs"),
        ("1 / 0", "fails"),
    ],
)
def test_methods_that_are_not_as_they_must_be(tmp_path, returned, message):
    path = tmp_path / "wrong.py"
    path.write_text(f"{MODEL.partition('def methods')[0]}\ndef methods():\n    return {returned}\n")
    with pytest.raises(UsageError, match=message.replace("(", r"\(").replace(")", r"\)")) as refused:
        find_model(str(path), several=True)
    assert "wrong.py" in str(refused.value)


def test_what_takes_one_model_names_the_way_to_it(model_file):
    with pytest.raises(UsageError, match=r"defines methods\(\), which `edgex export`, `why` and `bisect` take"):
        find_model(str(model_file))
    with pytest.raises(UsageError, match="--llm makes its own methods"):
        find_model(str(model_file), several=True, language=True)
    with pytest.raises(UsageError, match="--input-shape does not go"):
        find_model(str(model_file), several=True, input_shapes={"x": (1, 2)})
    assert find_model(f"{model_file}:get_model").method is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_drop": 0.1, "quantize": "8da8w"}, "--max-drop does not go with"),
        ({"dynamic": {("x", 0): None}}, "--dynamic does not go with"),
        ({"exclude": ("gelu",)}, "--exclude does not go with"),
        ({"verify_data": "random.npz"}, "--verify-data does not go with"),
        ({"language": LanguageRequest(8, 2)}, "--llm does not go with"),
    ],
)
def test_flags_of_one_method_are_refused_first(translator, changes, message):
    source = wrap_methods({"encode": (translator.encode, (torch.arange(6)[None],))})
    settings = replace(ExportSettings(("onnx-cpu",)), **changes)
    with pytest.raises(UsageError, match=message):
        find_source(lambda: source, settings, [get_delegate(name) for name in settings.targets])


def test_targets_of_one_method_are_named_and_the_others_get_theirs(translator):
    source = wrap_methods({"encode": (translator.encode, (torch.arange(6)[None],))})

    def plan(*targets, optional=()):
        return export_to_targets(lambda: source, ExportSettings(targets, optional=optional), name="net", dry_run=True)

    with pytest.raises(LoweringError, match="'aoti' makes artifacts of one method"):
        plan("aoti")
    planned = plan("aoti", "onnx-cpu")
    assert [artifact.target for artifact in planned.artifacts] == ["onnx-cpu"]
    assert [failure.target for failure in planned.failures] == ["aoti"]
    # `-t all` stands for what takes the model.
    planned = plan("onnx-cpu", "aoti", optional=("aoti",))
    assert [artifact.target for artifact in planned.artifacts] == ["onnx-cpu"] and planned.exit_code == 0
    assert planned.notices[-1] == "-t all leaves out aoti: target 'aoti' makes artifacts of one method"


def test_examples_that_fail_name_their_method(translator):
    with pytest.raises(EdgexError, match="method 'encode': "):
        capture_source(wrap_methods({"encode": (translator.encode, ("text",))}), {}, _quiet)


def test_calibration_data_is_given_by_method():
    samples = [1, 2]
    assert of_method({"encode": samples}, "encode") is samples and of_method(samples, None) is samples
    assert of_method("random:8", "encode") == "random:8" and of_method(None, "encode") is None
    with pytest.raises(UsageError, match="no calibration data for method 'decode'"):
        of_method({"encode": samples}, "decode")
    with pytest.raises(UsageError, match="no calibration data for method 'decode'"):
        of_method(samples, "decode")
    with pytest.raises(UsageError, match=r"--calibration data\.npz does not go with several methods"):
        of_method("data.npz", "decode")
