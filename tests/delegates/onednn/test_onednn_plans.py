"""Plans: the same bytes each time, small, and refused when damaged; the backend under sanitizers."""

from __future__ import annotations

import ctypes
import re
import struct
from pathlib import Path

import pytest
import torch
from onednn_fuzzing import build_fuzzer, mixed, run_fuzzer
from onednn_support import load, needs_onednn, read_pte, with_pte

import edgex
from benchmarks.operators.proof import prove
from edgex.delegates.onednn.plan import graph_api
from edgex.delegates.onednn.plan.format import checksum
from edgex.errors import RunError
from edgex.runtime.engines.onednn.build import SOURCES
from edgex.runtime.engines.onednn.library import find_toolchain

pytestmark = needs_onednn
ROUNDS = 200


@pytest.fixture(scope="module")
def small():
    """See `mixed`."""
    return mixed()


@pytest.fixture(scope="module")
def plan(small) -> bytes:
    """The plan's bytes inside the .pte."""
    content, start = read_pte(small)
    return bytes(content[start:])


# oneDNN's: those of the backend's own operators have numbers from where its own end.
_ATTRIBUTES = {name: number for name, number in graph_api.ATTRIBUTES.items() if number < 1 << 16}


def test_numbers_are_those_of_the_headers() -> None:
    header = (find_toolchain().onednn_include / "oneapi" / "dnnl" / "dnnl_graph_types.h").read_text()
    kinds = re.findall(r"^\s+dnnl_graph_op_(?!attr_)(\w+)(?: = \w+)?,", header, re.MULTILINE)
    assert {name: kinds.index(name) for name in graph_api.OP_KINDS} == graph_api.OP_KINDS
    number, attributes = 0, {}
    for name, value in re.findall(r"^\s+dnnl_graph_op_attr_(\w+)(?: = (\w+))?,", header, re.MULTILINE):
        number = int(value, 16) if value else number + 1
        attributes[name] = number
    assert {name: attributes[name] for name in _ATTRIBUTES} == _ATTRIBUTES
    assert ctypes.sizeof(graph_api._LogicalTensor) == 8 + 8 + 96 + 16 + 96


class _Cut(torch.nn.Module):
    """Cuts a table to a length that no tensor of the region has."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(16, 8)

    def forward(self, table, text):
        return self.layer(table)[: text.shape[0]].relu() * 2, text + 1


def test_a_size_that_a_region_is_not_given_comes_from_outside_of_it() -> None:
    table, text = torch.randn(40, 16), torch.arange(12)
    shapes = {"table": None, "text": {0: torch.export.Dim("n", min=1, max=40)}}
    proved = prove(_Cut(), (table, text), "onednn", dynamic_shapes=shapes)
    assert proved.exit_code == 0, proved.reason
    assert proved.verification["min_sqnr_db"] > 100


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


def refusal(content: bytes, lowered) -> str:
    """What the backend says of a .pte whose plan was changed."""
    with pytest.raises(RunError) as caught:
        load(with_pte(lowered, content))
    return str(caught.value.why)


def changed(lowered, change) -> bytes:
    """The .pte with another body of its plan, of the same length, and the checksum right."""
    content, start = read_pte(lowered)
    size = struct.unpack_from("<Q", content, start + 16)[0]
    body = change(bytes(content[start + 48 : start + 48 + size]))
    assert len(body) == size
    content[start + 48 : start + 48 + size] = body
    struct.pack_into("<Q", content, start + 40, checksum(body))
    return bytes(content)


def value_record(dims: tuple[int, ...], storage: int) -> re.Pattern[bytes]:
    """A value of these sizes and this storage, as it stands in a plan; groups: before its offset, its offset."""
    sizes = re.escape(struct.pack(f"<{len(dims)}q", *dims))
    strides = b".{%d}" % (8 * len(dims))
    return re.compile(b"(" + sizes + strides + struct.pack("<I", storage) + b".{20})(.{8})", re.DOTALL)


@pytest.mark.parametrize(("dims", "storage"), [((6, 5), 2), ((4, 5), 2)])
def test_a_constant_that_begins_behind_its_place_is_refused(small, dims: tuple[int, ...], storage: int) -> None:
    """It would be read from whatever lies there."""
    pattern = value_record(dims, storage)
    content = changed(small, lambda body: pattern.sub(lambda m: m[1] + struct.pack("<q", 1 << 20), body, count=1))
    assert "begins inside of its memory" in refusal(content, small)


@pytest.mark.parametrize("kind", [45, 84, 1000, max(graph_api.OWN_KINDS.values()) + 1, 0xFFFFFFFF])
def test_an_unknown_kind_of_operator_is_refused(small, kind: int) -> None:
    """oneDNN would look its properties up where there are none."""
    old = re.compile(
        struct.pack("<I", graph_api.OP_KINDS["relu"]) + b"(.{8}" + struct.pack("<I", 4) + b"relu)", re.DOTALL
    )
    content = changed(small, lambda body: old.sub(lambda m: struct.pack("<I", kind) + m[1], body, count=1))
    assert "an unknown kind of operator" in refusal(content, small)


def test_every_kind_that_is_written_is_known_to_the_backend() -> None:
    text = "".join((SOURCES / "plan" / name).read_text() for name in ("operators.cpp", "sizes.cpp"))
    known = set(re.findall(r"dnnl_graph_op_(?!attr_)(\w+)", text))
    # An end is only in the graphs that the backend makes of plans.
    assert set(graph_api.OP_KINDS) - {"end"} <= known
    assert set(_ATTRIBUTES) == set(re.findall(r"dnnl_graph_op_attr_(\w+)", text))


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory) -> Path:
    program = build_fuzzer(tmp_path_factory.mktemp("fuzz"))
    if program is None:
        pytest.skip("no g++ for AddressSanitizer")
    return program


@pytest.mark.slow
def test_damaged_plans_are_refused_or_run_inside_of_their_memory(fuzzer: Path, plan: bytes, tmp_path: Path) -> None:
    """Through the backend, with sanitizers: a sample of what `make fuzz-onednn` does for ten minutes."""
    path = tmp_path / "mixed.plan"
    path.write_bytes(plan)
    done = run_fuzzer(fuzzer, [path], 0, ROUNDS)
    assert done.returncode == 0, done.stderr[-3000:]
    refused, large, stopped, ran = map(int, re.findall(r"\d+", done.stdout))
    # Many changes leave a plan as good as before; both answers must occur.
    assert refused + large + stopped + ran == ROUNDS and ran > ROUNDS // 20 and refused > ROUNDS // 4


def test_a_shorter_plan_is_refused(small) -> None:
    content, start = read_pte(small)
    for length in (20, 47):
        shorter = bytes(content[: start + length]) + bytes(len(content) - start - length)
        assert "the plan is damaged" in refusal(shorter, small)


class RoutesByValue(torch.nn.Module):
    """An expert takes the rows that a score chooses: how many is known in a run alone, and may be none."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.expert = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.first(x))
        chosen = y.sum(-1) > 1.5
        y[chosen] = torch.tanh(self.expert(y[chosen]))
        return y


def test_what_has_a_size_that_a_run_finds_stays_outside() -> None:
    proved = prove(RoutesByValue(), (torch.randn(6, 8),), "onednn")
    assert proved.exit_code == 0, proved.reason
    assert proved.delegated


def test_a_size_that_a_run_finds_and_another_says(tmp_path: Path) -> None:
    """A mask as long as the longest sequence, which has the length of `x` once both are compared."""

    class Masked(torch.nn.Module):
        def forward(self, x, lengths):
            mask = torch.arange(int(lengths.max()))[None] >= lengths[:, None]
            return (x @ x.transpose(1, 2)).masked_fill(mask[:, None], -1e4).softmax(-1) @ x

    x = torch.randn(1, 50, 16, generator=torch.Generator().manual_seed(0))
    sizes = {"x": {1: torch.export.Dim("T", min=16, max=200)}, "lengths": None}
    artifact = edgex.export_model(
        Masked(), (x, torch.tensor([50])), target="onednn", output=tmp_path, dynamic_shapes=sizes
    )
    assert artifact.manifest.verification["min_sqnr_db"] > 100
    assert artifact.manifest.delegation["delegated_ops"] > 0
