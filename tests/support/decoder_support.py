"""The tiny language model of `model_support`: what eager says, a tokenizer for it, and files in its artifact."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from manifest_support import NO_DELEGATION
from model_support import DECODER

from edgex.runtime.artifact.artifact import Artifact, hash_file, open_artifact
from edgex.runtime.artifact.manifest import FileEntry, Manifest, Method, Requirements
from edgex.runtime.artifact.specs import Dim, StateSpec, TensorSpec

VOCABULARY, CONTEXT, CHUNK = 61, 48, 16
TEXT = "naïve 😀 text, und für jeden: 日本語. "


def eager_model():
    """The module, with an empty cache."""
    names = {"__name__": "decoder"}
    exec(compile(DECODER, "decoder.py", "exec"), names)
    return names["get_model"]()


def eager_scores(ids) -> np.ndarray:
    """Scores `[V]` of the token after some ids, all run at once by eager PyTorch."""
    import torch

    with torch.no_grad():
        return eager_model()(torch.tensor([list(ids)]), torch.tensor([0]))[0].numpy()


def eager_greedy(ids, count) -> list[int]:
    """What eager PyTorch goes on with, the likeliest token each time, every text run from its beginning."""
    text = list(ids)
    for _ in range(count):
        text.append(int(eager_scores(text).argmax()))
    return text[len(ids) :]


def train_tokenizer(path: Path, vocabulary: int = VOCABULARY, special: tuple[str, ...] = ("<s>", "</s>")) -> Path:
    """Bytes of `TEXT` and a few merges of them; no byte of another text has an id."""
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, trainers

    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=list(special), show_progress=False)
    tokenizer.train_from_iterator([TEXT] * 4, trainer)
    tokenizer.save(str(path))
    return path


def add_processor_files(artifact: Path, files: Mapping[str, str]) -> None:
    """Put files into an artifact as an export would, with their hashes."""
    manifest = open_artifact(artifact).manifest
    entries = list(manifest.files)
    for name, text in files.items():
        path = artifact / "processor" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        entries.append(FileEntry(f"processor/{name}", path.stat().st_size, hash_file(path)))
    changed = dataclasses.replace(manifest, files=tuple(sorted(entries, key=lambda entry: entry.path)))
    (artifact / "manifest.json").write_text(changed.dumps())


TOKENS = TensorSpec("tokens", "int64", (1, Dim("n", 1, CHUNK)))
POSITION = TensorSpec("position", "int64", (1,))
SCORES = TensorSpec("output_0", "float32", (1, VOCABULARY))
CACHE = StateSpec("keys", "float32", (1, 2, CONTEXT, 16))


def unloaded(
    folder: Path, inputs=(TOKENS, POSITION), outputs=(SCORES,), state=(CACHE,), files=None, card=None
) -> Artifact:
    """An artifact without a native file, for what needs its manifest and processor files only."""
    manifest = Manifest(
        name="decoder",
        target="reference",
        engine="torch",
        precision="fp32",
        methods=(Method("forward", tuple(inputs), tuple(outputs), tuple(state)),),
        files=(),
        producer={},
        delegation=NO_DELEGATION,
        requirements=Requirements("torch"),
        model={"source": "decoder.py", "parameters": 1, "card": {"context": CONTEXT} if card is None else card},
    )
    path = folder / "decoder.reference.edgex"
    path.mkdir()
    (path / "manifest.json").write_text(manifest.dumps())
    add_processor_files(path, files or {})
    return open_artifact(path)
