"""Artifacts of a tiny classifier of pictures, for each engine of the app, and what changes their manifests."""

import json
import shutil

import numpy as np
import onnx_support
import pytest
import torch
from pte_support import Call, captured, write_artifact

from edgex.runtime.artifact.artifact import hash_file, open_artifact
from edgex.runtime.artifact.golden import Case, Step, write_golden
from edgex.runtime.artifact.manifest import FileEntry


def make_classifier():
    """Pictures [1, 3, 4, 4] into scores of three classes."""
    head = torch.nn.Linear(48, 3)
    with torch.no_grad():
        head.weight.copy_(torch.randn(3, 48, generator=torch.Generator().manual_seed(0)))
    return captured(Call(lambda self, x: self.m[0](x.flatten(1)), head), torch.rand(1, 3, 4, 4))


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """A .pte artifact of the classifier, without golden data."""
    folder = tmp_path_factory.mktemp("android") / "tiny.xnnpack.edgex"
    write_artifact(make_classifier(), folder)
    return folder


@pytest.fixture(scope="session")
def onnx_program(tmp_path_factory):
    """The same as `model.onnx`."""
    folder = tmp_path_factory.mktemp("android") / "tiny.onnx-cpu.edgex"
    return onnx_support.write_artifact(onnx_support.lower(make_classifier()), folder)


def maker(program, tmp_path, producer):
    """Make a copy with golden data and with changes to its manifest; opened."""

    def make(change=lambda manifest: None, cases=None):
        folder = tmp_path / "made" / program.name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(program, folder)
        manifest = json.loads((folder / "manifest.json").read_text())
        inputs, outputs = manifest["methods"][0]["inputs"], manifest["methods"][0]["outputs"]
        if cases is None:
            x, y = np.linspace(0, 1, 48, dtype=np.float32).reshape(1, 3, 4, 4), np.array([[1, -2, 3]], np.float32)
            step = Step({inputs[0]["name"]: x}, {outputs[0]["name"]: y})
            cases_ = [Case("example", "compare", (step,)), Case("turned", "compare", (step,), "transposed")]
        else:
            cases_ = cases
        write_golden(folder, cases_)
        manifest["producer"] = {"edgex": "0.1.0", **producer}
        manifest["files"] += [
            vars(FileEntry(f"golden/{p.name}", p.stat().st_size, hash_file(p))) for p in (folder / "golden").iterdir()
        ]
        change(manifest)
        (folder / "manifest.json").write_text(json.dumps(manifest))
        return open_artifact(folder)

    return make


@pytest.fixture
def artifact_of(program, tmp_path):
    return maker(program, tmp_path, {"executorch": "1.5.1"})


@pytest.fixture
def onnx_artifact_of(onnx_program, tmp_path):
    return maker(onnx_program, tmp_path, {"onnxruntime": "1.31.1"})
