"""Damaged artifacts and wrong run inputs: exit code 6, the sentence, and no traceback."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

Edgex = Callable[..., subprocess.CompletedProcess[str]]
OwnCopy = Callable[[str, str], Path]
TARGET = "onnx-cpu"


def edit_manifest(artifact: Path, change: Callable[[dict], None]) -> None:
    path = artifact / "manifest.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def truncate(artifact: Path) -> None:
    model = artifact / "model.onnx"
    model.write_bytes(model.read_bytes()[:-100])


def edit(artifact: Path) -> None:
    model = artifact / "model.onnx"
    content = bytearray(model.read_bytes())
    content[len(content) // 2] ^= 1
    model.write_bytes(bytes(content))


def escape(artifact: Path) -> None:
    (artifact.parent / "secret").write_text("x")
    edit_manifest(artifact, lambda m: m["files"][0].update(path="../secret", bytes=1))


def link_outside(artifact: Path) -> None:
    model = artifact / "model.onnx"
    outside = artifact.parent / "outside.onnx"
    model.rename(outside)
    model.symlink_to(outside)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated": (truncate, "the manifest says"),
    "edited": (edit, "changed after the export"),
    "newer format": (lambda a: edit_manifest(a, lambda m: m.update(format="edgex.artifact/9")), "'edgex.artifact/9'"),
    "path that escapes": (escape, "outside the artifact"),
    "absolute path": (lambda a: edit_manifest(a, lambda m: m["files"][0].update(path="/etc/passwd")), "outside"),
    "link to the outside": (link_outside, "not a plain file inside"),
    "missing file": (lambda a: (a / "model.onnx").unlink(), "lacks model.onnx"),
    "no manifest": (lambda a: (a / "manifest.json").unlink(), "is not an edgex artifact"),
    "manifest that is no JSON": (lambda a: (a / "manifest.json").write_text("{"), "not valid JSON"),
    "manifest of something else": (lambda a: (a / "manifest.json").write_text("[1]"), "not an edgex manifest"),
    "manifest without methods": (lambda a: edit_manifest(a, lambda m: m.pop("methods")), "damaged"),
    "manifest with an unknown dtype": (
        lambda a: edit_manifest(a, lambda m: m["methods"][0]["inputs"][0].update(dtype="float12")),
        "float12",
    ),
    "unknown engine": (
        lambda a: edit_manifest(
            a, lambda m: (m.update(target="warp", engine="warp"), m["requirements"].update(engine="warp"))
        ),
        "no engine named 'warp'",
    ),
    "engine of another target": (lambda a: edit_manifest(a, lambda m: m.update(engine="torch")), "does not run"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged(damage: str, own_copy: OwnCopy, edgex: Edgex) -> None:
    artifact = own_copy("convnet", TARGET)
    change, sentence = DAMAGES[damage]
    change(artifact)
    result = edgex("run", artifact.name)
    assert result.returncode == (7 if damage == "unknown engine" else 6), result.stderr
    assert sentence in result.stderr and "Traceback" not in result.stderr, result.stderr
    document = json.loads(edgex("run", artifact.name, "--json").stdout)
    assert document["schema"] == "edgex.error/1" and document["exit_code"] == result.returncode


def test_not_an_artifact_at_all(edgex: Edgex, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    for given, sentence in (("nope.edgex", "no artifact at"), ("folder", "is not an"), ("file", "is not an")):
        for verb in ("run", "inspect", "verify", "profile"):
            result = edgex(verb, given)
            assert result.returncode == 6 and sentence in result.stderr, (verb, given, result.stderr)


def test_inspect_of_a_damaged_artifact_fails_too(own_copy: OwnCopy, edgex: Edgex) -> None:
    artifact = own_copy("convnet", TARGET)
    edit(artifact)
    assert edgex("inspect", artifact.name).returncode == 6
    assert edgex("inspect", artifact.name, "--check", "size").returncode == 0


def test_verify_finds_numbers_that_are_not_eagers(own_copy: OwnCopy, edgex: Edgex) -> None:
    """The golden outputs are exchanged for others, hashes and all: what runs is whole, and wrong."""
    from safetensors.numpy import load_file, save_file

    from edgex.export.packaging.package import list_files

    artifact = own_copy("convnet", TARGET)
    golden = artifact / "golden" / "00-example.safetensors"
    tensors = load_file(golden)
    tensors["0/output/output_0"] = tensors["0/output/output_0"] * 1.01
    save_file(tensors, golden)
    entries = [{"path": f.path, "bytes": f.bytes, "sha256": f.sha256} for f in list_files(artifact)]
    edit_manifest(artifact, lambda m: m.update(files=entries))
    result = edgex("verify", artifact.name, "--json")
    assert result.returncode == 4
    document = json.loads(result.stdout)
    assert document["passed"] is False and document["cases"][0]["verdict"] == "fail"
    assert 35 < document["cases"][0]["sqnr_db"] < 45
    assert "SQNR" in document["reason"]


INPUTS: dict[str, tuple[dict[str, np.ndarray], str]] = {
    "missing": ({"x": np.zeros((3, 6), np.float32)}, "missing input: scale"),
    "extra": ({"x": np.zeros((3, 6), np.float32), "scale": np.ones((3, 1), np.float32), "y": np.ones(1)}, "'y'"),
    "wrong dtype": ({"x": np.zeros((3, 6)), "scale": np.ones((3, 1), np.float32)}, "is float64"),
    "wrong shape": ({"x": np.zeros((3, 7), np.float32), "scale": np.ones((3, 1), np.float32)}, "has shape (3, 7)"),
    "out of bounds": ({"x": np.zeros((9, 6), np.float32), "scale": np.ones((9, 1), np.float32)}, "outside batch=1..8"),
}


@pytest.mark.parametrize("case", INPUTS)
def test_wrong_run_inputs(case: str, exported: OwnCopy, edgex: Edgex, tmp_path: Path) -> None:
    arrays, sentence = INPUTS[case]
    np.savez(tmp_path / "in.npz", **arrays)
    result = edgex("run", str(exported("dynamic", TARGET)), "-i", "in.npz", "-o", "out.npz")
    assert result.returncode == 6 and sentence in result.stderr, result.stderr
    assert not (tmp_path / "out.npz").exists()


def test_input_files_that_cannot_be_read(exported: OwnCopy, edgex: Edgex, tmp_path: Path) -> None:
    artifact = str(exported("convnet", TARGET))
    (tmp_path / "bad.npz").write_bytes(b"PK nonsense")
    (tmp_path / "bad.npy").write_bytes(b"nonsense")
    (tmp_path / "x.txt").write_text("1 2 3")
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    for given, sentence in (
        ("nope.npz", "no such file"),
        ("bad.npz", "cannot be read"),
        ("x=bad.npy", "cannot be read"),
        ("x=objects.npy", "cannot be read"),
        ("x=x.txt", "inputs come as in.npz"),
        ("x=x.txt", "numpy.savez('x.npz',"),
    ):
        result = edgex("run", artifact, "-i", given)
        assert result.returncode == 2 and sentence in result.stderr, (given, result.stderr)


def test_output_files_that_cannot_be_written(exported: OwnCopy, edgex: Edgex, tmp_path: Path) -> None:
    artifact = str(exported("convnet", TARGET))
    (tmp_path / "out.npz").write_text("precious")
    for given, sentence in (("out.npz", "exists"), ("out.csv", "written as .npz"), ("no/out.npz", "no such folder")):
        result = edgex("run", artifact, "-o", given)
        assert result.returncode == 2 and sentence in result.stderr, (given, result.stderr)
    assert (tmp_path / "out.npz").read_text() == "precious"
    assert edgex("run", artifact, "-o", "out.npz", "--force").returncode == 0
    with np.load(tmp_path / "out.npz") as saved:
        assert saved.files == ["output_0"] and saved["output_0"].shape == (1, 5)
