"""An artifact of a tiny classifier of pictures, and what changes its manifest."""

import json
import shutil

import numpy as np
import pytest
import torch
from pte_support import Call, captured, write_artifact

from edgex.runtime.artifact.artifact import hash_file, open_artifact
from edgex.runtime.artifact.golden import Case, Step, write_golden
from edgex.runtime.artifact.manifest import FileEntry


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """A .pte artifact of a classifier of pictures [1, 3, 4, 4] into three classes, without golden data."""
    head = torch.nn.Linear(48, 3)
    with torch.no_grad():
        head.weight.copy_(torch.randn(3, 48, generator=torch.Generator().manual_seed(0)))
    module = Call(lambda self, x: self.m[0](x.flatten(1)), head)
    folder = tmp_path_factory.mktemp("android") / "tiny.xnnpack.edgex"
    write_artifact(captured(module, torch.rand(1, 3, 4, 4)), folder)
    return folder


@pytest.fixture
def artifact_of(program, tmp_path):
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
        manifest["producer"] = {"edgex": "0.1.0", "executorch": "1.5.1"}
        manifest["files"] += [
            vars(FileEntry(f"golden/{p.name}", p.stat().st_size, hash_file(p))) for p in (folder / "golden").iterdir()
        ]
        change(manifest)
        (folder / "manifest.json").write_text(json.dumps(manifest))
        return open_artifact(folder)

    return make
