"""What `edgex inspect` says that an artifact needs, from manifests alone: no engine must be installed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from manifest_support import NO_DELEGATION

from edgex.runtime.artifact.artifact import hash_file
from edgex.runtime.artifact.manifest import FileEntry, Manifest, Method, Requirements
from edgex.runtime.artifact.specs import TensorSpec

QNN = {"execution_provider": "QNNExecutionProvider"}


def write(folder: Path, needs: Requirements, options: dict[str, str]) -> Path:
    """An artifact whose model is no model."""
    model = folder / "model.bin"
    model.write_bytes(b"model")
    method = Method("forward", (TensorSpec("x", "float32", (2,)),), (TensorSpec("y", "float32", (2,)),))
    files = (FileEntry(model.name, model.stat().st_size, hash_file(model)),)
    manifest = Manifest("net", "any", needs.engine, "fp16", (method,), files, {}, NO_DELEGATION, needs, options=options)
    (folder / "manifest.json").write_text(manifest.dumps())
    return folder


@pytest.mark.parametrize(
    ("engine", "minimum", "options", "packages", "extra"),
    [
        ("onnxruntime", "1.18", QNN, {"onnxruntime": "1.24.2", "onnxruntime-qnn": "2.7"}, "[run-qnn]"),
        ("onnxruntime", "1.30", QNN, {"onnxruntime": "1.30", "onnxruntime-qnn": "2.7"}, "[run-qnn]"),
        ("onnxruntime", "1.18", {}, {"onnxruntime": "1.18"}, "[run-onnx]"),
        ("coreai", "1.0.0b3", {}, {"coreai-core": "1.0.0b3"}, "[run-coreai]"),
        ("litert", "2.1", {}, {"ai-edge-litert": "2.1"}, "[run-litert]"),
        ("openvino", None, {}, {"openvino": None}, "[run-openvino]"),
        ("strangers", "3.0", {}, {"strangers": "3.0"}, None),
    ],
)
def test_it_names_the_packages_that_open_it(
    edgex: Callable,
    tmp_path: Path,
    engine: str,
    minimum: str | None,
    options: dict[str, str],
    packages: dict[str, str | None],
    extra: str | None,
) -> None:
    artifact = str(write(tmp_path, Requirements(engine, minimum), options))
    needs = json.loads(edgex("inspect", artifact, "--json").stdout)["needs"]
    assert needs["packages"] == packages
    assert needs["install"] is None if extra is None else extra in needs["install"]
    page = " ".join(edgex("inspect", artifact).stdout.split())
    named = ", ".join(f"{name} >= {oldest}" if oldest else name for name, oldest in packages.items())
    assert f"needs {named} " in page
    assert (extra is None) == ("pip install" not in page)
