"""Artifacts of strangers: what is wrong with one ends in an ArtifactError before anything is read too far."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pt2_support import rehash

import edgex
from edgex.delegates.registry import get_delegate
from edgex.errors import ArtifactError, RunError, UsageError
from edgex.export.packaging.package import Destination, publish, resolve_destination, staged
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.artifact.golden import read_golden
from edgex.runtime.artifact.manifest import ENGINES
from edgex.runtime.support.json.reading import parse_json, read_json

OwnCopy = Callable[[str, str], Path]
TARGET = "onnx-cpu"


def edit(artifact: Path, change: Callable[[Any], object], file: str = "manifest.json") -> None:
    document = json.loads((artifact / file).read_text())
    change(document)
    (artifact / file).write_text(json.dumps(document))


def spec(manifest: Any) -> Any:
    return manifest["methods"][0]["inputs"][0]


MANIFESTS: dict[str, tuple[Callable[[Any], object], str]] = {
    "shell in the name": (lambda m: m.update(name="n\ntouch x\n#"), "control characters"),
    "escapes in the name": (lambda m: m.update(name="\x1b]0;x\x07"), "control characters"),
    "name that is a path": (lambda m: m.update(name="../x"), "no name of an artifact"),
    "name that is a flag": (lambda m: m.update(name="-rf"), "no name of an artifact"),
    "right to left": (lambda m: m.update(name="a\u202egpj.exe"), "control characters"),
    "line in an input": (lambda m: spec(m).update(name="x\ny"), "control characters"),
    "engine of another target": (lambda m: m.update(engine="torch"), "does not run"),
    "requirements of another engine": (lambda m: m["requirements"].update(engine="torch"), "does not run"),
    "no methods": (lambda m: m.update(methods=[]), "0 entries"),
    "method in a file elsewhere": (lambda m: m["methods"][0].update(file="../model.onnx"), "file"),
    "method in a file that is not there": (lambda m: m["methods"][0].update(file="a.onnx"), "which is not there"),
    "version that is no text": (lambda m: m["requirements"].update(minimum_version=3), "not a text"),
    "no quantization recipe": (lambda m: m.update(quantization={}), "no 'recipe'"),
    "options that are a list": (lambda m: m.update(options=[1]), "not an object"),
    "producer of numbers": (lambda m: m.update(producer={"edgex": 1}), "not a text"),
    "size that is a float": (lambda m: spec(m)["shape"].insert(0, 1e300), "shape"),
    "negative size": (lambda m: spec(m)["shape"].insert(0, -1), "shape"),
    "bytes of a petabyte": (lambda m: m["files"][0].update(bytes=1 << 50), "outside 0.."),
    "path with a line": (lambda m: m["files"][0].update(path="a\nb"), "control characters"),
    "file twice": (lambda m: m["files"].append(m["files"][0]), "twice"),
    "two files of one name": (
        lambda m: m["files"].append({**m["files"][0], "path": m["files"][0]["path"].upper()}),
        "twice",
    ),
    "input twice": (lambda m: m["methods"][0]["inputs"].append(spec(m)), "twice"),
    "half a proof": (lambda m: m["verification"].pop("cases"), "no 'cases'"),
    "verdict that is a list": (lambda m: m["verification"]["cases"].insert(0, []), "not an object"),
    "fallbacks that are text": (lambda m: m["delegation"].update(fallbacks="x"), "not a list"),
}


@pytest.mark.parametrize("case", MANIFESTS)
def test_a_manifest_is_refused(case: str, own_copy: OwnCopy) -> None:
    artifact = own_copy("convnet", TARGET)
    change, why = MANIFESTS[case]
    edit(artifact, change)
    with pytest.raises(ArtifactError, match="damaged") as caught:
        open_artifact(artifact)
    assert why in str(caught.value.why)
    assert str(caught.value).isascii(), "what is shown of a text is escaped"


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a": Infinity}',
        '{"a": 1e999}',
        '{"a": NaN}',
        '{"a": "\\u0000"}',
        '{"a": "\\ud800"}',
        '{"a": 1, "a": 2}',
        "[" * 100 + "]" * 100,
        "1" * 10_000,
        '\ufeff{"a": 1}',
        "{'a': 1}",
    ],
)
def test_json_that_is_no_json(text: str, own_copy: OwnCopy) -> None:
    with pytest.raises(ValueError):
        parse_json(text)
    artifact = own_copy("convnet", TARGET)
    (artifact / "manifest.json").write_text(text)
    with pytest.raises(ArtifactError, match="not valid JSON"):
        open_artifact(artifact)


def test_files_that_would_not_end_are_not_read(own_copy: OwnCopy, tmp_path: Path) -> None:
    pipe, huge = tmp_path / "pipe", tmp_path / "huge"
    os.mkfifo(pipe)
    with huge.open("wb") as stream:
        stream.truncate(4 << 30)
    for path in (pipe, huge, Path("/dev/zero")):
        with pytest.raises(ValueError, match=r"not a regular file|bytes; at most"):
            read_json(path)
    artifact = own_copy("convnet", TARGET)
    (artifact / "manifest.json").unlink()
    os.mkfifo(artifact / "manifest.json")
    with pytest.raises(ArtifactError):
        open_artifact(artifact)
    (artifact / "manifest.json").unlink()
    huge.rename(artifact / "manifest.json")
    with pytest.raises(ArtifactError, match="cannot be read"):
        open_artifact(artifact)


def test_a_file_of_holes_is_not_hashed(own_copy: OwnCopy) -> None:
    artifact = own_copy("convnet", TARGET)
    with (artifact / "model.onnx").open("r+b") as stream:
        stream.truncate(40 << 30)
    entry = lambda m: next(f for f in m["files"] if f["path"] == "model.onnx")  # noqa: E731
    edit(artifact, lambda m: entry(m).update(bytes=40 << 30))
    with pytest.raises(ArtifactError, match="mostly holes"):
        open_artifact(artifact)


def test_golden_data_that_the_manifest_does_not_list(own_copy: OwnCopy) -> None:
    artifact = own_copy("convnet", TARGET)
    edit(artifact, lambda m: m.update(files=[f for f in m["files"] if f["path"] != "golden/index.json"]))
    (artifact / "golden/index.json").unlink()
    os.mkfifo(artifact / "golden/index.json")
    with pytest.raises(ArtifactError) as caught:
        read_golden(open_artifact(artifact))
    assert "does not list" in str(caught.value.why)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda case: case.update(steps=10**12), "outside 0.."),
        (lambda case: case.update(steps=10**4), "has no input"),
        (lambda case: case.update(steps=-1), "outside 0.."),
        (lambda case: case.update(kind="eval"), "none of"),
        (lambda case: case.update(file="../../x"), "outside the artifact"),
        (lambda case: case.update(file="other.safetensors"), "not in the manifest"),
        (lambda case: case.update(name="a\x1b[2Jb"), "control characters"),
    ],
)
def test_a_golden_index_is_refused(change: Callable[[Any], object], why: str, own_copy: OwnCopy) -> None:
    artifact = own_copy("convnet", TARGET)
    edit(artifact, lambda index: change(index["cases"][0]), "golden/index.json")
    rehash(artifact)
    with pytest.raises(ArtifactError) as caught:
        read_golden(open_artifact(artifact))
    assert why in str(caught.value.why)


@pytest.mark.parametrize(
    "content", [b"", b"\xff" * 8, (2).to_bytes(8, "little") + b"{}", b"\x08" + b"\0" * 7 + b"{" * 8]
)
def test_golden_tensors_are_refused(content: bytes, own_copy: OwnCopy) -> None:
    artifact = own_copy("convnet", TARGET)
    (artifact / "golden/00-example.safetensors").write_bytes(content)
    rehash(artifact)
    with pytest.raises(ArtifactError, match="golden data cannot be read"):
        read_golden(open_artifact(artifact))


def test_built_in_targets_and_their_engines() -> None:
    assert {name: get_delegate(name).engine for name in ENGINES} == ENGINES


def test_onnx_weights_outside_the_manifest_are_refused(own_copy: OwnCopy) -> None:
    import onnx

    artifact = own_copy("convnet", TARGET)
    model = onnx.load(artifact / "model.onnx")
    onnx.save_model(model, artifact / "model.onnx", save_as_external_data=True, location="w.bin", size_threshold=256)
    rehash(artifact)
    with edgex.load(artifact) as session:
        session.run(np.zeros((1, 3, 8, 8), np.float32))
    edit(artifact, lambda m: m.update(files=[f for f in m["files"] if f["path"] != "w.bin"]))
    with pytest.raises(ArtifactError, match=r"takes weights from 'w\.bin', which the manifest does not list"):
        edgex.load(artifact)
    (artifact / "model.onnx").write_bytes(b"\x3a\xff\xff\xff\xff\x0f")
    rehash(artifact)
    with pytest.raises(ArtifactError, match="is not an ONNX model"):
        edgex.load(artifact)


@pytest.mark.parametrize("name", ["a\nb", "../a", "-a", ".a", "a/b", "a\x1b", ""])
def test_an_export_makes_no_such_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot name an artifact"):
        resolve_destination(tmp_path, name, "xnnpack", force=False, single=True)
    resolve_destination(tmp_path, "größe (2)", "xnnpack", force=False, single=True)


def test_two_exports_to_one_output(tmp_path: Path) -> None:
    """The second to finish says so, and leaves the first's artifact as it is."""
    path = tmp_path / "a.xnnpack.edgex"
    with staged(Destination(path)) as folder:
        (folder / "manifest.json").write_text("second")
        path.mkdir()
        (path / "manifest.json").write_text("first")
        with pytest.raises(UsageError, match="another export"):
            publish(folder, Destination(path))
    assert (path / "manifest.json").read_text() == "first"
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_tensors_without_values_are_refused(own_copy: OwnCopy) -> None:
    import torch

    with edgex.load(own_copy("convnet", TARGET)) as session:
        for value in (torch.zeros(1, 3, 8, 8, device="meta"), torch.zeros(1, 3, 8, 8).to_sparse()):
            with pytest.raises(RunError, match="cannot be read as an array"):
                session.run(value)
