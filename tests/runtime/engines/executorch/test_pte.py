from __future__ import annotations

import random
import struct

import pytest
import torch
from pte_support import Call, captured, write_artifact

from edgex.errors import ArtifactError
from edgex.runtime.engines.executorch.pte import PteSummary, read_pte


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pte") / "a.edgex"
    write_artifact(captured(Call(lambda self, x: torch.cumsum(torch.relu(x), 0)), torch.randn(4)), folder)
    return folder / "model.pte"


def test_the_summary_of_a_small_program(program):
    summary = read_pte(program)
    assert summary.backends == ("XnnpackBackend",)
    assert summary.operators == ("aten::cumsum.out",)
    assert summary.planned_arena_bytes >= 2 * 4 * 4


@pytest.mark.parametrize("content", [b"", b"ET12", b"\0\0\0\0ET12", b"x" * 200, struct.pack("<I", 1 << 30) + b"ET12"])
def test_what_is_no_program_is_an_artifact_error(tmp_path, content):
    path = tmp_path / "model.pte"
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match=r"model\.pte is not an ExecuTorch program") as caught:
        read_pte(path)
    assert caught.value.why


def test_damage_anywhere_in_the_tables_is_read_or_refused(program, tmp_path):
    """Never another exception, never a loop that does not end."""
    whole = program.read_bytes()
    chance = random.Random(0)
    path = tmp_path / "model.pte"
    refused = 0
    for _ in range(500):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(8, len(data))] = chance.randrange(256)
        path.write_bytes(data[: chance.choice([len(data), chance.randrange(1, len(data))])])
        try:
            assert isinstance(read_pte(path), PteSummary)
        except ArtifactError:
            refused += 1
    assert 50 < refused < 500
