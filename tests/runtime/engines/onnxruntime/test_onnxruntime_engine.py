"""The onnxruntime engine on artifacts made by hand: no exporter and no torch."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from manifest_support import NO_DELEGATION
from onnx import TensorProto, helper
from pt2_support import rehash
from safetensors.numpy import save_file

import edgex
from edgex.errors import ArtifactError, RunError, TargetUnavailable
from edgex.runtime.artifact.artifact import hash_file, open_artifact
from edgex.runtime.artifact.manifest import FileEntry, Manifest, Method, Requirements
from edgex.runtime.artifact.specs import Dim, StateSpec, TensorSpec
from edgex.runtime.engines import package
from edgex.runtime.engines.onnxruntime.engine import OnnxRuntimeEngine
from edgex.runtime.session.runner import EngineSettings
from edgex.runtime.session.session import Session
from edgex.runtime.support.machine.threads import default_threads


def value(name: str, dtype: int, *shape: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def write(folder: Path, graph: onnx.GraphProto, method: Method, state: dict[str, np.ndarray] | None = None) -> Path:
    folder.mkdir()
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, folder / "model.onnx")
    if state is not None:
        save_file(state, folder / "state.safetensors")
    return write_manifest(folder, method)


def write_manifest(folder: Path, method: Method, minimum_version: str = "1.18") -> Path:
    names = sorted(path.name for path in folder.iterdir() if path.name != "manifest.json")
    files = tuple(FileEntry(name, (folder / name).stat().st_size, hash_file(folder / name)) for name in names)
    requirements = Requirements("onnxruntime", minimum_version)
    manifest = Manifest("tiny", "onnx-cpu", "onnxruntime", "fp32", (method,), files, {}, NO_DELEGATION, requirements)
    (folder / "manifest.json").write_text(manifest.dumps())
    return folder


def write_source_map(folder: Path, **operator: str) -> None:
    """Beside the artifact: which operator a node is."""
    entry = {"inputs": [], "outputs": [], **operator}
    (folder / "debug").mkdir()
    (folder / "debug" / "source_map.json").write_text(json.dumps({"ops": [entry]}))
    rehash(folder)


@pytest.fixture
def adder(tmp_path: Path) -> Path:
    """`total = x + y`, `wide = x > y`, with a dynamic first dimension."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "y.0"], ["total"]), helper.make_node("Greater", ["x", "y.0"], ["wide"])],
        "g",
        [value("x", TensorProto.FLOAT, "n", 3), value("y.0", TensorProto.FLOAT, "n", 3)],
        [value("total", TensorProto.FLOAT, "n", 3), value("wide", TensorProto.BOOL, "n", 3)],
    )
    n = Dim("n", 1, 8)
    inputs = TensorSpec("x", "float32", (n, 3)), TensorSpec("y.0", "float32", (n, 3))
    outputs = TensorSpec("total", "float32", (n, 3)), TensorSpec("wide", "bool", (n, 3))
    return write(tmp_path / "adder.onnx-cpu.edgex", graph, Method("forward", inputs, outputs))


COUNTER = Method(
    "forward",
    (TensorSpec("x", "float32", (2,)),),
    (TensorSpec("output_0", "float32", (2,)),),
    (
        StateSpec("fixed", "float32", (2,)),
        StateSpec("layers.0.count", "int64", (), "state_in.layers.0.count", "state_out.layers.0.count"),
        StateSpec("sum", "float32", (2,), "state_in.sum", "state_out.sum"),
    ),
)


@pytest.fixture
def counter(tmp_path: Path) -> Path:
    """`count += 1; sum += x; output_0 = sum * count`, from count 5 and sum 0."""
    one = helper.make_tensor("one", TensorProto.INT64, [], [1])
    graph = helper.make_graph(
        [
            helper.make_node("Add", ["state_in.layers.0.count", "one"], ["state_out.layers.0.count"]),
            helper.make_node("Add", ["state_in.sum", "x"], ["state_out.sum"]),
            helper.make_node("Cast", ["state_out.layers.0.count"], ["times"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["state_out.sum", "times"], ["output_0"]),
        ],
        "g",
        [
            value("x", TensorProto.FLOAT, 2),
            value("state_in.layers.0.count", TensorProto.INT64),
            value("state_in.sum", TensorProto.FLOAT, 2),
        ],
        [
            value("output_0", TensorProto.FLOAT, 2),
            value("state_out.layers.0.count", TensorProto.INT64),
            value("state_out.sum", TensorProto.FLOAT, 2),
        ],
        initializer=[one],
    )
    state = {"layers.0.count": np.array(5), "sum": np.zeros(2, np.float32)}
    return write(tmp_path / "counter.onnx-cpu.edgex", graph, COUNTER, state)


def load(folder: Path, threads: int | None = 1, **options: object) -> Session:
    return OnnxRuntimeEngine().open(open_artifact(folder), EngineSettings(threads, options))


def rows(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, 3), dtype=np.float32)


class TestRun:
    def test_it_runs_and_says_who_ran_it(self, adder: Path) -> None:
        with edgex.load(adder, threads=2) as session:
            for count in (1, 8, 3):
                x, y = rows(count), rows(count, seed=1)
                total, wide = session.run(x, y)
                np.testing.assert_array_equal(total, x + y)
                np.testing.assert_array_equal(wide, x > y)
            assert session.executed_on == "onnxruntime: CPUExecutionProvider"
            assert session.threads == 2

    def test_threads_default_to_what_every_engine_takes(self, adder: Path) -> None:
        assert load(adder, threads=None).threads == default_threads()

    def test_outputs_belong_to_the_caller(self, adder: Path) -> None:
        session = load(adder)
        x, y = rows(4), rows(4, seed=1)
        first, _ = session.run(x, y)
        kept = first.copy()
        session.run(y * 100, y)
        np.testing.assert_array_equal(first, kept)
        first.fill(7)
        np.testing.assert_array_equal(session.run(x, y)[0], kept)
        session.close()
        assert first.sum() == 7 * first.size

    def test_large_arrays_are_passed_uncopied(self, tmp_path: Path) -> None:
        size = 1 << 22
        graph = helper.make_graph(
            [helper.make_node("Neg", ["x"], ["y"])],
            "g",
            [value("x", TensorProto.FLOAT, size)],
            [value("y", TensorProto.FLOAT, size)],
        )
        method = Method("forward", (TensorSpec("x", "float32", (size,)),), (TensorSpec("y", "float32", (size,)),))
        session = load(write(tmp_path / "a.edgex", graph, method))
        (output,) = session.run(np.ones(size, np.float32))
        # ONNX Runtime's own memory, kept alive by a capsule: NumPy owns no copy.
        assert not output.flags.owndata
        assert "capsule" in repr(output.base)

    def test_nothing_is_written_to_the_terminal(self, adder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        load(adder).run(rows(2), rows(2))
        assert capfd.readouterr() == ("", "")

    def test_the_file_and_not_the_current_folder_says_where_weights_are(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        weights = helper.make_tensor("w", TensorProto.FLOAT, [64], np.arange(64, dtype=np.float32))
        graph = helper.make_graph(
            [helper.make_node("Add", ["x", "w"], ["y"])],
            "g",
            [value("x", TensorProto.FLOAT, 64)],
            [value("y", TensorProto.FLOAT, 64)],
            initializer=[weights],
        )
        folder = tmp_path / "a.edgex"
        folder.mkdir()
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        onnx.save(
            model, folder / "model.onnx", save_as_external_data=True, location="model.onnx.data", size_threshold=0
        )
        method = Method("forward", (TensorSpec("x", "float32", (64,)),), (TensorSpec("y", "float32", (64,)),))
        write_manifest(folder, method)
        monkeypatch.chdir(tmp_path)
        (output,) = load(Path("a.edgex")).run(np.ones(64, np.float32))
        np.testing.assert_array_equal(output, np.arange(64) + 1)


class TestState:
    def test_it_is_carried_and_reset(self, counter: Path) -> None:
        session, x = load(counter), np.array([1.0, -2.0], np.float32)
        for _ in range(2):
            for step in range(1, 4):
                (output,) = session.run(x)
                np.testing.assert_array_equal(output, x * step * (5 + step))
            session.reset()

    def test_each_session_has_its_own(self, counter: Path) -> None:
        first, second, x = load(counter), load(counter), np.ones(2, np.float32)
        assert [first.run(x)[0][0] for _ in range(3)] == [6, 14, 24]
        assert second.run(x)[0][0] == 6

    def test_a_run_that_fails_changes_nothing(self, counter: Path) -> None:
        session, x = load(counter), np.ones(2, np.float32)
        session.run(x)
        with pytest.raises(RunError):
            session.runner.execute([np.ones(3, np.float64)])
        assert session.run(x)[0][0] == 14

    @pytest.mark.parametrize(
        "state",
        [
            {"sum": np.zeros(2, np.float32)},
            {"layers.0.count": np.array(5), "sum": np.zeros(3, np.float32)},
            {"layers.0.count": np.array(5, np.int32), "sum": np.zeros(2, np.float32)},
        ],
    )
    def test_initial_values_that_do_not_fit_are_refused(self, counter: Path, state: dict[str, np.ndarray]) -> None:
        save_file(state, counter / "state.safetensors")
        write_manifest(counter, COUNTER)
        with pytest.raises(ArtifactError, match="does not hold"):
            load(counter)

    def test_a_damaged_state_file_is_refused(self, counter: Path) -> None:
        (counter / "state.safetensors").write_bytes(b"not safetensors")
        write_manifest(counter, COUNTER)
        with pytest.raises(ArtifactError, match="cannot be read"):
            load(counter)


class TestOptions:
    @pytest.mark.parametrize(
        "options",
        [{"graph_optimization": level} for level in ("all", "extended", "basic", "off")]
        + [{"allow_spinning": False}, {"allow_spinning": "true", "memory_arena": "false"}],
    )
    def test_known_ones_are_taken(self, adder: Path, options: dict[str, object]) -> None:
        x, y = rows(2), rows(2, seed=1)
        np.testing.assert_array_equal(load(adder, **options).run(x, y)[0], x + y)

    def test_an_unknown_one_is_refused_with_the_nearest(self, adder: Path) -> None:
        with pytest.raises(RunError, match="no option 'graph_optimisation'") as caught:
            load(adder, graph_optimisation="all")
        assert "did you mean 'graph_optimization'" in str(caught.value.why)

    @pytest.mark.parametrize("options", [{"graph_optimization": "fast"}, {"allow_spinning": "maybe"}])
    def test_an_unknown_value_is_refused(self, adder: Path, options: dict[str, object]) -> None:
        with pytest.raises(RunError, match="is unknown"):
            load(adder, **options)


class TestErrors:
    def test_a_file_that_is_no_model(self, adder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        method = open_artifact(adder).manifest.method
        (adder / "model.onnx").write_bytes((adder / "model.onnx").read_bytes()[:60])
        write_manifest(adder, method)
        with pytest.raises(ArtifactError, match=r"model.onnx is not an ONNX model") as caught:
            load(adder)
        assert "a field is longer than its message" in str(caught.value.why)
        assert caught.value.where == adder.name
        assert capfd.readouterr() == ("", "")

    def test_a_failing_run_gives_the_sentence_without_native_files(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        graph = helper.make_graph(
            [helper.make_node("Reshape", ["x", "shape"], ["y"], name="node_view")],
            "g",
            [value("x", TensorProto.FLOAT, "n"), value("shape", TensorProto.INT64, 2)],
            [value("y", TensorProto.FLOAT, "a", "b")],
        )
        inputs = TensorSpec("x", "float32", (Dim("n", 1, 9),)), TensorSpec("shape", "int64", (2,))
        method = Method("forward", inputs, (TensorSpec("y", "float32", (Dim("a", 1, 9), Dim("b", 1, 9))),))
        folder = write(tmp_path / "a.edgex", graph, method)
        session = load(folder)
        with pytest.raises(RunError, match="failed to run") as caught:
            session.run(np.ones(7, np.float32), np.array([3, 5]))
        why = str(caught.value.why)
        assert "node_view" in why
        assert caught.value.where == "a.edgex", "nothing says where the node is from"
        assert "Input shape:{7}, requested shape:{3,5}" in why
        for noise in ("onnxruntime_src", ".h:", ".cc:", "ONNXRuntimeError", "onnxruntime::"):
            assert noise not in why
        assert capfd.readouterr() == ("", "")
        write_source_map(folder, id="node_view", op="aten.view.default", module="head", source="net.py:12")
        with load(folder) as session, pytest.raises(RunError) as caught:
            session.run(np.ones(7, np.float32), np.array([3, 5]))
        assert caught.value.where == "net.py:12"
        assert str(caught.value.why) == f"{why} (node_view is aten.view.default in head)"

    def test_a_node_that_it_refuses_has_the_users_line(self, tmp_path: Path) -> None:
        erf = helper.make_node("Erf", ["x"], ["y"], name="node_erf")
        ends = [value("x", TensorProto.INT64, 3)], [value("y", TensorProto.INT64, 3)]
        method = Method("forward", (TensorSpec("x", "int64", (3,)),), (TensorSpec("y", "int64", (3,)),))
        folder = write(tmp_path / "a.edgex", helper.make_graph([erf], "g", *ends), method)
        write_source_map(folder, id="node_erf", op="aten.erf.default", module="", source="net.py:7")
        with pytest.raises(RunError, match="cannot load") as caught:
            load(folder)
        assert caught.value.where == "net.py:7"
        assert str(caught.value.why).endswith("(node_erf is aten.erf.default)")
        opened = open_artifact(folder)
        (folder / "debug" / "source_map.json").unlink()  # as on a device
        with pytest.raises(RunError, match="cannot load") as caught:
            OnnxRuntimeEngine().open(opened, EngineSettings())
        assert caught.value.where == "a.edgex"

    def test_a_graph_that_is_not_the_manifests(self, adder: Path) -> None:
        method = open_artifact(adder).manifest.method
        write_manifest(adder, dataclasses.replace(method, inputs=method.inputs[:1]))
        with pytest.raises(ArtifactError, match="does not have the inputs and outputs"):
            load(adder)

    def test_an_onnxruntime_that_is_too_old(self, adder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        method = open_artifact(adder).manifest.method
        write_manifest(adder, method, minimum_version="1.24")
        monkeypatch.setattr(package, "installed_version", lambda name: "1.9.3")
        with pytest.raises(TargetUnavailable, match=r"onnxruntime 1\.9\.3 is too old") as caught:
            load(adder)
        assert caught.value.fix == "pip install 'onnxruntime>=1.24'"

    def test_a_missing_onnxruntime(self, adder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(package, "installed_version", lambda name: None)
        engine = OnnxRuntimeEngine()
        assert engine.versions() == {}
        assert not engine.availability().available
        with pytest.raises(TargetUnavailable) as caught:
            engine.open(open_artifact(adder), EngineSettings())
        assert caught.value.fix == "pip install 'edgex-toolchain[run-onnx]'"


def test_running_imports_no_torch_and_sends_no_usage_data(adder: Path) -> None:
    code = f"""
import os, sys
import numpy, edgex
session = edgex.load({str(adder)!r}, threads=1)
session.run(numpy.ones((2, 3), "float32"), numpy.ones((2, 3), "float32"))
heavy = [name for name in ("torch", "onnx", "onnxscript", "edgex.export", "edgex.delegates") if name in sys.modules]
assert not heavy, heavy
assert os.environ["ORT_DISABLE_TELEMETRY"] == "1"
"""
    environment = {key: text for key, text in os.environ.items() if key != "ORT_DISABLE_TELEMETRY"}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""


def test_asking_whether_it_is_there_imports_nothing() -> None:
    code = """
import sys
from edgex.runtime.engines.onnxruntime.engine import OnnxRuntimeEngine
from edgex.delegates.onnxruntime.cpu import OnnxCpuDelegate
assert OnnxRuntimeEngine().availability().available and OnnxCpuDelegate().availability().available
assert OnnxRuntimeEngine().versions()["onnxruntime"]
heavy = [name for name in ("torch", "onnx", "onnxscript", "onnxruntime") if name in sys.modules]
assert not heavy, heavy
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
