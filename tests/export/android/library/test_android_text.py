"""Text as inputs of a generated library: the tokenizer that the artifact carries, or a sentence why there is none."""

import json

import numpy as np
import pytest
from word_pieces import VOCABULARY, make_tokenizer

from edgex.export.android.generate import generate_app
from edgex.export.android.options import AppOptions
from edgex.runtime.artifact.artifact import hash_file
from edgex.runtime.artifact.golden import Case, Step

TINY = "model/src/main/assets/edgex/tiny"
NAMES = ("input_ids", "attention_mask")


@pytest.fixture
def reader_of(artifact_of, tmp_path):
    """Make an artifact whose manifest takes ids, and which carries a tokenizer."""
    shape = [1, {"name": "tokens", "min": 2, "max": 8}]

    def make(tokenizer, inputs=NAMES):
        given = {name: np.ones((1, 4), np.int64) for name in inputs}
        step = Step(given, {"output_0": np.ones((1, 3), np.float32)})

        def change(manifest):
            manifest["methods"][0]["inputs"] = [{"name": name, "dtype": "int64", "shape": shape} for name in inputs]
            path = tmp_path / "made" / "tiny.xnnpack.edgex" / "processor" / "tokenizer.json"
            path.parent.mkdir()
            path.write_text(json.dumps(tokenizer))
            entry = {"path": "processor/tokenizer.json", "bytes": path.stat().st_size, "sha256": hash_file(path)}
            manifest["files"].append(entry)

        return artifact_of(change, [Case("example", "compare", (step,))])

    return make


def test_word_pieces_become_the_inputs(reader_of, tmp_path):
    app = generate_app(reader_of(make_tokenizer()), tmp_path / "app", AppOptions())
    manifest = json.loads((app.path / TINY / "manifest.json").read_text())
    ids = {token: at for at, token in enumerate(VOCABULARY)}
    assert manifest["text"] == {
        "ids": 0, "mask": 1, "types": None, "vocabulary": "vocabulary.txt", "unknown": "[UNK]", "prefix": "##",
        "longest_word": 100, "cleans": True, "separates_chinese": True, "strips_accents": True, "lowercases": True,
        "opens": [ids["[CLS]"]], "closes": [ids["[SEP]"]], "padding": ids["[PAD]"],
    }  # fmt: skip
    assert (app.path / TINY / "vocabulary.txt").read_text() == "".join(f"{token}\n" for token in VOCABULARY)
    assert (app.screen, app.notices) == ("text", ())
    code = (app.path / "model/src/main/kotlin/dev/edgex/model/TinyModel.kt").read_text()
    assert "suspend fun run(text: String): Outputs = outputsOf(" in code
    assert "| `run(text)` |" in (app.path / "model/README.md").read_text()


@pytest.mark.parametrize(
    ("changes", "inputs", "words"),
    [
        ({"model": {"type": "BPE"}}, NAMES, "the tokenizer is BPE"),
        ({"normalizer": {"type": "NFC"}}, NAMES, "prepares text by NFC"),
        ({"post_processor": {"type": "ByteLevel"}}, NAMES, "puts ids around a text by ByteLevel"),
        ({}, ("input_ids", "speaker"), "none of input_ids"),
        ({}, ("attention_mask",), "not input_ids and others"),
    ],
)
def test_a_tokenizer_that_the_library_does_not_have_leaves_ids_and_says_so(reader_of, tmp_path, changes, inputs, words):
    app = generate_app(reader_of(make_tokenizer(**changes), inputs), tmp_path / "app", AppOptions())
    assert app.screen == "tensors"
    assert len(app.notices) == 1 and app.notices[0].startswith("the app takes ids, not text: ")
    assert words in app.notices[0]
    assert json.loads((app.path / TINY / "manifest.json").read_text())["text"] is None
    assert not list(app.path.rglob("vocabulary.txt"))
