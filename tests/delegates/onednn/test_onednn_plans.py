"""Plans: the same bytes each time, small, and refused when damaged; the parser under AddressSanitizer."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from onednn_support import Int8Linear, Network, capture, load, lower, needs_onednn, read_pte, rounded, with_pte
from torch import nn

from edgex.delegates.onednn.plan import graph_api
from edgex.errors import RunError
from edgex.runtime.engines.onednn.build import SOURCES
from edgex.runtime.engines.onednn.library import find_toolchain

pytestmark = needs_onednn
FUZZER = Path(__file__).parent / "onednn_fuzz.cpp"
ROUNDS = 20_000


@pytest.fixture(scope="module")
def small():
    """A lowered program with views, constants of several kinds, integers, an embedding and a dynamic batch."""
    torch.manual_seed(0)
    network = Network(
        lambda x, i, c, n, q, e: q(rounded(F.relu(n(c(x).flatten(2).transpose(1, 2))) * 2 + e(i))),
        nn.Conv2d(3, 8, 3),
        nn.Linear(8, 5),
        Int8Linear(5, 6),
        nn.Embedding(4, 5),
    )
    shapes = {"inputs": ({0: torch.export.Dim("batch", min=1, max=6)}, None)}
    return lower(capture(network, (torch.randn(2, 3, 6, 6), torch.arange(16) % 4), shapes))


@pytest.fixture(scope="module")
def plan(small) -> bytes:
    """The plan's bytes inside the .pte."""
    content, start = read_pte(small)
    return bytes(content[start:])


def test_numbers_are_those_of_the_headers() -> None:
    header = (find_toolchain().onednn_include / "oneapi" / "dnnl" / "dnnl_graph_types.h").read_text()
    kinds = re.findall(r"^\s+dnnl_graph_op_(?!attr_)(\w+)(?: = \w+)?,", header, re.MULTILINE)
    assert {name: kinds.index(name) for name in graph_api.OP_KINDS} == graph_api.OP_KINDS
    number, attributes = 0, {}
    for name, value in re.findall(r"^\s+dnnl_graph_op_attr_(\w+)(?: = (\w+))?,", header, re.MULTILINE):
        number = int(value, 16) if value else number + 1
        attributes[name] = number
    assert {name: attributes[name] for name in graph_api.ATTRIBUTES} == graph_api.ATTRIBUTES
    assert ctypes.sizeof(graph_api._LogicalTensor) == 8 + 8 + 96 + 16 + 96


def test_a_plan_is_little_more_than_its_weights(small, plan: bytes) -> None:
    weights = 4 * (3 * 8 * 9 + 8 + 8 * 5 + 5 + 1 + 4 * 5) + 5 * 6
    # Names, sizes and alignment, which do not grow with the weights.
    assert weights < len(plan) < weights + 8192


@pytest.mark.parametrize("at", ["magic", "version", "body"])
def test_a_damaged_plan_is_refused_at_load(small, at: str) -> None:
    content, start = read_pte(small)
    content[start + {"magic": 7, "version": 8, "body": 60}[at]] ^= 0x15
    with pytest.raises(RunError, match="not a valid program") as caught:
        load(with_pte(small, bytes(content)))
    assert "the plan is damaged" in str(caught.value.why)


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory) -> Path:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ for AddressSanitizer")
    program = tmp_path_factory.mktemp("fuzz") / "fuzz"
    sources = [str(SOURCES / name) for name in ("plan/parser.cpp", "plan/plan.cpp")]
    flags = ["-std=c++17", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    command = [compiler, *flags, f"-I{SOURCES}", str(FUZZER), *sources, "-o", str(program)]
    subprocess.run(command, check=True, capture_output=True)
    return program


def test_the_parser_reads_nothing_outside_of_damaged_plans(fuzzer: Path, plan: bytes, tmp_path: Path) -> None:
    (tmp_path / "plan").write_bytes(plan)
    done = subprocess.run(
        [str(fuzzer), str(tmp_path / "plan"), str(ROUNDS)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    accepted, refused = map(int, done.stdout.split())
    # Many changes hit constants, names or numbers that mean something else; both answers must occur.
    assert accepted + refused == ROUNDS + 1 and accepted > 10 and refused > ROUNDS // 4


def test_every_shorter_plan_is_refused(fuzzer: Path, plan: bytes, tmp_path: Path) -> None:
    for length in range(0, 400, 7):
        (tmp_path / "plan").write_bytes(plan[:length])
        done = subprocess.run([str(fuzzer), str(tmp_path / "plan"), "0"], capture_output=True, check=False)
        assert done.returncode == 2, (length, done.stderr[-2000:])
