"""What an artifact says for the profiler: quoted sources, weights, sizes as expressions. And nothing of the machine."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
import torch
from torch import nn

from edgex.delegates.graph.provenance import module_path_of
from edgex.delegates.graph.values import read_graph_values
from edgex.export.capture.program import capture
from edgex.export.packaging.debug_files import list_weights, quote_sources
from edgex.runtime.engines.trace.sizes import evaluate_size
from edgex.runtime.engines.trace.source_map import make_source_map

SOURCE = textwrap.dedent(
    """\
    import torch

    scale = 2.0


    class Net:
        def forward(self, x):
            def inner(y):
                return y + 1

            return inner(x) * scale

        @torch.no_grad()
        def other(self, x):
            return x
    """
)


def test_the_functions_around_the_lines_are_quoted(tmp_path):
    (tmp_path / "net.py").write_text(SOURCE)
    lines = SOURCE.splitlines()
    quoted = quote_sources(["net.py:9", "net.py:11", "net.py:3", None, "nowhere.py:1", "net.py:900"], tmp_path)
    assert quoted == [
        {"file": "net.py", "first_line": 3, "lines": lines[2:3]},
        {"file": "net.py", "first_line": 7, "lines": lines[6:11]},
    ]
    (decorated,) = quote_sources(["net.py:15"], tmp_path)
    assert decorated["first_line"] == 13 and decorated["lines"] == lines[12:15]


@pytest.mark.parametrize("content", [b"\xff\xfe not text", b"def broken(:\n"])
def test_files_that_are_no_python_are_not_quoted(tmp_path, content):
    (tmp_path / "net.py").write_bytes(content)
    assert quote_sources(["net.py:1"], tmp_path) == []


def test_only_files_below_the_folder_are_quoted(tmp_path):
    """Installed files are named relative to where they are installed: a name alone leads nowhere."""
    assert quote_sources(["transformers/models/bert.py:1", "../secret.py:1"], tmp_path) == []


class Tied(nn.Module):
    """A weight used twice, one that nothing uses, state, and sizes that depend on both inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(4, 4)
        self.unused = nn.Linear(3, 3)
        self.register_buffer("count", torch.zeros(2))
        self.register_buffer("table", torch.ones(4, dtype=torch.int64))

    def forward(self, x, y):
        self.count.add_(1.0)
        z = self.one(self.one(x)) * self.table
        return torch.cat([z, y]).reshape(-1), z @ self.one.weight


@pytest.fixture(scope="module")
def program():
    rows, more = torch.export.Dim("rows", min=2, max=64), torch.export.Dim("more", min=2, max=64)
    shapes = {"x": {0: rows}, "y": {0: more}}
    return capture(
        Tied(), (torch.rand(5, 4), torch.rand(7, 4)), None, shapes, source_root=Path(__file__).parent
    ).program


def test_weights_are_listed_once_and_state_is_not_one(program):
    rows = {row["name"]: row for row in list_weights(program)}
    assert set(rows) == {"one.weight", "one.bias", "table"}
    assert rows["one.weight"] == {
        "name": "one.weight", "module": "one", "dtype": "float32", "shape": [4, 4], "bytes": 64
    }  # fmt: skip
    assert (rows["table"]["module"], rows["table"]["bytes"]) == ("", 32)


def test_sizes_and_work_follow_the_inputs(program):
    flow = read_graph_values(program.exported, ["x", "y"])
    assert sorted(flow.symbols) == ["n0", "n1"]
    assert {place["input"] for place in flow.symbols.values()} == {"x", "y"}
    nodes = [(name, node) for name, node in flow.nodes.items() if name.startswith("linear")]
    ops = [
        {"id": name, "op": "aten.linear.default", "module": "one", "source": None,
         "inputs": list(node.inputs), "outputs": list(node.outputs), "flops": node.flops}
        for name, node in nodes
    ]  # fmt: skip
    sources = make_source_map({"ops": ops, **flow.to_json()}, {"x": (9, 4), "y": (3, 4)})
    group = sources.group([nodes[0][0]])
    assert group.flops == 2 * 9 * 4 * 4
    assert [tensor.shape for tensor in group.outputs] == [(9, 4)]
    (flat,) = [flow.values[name] for name in flow.results if len(flow.values[name]["shape"]) == 1]
    assert evaluate_size(flat["shape"][0], {"n0": 9, "n1": 3}) == 4 * 12


def test_the_description_is_the_same_each_time(program):
    again = capture(
        Tied(), (torch.rand(5, 4), torch.rand(7, 4)), None,
        {"x": {0: torch.export.Dim("rows", min=2, max=64)}, "y": {0: torch.export.Dim("more", min=2, max=64)}},
        source_root=Path(__file__).parent,
    ).program  # fmt: skip
    first, second = (read_graph_values(one.exported, ["x", "y"]).to_json() for one in (program, again))
    assert first == second


def test_nodes_that_no_module_ran_have_no_module():
    node = torch.fx.Graph().placeholder("x")
    name = "_empty_nn_module_stack_from_metadata_hook"
    node.meta["nn_module_stack"] = {name: (name, name)}
    assert module_path_of(node) is None
