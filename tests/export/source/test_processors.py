"""Tokenizer and processor files: found beside a model that has a config, carried and hashed."""

import pytest

from edgex.runtime.artifact.artifact import open_artifact

MODEL = """
import torch
from torch import nn


class Config:
    model_type = "tiny"
    name_or_path = ORIGIN

    def to_dict(self):
        return {}


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.config = Config()
        self.table = nn.Embedding(11, 4)

    def forward(self, input_ids):
        return self.table(input_ids).sum(1)


class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = Tiny()

    def forward(self, input_ids):
        return self.model(input_ids)


model, example_inputs = Wrapped().eval(), {"input_ids": torch.arange(6)[None]}
"""


@pytest.mark.parametrize("beside", ["the weights", "the file"])
def test_files_beside_the_model_travel_and_are_hashed(edgex, model_file, tmp_path, beside):
    home = tmp_path / "weights" if beside == "the weights" else tmp_path
    home.mkdir(exist_ok=True)
    (home / "tokenizer.json").write_text('{"version": "1.0"}')
    (home / "vocab.txt").write_text("[PAD]\n[UNK]\n")
    (home / "notes.txt").write_text("not the model's")
    origin = str(home) if beside == "the weights" else "somebody/tiny"
    done = edgex("export", str(model_file(MODEL.replace("ORIGIN", repr(origin)), "tiny")), "-t", "reference")
    assert done.returncode == 0, done.stderr
    assert "carried in the artifact" in done.stderr and "tokenizer.json, vocab.txt" in " ".join(done.stderr.split())
    artifact = open_artifact(tmp_path / "tiny.reference.edgex")
    carried = [entry.path for entry in artifact.manifest.files if entry.path.startswith("processor/")]
    assert carried == ["processor/tokenizer.json", "processor/vocab.txt"]
    assert (artifact.path / "processor" / "vocab.txt").read_text() == "[PAD]\n[UNK]\n"
    assert artifact.manifest.model_bytes == artifact.file(".pt2").stat().st_size
    (artifact.path / "processor" / "vocab.txt").write_text("[PAD]\n[BAD]\n")
    refused = edgex("run", str(artifact.path))
    assert refused.returncode == 6 and "processor/vocab.txt was changed" in refused.stderr
