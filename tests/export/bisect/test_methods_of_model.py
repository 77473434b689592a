"""`edgex bisect` of language models and models of several methods, by their files and by their artifacts."""

from __future__ import annotations

import json

import pytest
from llm_files import DECODER, METHODS

from edgex.errors import UsageError
from edgex.export.bisect.of_model import Question, answer_question, settings_of
from edgex.export.language_model.request import LanguageRequest
from edgex.export.settings import ExportSettings
from edgex.export.source.source import find_model
from edgex.runtime.artifact.artifact import open_artifact

SIZES = ("--llm", "--context", "64", "--chunk", "16")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for name, text in (("decoder.py", DECODER), ("counter.py", METHODS)):
        (folder / name).write_text(text)
    return folder


def ask(file, *, language=None, **question):
    settings = ExportSettings(("onnx-cpu",), rewrite=False, language=language)
    find = lambda: find_model(str(file), language=language is not None, several=True)  # noqa: E731
    return answer_question(Question(find, settings, **question), lambda _stage, _detail: None)


@pytest.mark.parametrize("method", ["prefill", "decode"])
def test_a_method_of_a_language_model(files, method, tmp_path):
    language = LanguageRequest(64, 16)
    found, notices = ask(files / "decoder.py", language=language, method=method, repro=tmp_path / "repro")
    (fault,) = found.born
    assert fault.place.op == "aten.avg_pool2d.default" and fault.place.source == "decoder.py:7"
    assert found.method == method and {case.method for case in found.cases} == {method}
    assert found.workaround.command.endswith(" -t onnx-cpu --llm --context 64 --chunk 16")
    document = found.to_json()
    assert document["method"] == method and document["cases"][0]["method"] == method
    assert "repro.py gives the model's own numbers in eager" in notices
    assert any("repro.onnx-cpu.edgex fails by itself" in notice for notice in notices)


def test_every_method_of_a_model_has_an_answer(files):
    found, _ = ask(files / "counter.py")
    assert found.method == "read" and found.born[0].place.op == "aten.avg_pool2d.default"
    alone, _ = ask(files / "counter.py", method="add")
    assert alone.method == "add" and not alone.born and "right on all" in alone.ruled_out[0]
    with pytest.raises(UsageError, match="has no method 'nix'") as refused:
        ask(files / "counter.py", method="nix")
    assert refused.value.why == "known: add, read"


def test_an_artifact_says_what_it_was_exported_with(files, edgex, tmp_path):
    done = edgex("export", str(files / "decoder.py"), "-t", "reference", *SIZES, "--no-rewrite", "-o", str(tmp_path))
    assert done.returncode == 0, done.stderr
    artifact = tmp_path / "decoder.reference.edgex"
    settings = settings_of(open_artifact(artifact))
    assert settings.language == LanguageRequest(64, 16) and not settings.rewrite
    (tmp_path / "decoder.py").write_text(DECODER)
    found = edgex("bisect", str(artifact), "--method", "decode", "--json")
    assert found.returncode == 0, found.stderr
    document = json.loads(found.stdout)
    assert document["method"] == "decode" and "right on all" in document["ruled_out"][0]
    refused = edgex("bisect", str(artifact), *SIZES)
    assert refused.returncode == 2 and "--llm does not go with an artifact" in refused.stderr


def test_flags_are_checked_before_slow_work(files, edgex):
    for flags, said in (
        (("--context", "64"), "--context is for language models"),
        (("--llm",), "--llm without --context"),
        ((*SIZES, "--input-shape", "tokens=1x3"), "--input-shape does not go with --llm"),
    ):
        for verb in ("bisect", "why"):
            done = edgex(verb, str(files / "decoder.py"), "-t", "onnx-cpu", *flags)
            assert done.returncode == 2 and said in done.stderr, done.stderr
            assert "find:" not in done.stderr
