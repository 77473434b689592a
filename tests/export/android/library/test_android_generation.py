"""Language models in a generated library: what the manifest says of them, their class, and tokenizers that it lacks."""

import json
import re

import numpy as np
import pytest
from byte_pairs import TEXTS, make_tokenizer

from edgex.export.android.generate import generate_app
from edgex.export.android.library.byte_pairs import describe_byte_pairs
from edgex.export.android.library.text import Unlike
from edgex.export.android.options import AppOptions
from edgex.runtime.artifact.artifact import hash_file
from edgex.runtime.artifact.golden import Case, Step

TINY = "model/src/main/assets/edgex/tiny"
CLASS = "model/src/main/kotlin/dev/edgex/model/TinyModel.kt"
VOCABULARY = 512


@pytest.fixture
def decoder_of(artifact_of, tmp_path):
    """Make an artifact whose manifest is that of a language model, with a tokenizer or none."""

    def make(tokenizer=None):
        step = Step({"tokens": np.ones((1, 1), np.int64)}, {"scores": np.ones((1, VOCABULARY), np.float32)})
        chunk = {"name": "n", "min": 1, "max": 8}
        method = {
            "inputs": [
                {"name": "tokens", "dtype": "int64", "shape": [1, chunk]},
                {"name": "position", "dtype": "int64", "shape": [1]},
            ],
            "outputs": [{"name": "scores", "dtype": "float32", "shape": [1, VOCABULARY]}],
            "state": [{"name": "keys", "dtype": "float32", "shape": [1, 16], "input": None, "output": None}],
        }
        step = Step({**step.inputs, "position": np.zeros(1, np.int64)}, step.outputs)

        def change(manifest):
            manifest["methods"][0].update(method)
            manifest["model"]["card"] = {"context": 16}
            processor = tmp_path / "made" / "tiny.xnnpack.edgex" / "processor"
            processor.mkdir()
            files = {
                "generation_config.json": {"eos_token_id": [3, 0], "do_sample": True, "temperature": 0.7, "top_p": 0.9}
            }
            files |= {} if tokenizer is None else {"tokenizer.json": tokenizer}
            for name, content in files.items():
                path = processor / name
                path.write_text(json.dumps(content))
                entry = {"path": f"processor/{name}", "bytes": path.stat().st_size, "sha256": hash_file(path)}
                manifest["files"].append(entry)

        return artifact_of(change, [Case("example", "compare", (step,))])

    return make


def test_a_language_model_gets_a_flow_of_tokens(decoder_of, tmp_path):
    tokenizer = make_tokenizer("split")
    app = generate_app(decoder_of(tokenizer), tmp_path / "app", AppOptions())
    assert (app.screen, app.shows, app.notices) == ("prompt", "text", ())
    found = json.loads((app.path / TINY / "manifest.json").read_text())["generation"]
    entry, tokens, merges, begins = describe_byte_pairs(tokenizer)
    assert found == {
        "vocabulary": VOCABULARY, "context": 16, "chunk": 8, "begins": begins, "ends": [3, 0],
        "sampling": {"temperature": 0.7, "top_k": 50, "top_p": 0.9, "repetition_penalty": 1.0}, "tokenizer": entry,
    }  # fmt: skip
    assert begins == [0]
    assert (app.path / TINY / "vocabulary.txt").read_text().split("\n")[:-1] == list(tokens)
    assert (app.path / TINY / "merges.txt").read_text().split("\n")[:-1] == list(merges)
    code = (app.path / CLASS).read_text()
    head = "maxNew: Int = 128, sampling: Sampling = this.sampling): Flow<Token>"
    assert f"fun generate(prompt: String, {head}" in code and f"fun generate(prompt: IntArray, {head}" in code
    assert 'api("org.jetbrains.kotlinx:kotlinx-coroutines-core:' in (app.path / "model/build.gradle.kts").read_text()
    readme = (app.path / "model/README.md").read_text()
    assert "model.generate(prompt).collect {" in readme and "| `generate(prompt, maxNew, sampling)` |" in readme


@pytest.mark.parametrize(
    ("tokenizer", "words"),
    [(None, "carries no tokenizer"), ({"model": {"type": "Unigram"}}, "the tokenizer is Unigram")],
)
def test_without_a_tokenizer_that_it_has_the_class_takes_ids(decoder_of, tmp_path, tokenizer, words):
    app = generate_app(decoder_of(tokenizer), tmp_path / "app", AppOptions())
    assert words in app.notices[0]
    code = (app.path / CLASS).read_text()
    assert "fun generate(prompt: IntArray" in code and "String, maxNew" not in code and "idsOf" not in code
    assert not (app.path / TINY / "merges.txt").exists()


def test_other_models_need_no_coroutines(artifact_of, tmp_path):
    app = generate_app(artifact_of(), tmp_path / "app", AppOptions())
    assert "kotlinx" not in (app.path / "model/build.gradle.kts").read_text()
    assert "kotlinx" not in "".join(p.read_text() for p in (app.path / "model/src/main").rglob("*.kt"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d["model"].update(byte_fallback=True), "byte_fallback"),
        (lambda d: d["model"]["vocab"].pop("A"), "BPE of characters"),
        (lambda d: d.update(normalizer={"type": "Lowercase"}), "prepares text by Lowercase"),
        (lambda d: d.update(decoder={"type": "Metaspace"}), "BPE of characters"),
        (lambda d: d.update(pre_tokenizer={"type": "Metaspace"}), "cuts words by Metaspace"),
        (lambda d: d["added_tokens"][0].update(lstrip=True), "takes spaces around"),
        (lambda d: d["pre_tokenizer"]["pretokenizers"][0].update(pattern={"Regex": r"\bx"}), r"holds \b"),
        (lambda d: d["pre_tokenizer"]["pretokenizers"][0].update(pattern={"Regex": "(?i:x)"}), "none that the app"),
        (lambda d: d["pre_tokenizer"]["pretokenizers"][0].update(behavior="Removed"), "cuts words by Split"),
    ],
)
def test_tokenizers_that_the_library_lacks_are_named(change, words):
    tokenizer = make_tokenizer("split")
    change(tokenizer)
    with pytest.raises(Unlike, match=re.escape(words)):
        describe_byte_pairs(tokenizer)


@pytest.mark.parametrize("kind", ["split", "digits"])
def test_the_rewritten_expressions_cut_texts_as_the_tokenizer_does(kind):
    """By Python's `regex`, where it is installed; the library's own are `make android-check`'s matter."""
    regex = pytest.importorskip("regex", reason="the package regex, which transformers brings, is not installed")
    tokenizers = pytest.importorskip("tokenizers", reason="the package tokenizers is not installed")
    data = make_tokenizer(kind)
    entry = describe_byte_pairs(data)[0]
    cutter = tokenizers.Tokenizer.from_str(json.dumps(data)).pre_tokenizer
    for text in TEXTS:
        words = [text]
        for split in entry["splits"]:
            words = [part for word in words for part in regex.split(f"({split})", word) if part]
        expected = [text[begin:end] for _, (begin, end) in cutter.pre_tokenize_str(text)]
        assert words == expected, text
