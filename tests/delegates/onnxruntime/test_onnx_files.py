"""The files that onnx-cpu writes: the same bytes everywhere, no path of this machine, every node traced back."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import onnx_support
import pytest
import torch
from onnx_support import capture, lower, open_session, reinitialise, write_artifact
from torch import nn

from edgex.delegates.onnxruntime import kernels
from edgex.delegates.onnxruntime.graph import writer

MODEL = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 4)
        self.register_buffer("count", torch.tensor([5.0]))
        self.register_buffer("sums", torch.zeros(4))

    def forward(self, x):
        self.count += 1
        y = torch.relu(self.norm(self.conv(x)))
        y = self.head(y.mean((2, 3)))
        self.sums += y.sum(0)
        return y * self.count, self.sums.view(2, 2)
"""

SCRIPT = """\
import dataclasses, json, sys
from pathlib import Path
import torch
sys.path.insert(0, sys.argv[1])
from onnx_support import capture, lower, reinitialise
from net import Net

torch.manual_seed(0)
program = capture(reinitialise(Net()), (torch.ones(2, 3, 8, 8),))
lowered = lower(dataclasses.replace(program, source_root=Path.cwd()))
Path("out").mkdir()
lowered.write(Path("out"))
Path("out/debug.json").write_text(json.dumps(lowered.debug))

from quantized_support import Bytes, as_quantized, capture_quantized
for recipe in ("8da8w", "8da4w"):
    Path("out", recipe).mkdir()
    lower(as_quantized(program, recipe)).write(Path("out", recipe))
Path("out/int8").mkdir()
lower(capture_quantized(Bytes().eval(), (torch.ones(2, 3, 8, 8),))).write(Path("out/int8"))
"""


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One model, exported by two processes with other hash seeds in folders of other names."""
    folders = []
    for seed, name in enumerate(("short", "a folder with a longer name")):
        folder = tmp_path_factory.mktemp("export") / name
        folder.mkdir()
        (folder / "net.py").write_text(MODEL)
        (folder / "script.py").write_text(SCRIPT)
        result = subprocess.run(
            [sys.executable, "script.py", str(Path(onnx_support.__file__).parent)],
            cwd=folder,
            env={**os.environ, "PYTHONHASHSEED": str(seed + 1)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        folders.append(folder)
    return folders


def test_two_processes_in_two_folders_write_the_same_bytes(exports: list[Path]) -> None:
    digests = [
        {
            path.relative_to(folder / "out").as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted((folder / "out").rglob("*"))
            if path.is_file()
        }
        for folder in exports
    ]
    recipes = ("8da4w", "8da8w")
    quantized = [f"{recipe}/{name}" for recipe in recipes for name in ("model.onnx", "state.safetensors")]
    assert sorted(digests[0]) == sorted(
        ["debug.json", "model.onnx", "state.safetensors", "int8/model.onnx", *quantized]
    )
    assert digests[0] == digests[1]


def test_no_path_of_this_machine_is_in_any_file(exports: list[Path]) -> None:
    for path in (path for path in (exports[1] / "out").rglob("*") if path.is_file()):
        content = path.read_bytes()
        for trace in (str(exports[1]), "site-packages", "/torch/", '.py", line', str(Path.home())):
            assert trace.encode() not in content, f"{trace} in {path.name}"


def test_every_node_is_traced_to_module_and_line(exports: list[Path]) -> None:
    debug = json.loads((exports[0] / "out" / "debug.json").read_text())
    graph = onnx.load(exports[0] / "out" / "model.onnx").graph
    assert debug["format"] == "edgex.source_map/1"
    found = {entry["id"]: entry for entry in debug["ops"]}
    lines = MODEL.splitlines()
    expected = {"Conv": ("norm", "self.norm(self.conv(x))"), "Relu": ("", "relu"), "Gemm": ("head", "self.head(y")}
    for node in graph.node:
        if node.op_type in expected:
            module, text = expected[node.op_type]
            entry = found[node.name]
            assert entry["module"] == module
            file, number = entry["source"].split(":")
            assert file == "net.py"
            assert text in lines[int(number) - 1]
    assert {node.name for node in graph.node} - set(found) <= {n.name for n in graph.node if n.op_type == "Identity"}


def test_nodes_keep_the_module_path_that_viewers_show(exports: list[Path]) -> None:
    graph = onnx.load(exports[0] / "out" / "model.onnx").graph
    (gemm,) = [node for node in graph.node if node.op_type == "Gemm"]
    properties = {entry.key: entry.value for entry in gemm.metadata_props}
    assert list(properties) == ["namespace"]
    assert "head: torch.nn.modules.linear.Linear" in properties["namespace"]


def test_the_checker_accepts_the_model(exports: list[Path]) -> None:
    onnx.checker.check_model(str(exports[0] / "out" / "model.onnx"), full_check=True)


class Large(nn.Module):
    """Weights above and below the size from which they are written past the serializer; one is not contiguous."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Linear(64, 70), nn.Linear(70, 3)
        self.register_buffer("turned", torch.arange(64.0 * 64).reshape(64, 64).T / 1000)
        self.register_buffer("coarse", torch.ones(70, 70, dtype=torch.float16))
        self.register_buffer("picks", torch.arange(700) % 3)

    def forward(self, x):
        y = self.wide(x @ self.turned)
        return self.narrow(y @ self.coarse.float()), y[:, self.picks]


class TestWriter:
    def test_it_writes_what_the_serializer_would(self, tmp_path: Path) -> None:
        program = capture(reinitialise(Large()), (torch.randn(2, 64),))
        lowered = lower(program)
        lowered.write(tmp_path)
        written = [onnx.numpy_helper.to_array(t) for t in onnx.load(tmp_path / "model.onnx").graph.initializer]
        for name, tensor in program.exported.state_dict.items():
            expected = tensor.detach().numpy()
            same = [w for w in written if w.size == expected.size]
            assert any(np.array_equal(w.ravel(), expected.ravel()) for w in same), name
        onnx.checker.check_model(str(tmp_path / "model.onnx"), full_check=True)

    def test_it_can_write_twice(self, tmp_path: Path) -> None:
        lowered = lower(capture(reinitialise(Large()), (torch.randn(2, 64),)))
        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()
        lowered.write(tmp_path / "a")
        lowered.write(tmp_path / "b")
        assert (tmp_path / "a" / "model.onnx").read_bytes() == (tmp_path / "b" / "model.onnx").read_bytes()

    def test_very_large_weights_go_beside_the_model(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        module, x = reinitialise(Large()), torch.randn(2, 64)
        program = capture(module, (x,))
        monkeypatch.setattr(writer, "EXTERNAL_DATA_BYTES", 1000)
        lowered = lower(program)
        assert lowered.files == ("model.onnx", "model.onnx.data")
        folder = write_artifact(lowered, tmp_path / "a")
        assert (folder / "model.onnx.data").stat().st_size > 40_000
        moved = folder.rename(tmp_path / "moved")
        session = open_session(moved)
        with torch.no_grad():
            np.testing.assert_allclose(session.run(x)[0], module(x)[0].numpy(), rtol=1e-4)


class TestKernelProbe:
    def model(self, *nodes: onnx.NodeProto, dtype: int) -> onnx_ir.Model:
        values = [onnx.helper.make_tensor_value_info(name, dtype, ("n", "c", "w")) for name in "xw"]
        outputs = [onnx.helper.make_tensor_value_info(nodes[-1].output[0], dtype, None)]
        graph = onnx.helper.make_graph(list(nodes), "g", values, outputs)
        opsets = [onnx.helper.make_opsetid("", 20)]
        proto = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
        return onnx_ir.serde.deserialize_model(onnx.shape_inference.infer_shapes(proto))

    def test_equal_nodes_are_asked_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import onnxruntime

        nodes = [
            onnx.helper.make_node("Relu", ["x"], ["a"], name="one"),
            onnx.helper.make_node("Relu", ["a"], ["b"], name="two"),
            onnx.helper.make_node("Add", ["b", "b"], ["c"], name="three"),
        ]
        asked = []
        session = onnxruntime.InferenceSession
        monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *a, **k: (asked.append(1), session(*a, **k)))
        assert kernels.missing_kernels(self.model(*nodes, dtype=onnx.TensorProto.FLOAT)) == ()
        assert len(asked) == 2

    def test_no_kernel_and_no_such_dtype_are_told_apart(self) -> None:
        conv = onnx.helper.make_node("Conv", ["x", "w"], ["y"], name="conv")
        (double,) = kernels.missing_kernels(self.model(conv, dtype=onnx.TensorProto.DOUBLE))
        assert (double.node, double.code) == ("conv", "no_kernel")
        (integer,) = kernels.missing_kernels(self.model(conv, dtype=onnx.TensorProto.INT64))
        assert (integer.code, integer.reason) == ("dtype", "ONNX does not define Conv for inputs of type int64")
        assert kernels.missing_kernels(self.model(conv, dtype=onnx.TensorProto.FLOAT16)) == ()
