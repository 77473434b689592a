"""The torch engine: a .pt2 is loaded without executing anything in it."""

from __future__ import annotations

import io
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from pt2_support import rehash, rewrite_members

import edgex
from edgex.errors import ArtifactError, RunError

OwnCopy = Callable[[str, str], Path]


class Malice:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return (open, (str(self.path), "w"))


def rewrite(artifact: Path, change: Callable[[str, bytes], bytes], more: dict[str, bytes] | None = None) -> None:
    """Change members of model.pt2, hashes and all."""
    rewrite_members(artifact / "model.pt2", change, more)
    rehash(artifact)


def test_sample_inputs_that_execute_code_do_not(own_copy: OwnCopy, tmp_path: Path) -> None:
    artifact, marker = own_copy("convnet", "reference"), tmp_path / "executed"
    buffer = io.BytesIO()
    torch.save(({"x": Malice(marker)},), buffer)
    rewrite(artifact, lambda name, old: buffer.getvalue() if name.endswith("sample_inputs/model.pt") else old)
    with pytest.raises(RunError, match="cannot load"):
        edgex.load(artifact)
    assert not marker.exists()


@pytest.mark.parametrize("prefix", ["opaque_obj_", "custom_obj_", "tensor_"])
def test_constants_that_are_pickles_are_refused(own_copy: OwnCopy, tmp_path: Path, prefix: str) -> None:
    artifact, marker = own_copy("convnet", "reference"), tmp_path / "executed"
    entry = {"path_name": f"{prefix}0", "is_param": False, "use_pickle": True, "tensor_meta": None}

    def change(name: str, old: bytes) -> bytes:
        if name.endswith("constants_config.json"):
            return json.dumps({"config": {"evil": entry}}).encode()
        return old

    rewrite(artifact, change, {f"data/constants/{prefix}0": pickle.dumps(Malice(marker))})
    with pytest.raises(ArtifactError, match="could execute code"):
        edgex.load(artifact)
    assert not marker.exists()


def test_the_guard_is_put_back(own_copy: OwnCopy) -> None:
    edgex.load(own_copy("convnet", "reference")).close()
    assert "TORCH_FORCE_WEIGHTS_ONLY_LOAD" not in os.environ


def test_options_are_refused(own_copy: OwnCopy) -> None:
    with pytest.raises(RunError, match="no option 'speed'"):
        edgex.load(own_copy("convnet", "reference"), options={"speed": 11})


def test_threads_are_set_for_the_run_only(own_copy: OwnCopy) -> None:
    before = torch.get_num_threads()
    with edgex.load(own_copy("convnet", "reference"), threads=1) as session:
        session.run(torch.zeros(1, 3, 8, 8))
        assert session.threads == 1
    assert torch.get_num_threads() == before
