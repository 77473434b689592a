"""Operators of ONNX Runtime: real profiles of hand-made graphs, whose nodes it fuses, renames and adds to."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from manifest_support import NO_DELEGATION

from edgex.errors import RunError
from edgex.runtime.artifact.artifact import hash_file, open_artifact
from edgex.runtime.artifact.manifest import FileEntry, Manifest, Method, Requirements
from edgex.runtime.artifact.specs import TensorSpec
from edgex.runtime.engines.onnxruntime.engine import OnnxRuntimeEngine
from edgex.runtime.engines.onnxruntime.nodes import read_onnx_nodes, write_product
from edgex.runtime.engines.onnxruntime.trace import read_profile, read_runs
from edgex.runtime.engines.trace.source_map import make_source_map
from edgex.runtime.engines.trace.tracing import plan_trace
from edgex.runtime.session.runner import EngineSettings

SHAPE = (1, 3, 16, 16)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    """conv -> relu -> conv -> mean -> Gemm with constants, and the source map that an export would give."""
    from onnx import helper

    generator = np.random.default_rng(0)
    weights = {
        "w1": generator.normal(size=(16, 3, 3, 3)),
        "w2": generator.normal(size=(16, 16, 3, 3)),
        "w3": generator.normal(size=(16, 5)),
        "b3": generator.normal(size=(5,)),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["conv1"], "node_conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv1"], ["relu"], "node_relu"),
        helper.make_node("Conv", ["relu", "w2"], ["conv2"], "node_conv2", pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["conv2"], ["pool"], "node_pool"),
        helper.make_node("Flatten", ["pool"], ["flat"], "node_flatten"),
        helper.make_node("Gemm", ["flat", "w3", "b3"], ["y"], "node_linear"),
    ]
    kinds = zip(["conv2d", "relu", "conv2d", "mean", "flatten", "linear"], ["a", "", "b", "", "", "fc"], strict=True)
    return make_artifact(tmp_path_factory.mktemp("onnx"), nodes, list(kinds), weights, SHAPE, (1, 5))


def make_artifact(folder: Path, nodes, kinds, weights, taken, given):
    """An artifact of nodes from `x` to `y`; `kinds` are their ATen operators and modules, on lines 0, 1, 2…"""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    folder = folder / "net.onnx-cpu.edgex"
    (folder / "debug").mkdir(parents=True)
    signature = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, taken),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, given),
    ]
    constants = [
        numpy_helper.from_array(value.astype(np.float32 if value.dtype.kind == "f" else value.dtype), name)
        for name, value in weights.items()
    ]
    graph = helper.make_graph(nodes, "net", signature[:1], signature[1:], constants)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), folder / "model.onnx"
    )
    ops = [
        {
            "id": node.name,
            "op": f"aten.{kind}.default",
            "module": module,
            "source": f"net.py:{line}",
            "inputs": list(node.input),
            "outputs": list(node.output),
        }
        for line, (node, (kind, module)) in enumerate(zip(nodes, kinds, strict=True))
    ]
    document = {
        "format": "edgex.source_map/1",
        "ops": ops,
        "values": {name: {"dtype": "float32", "shape": list(value.shape)} for name, value in weights.items()},
        "constants": list(weights),
        "results": ["y"],
    }
    (folder / "debug" / "source_map.json").write_text(json.dumps(document))
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    manifest = Manifest(
        name="net",
        target="onnx-cpu",
        engine="onnxruntime",
        precision="fp32",
        methods=(Method("forward", (TensorSpec("x", "float32", taken),), (TensorSpec("y", "float32", given),), ()),),
        files=tuple(FileEntry(p.relative_to(folder).as_posix(), p.stat().st_size, hash_file(p)) for p in files),
        producer={"edgex": "0"},
        delegation=NO_DELEGATION,
        requirements=Requirements("onnxruntime"),
    )
    (folder / "manifest.json").write_text(manifest.dumps())
    return open_artifact(folder)


def trace(artifact, **options):
    shape = artifact.manifest.method.inputs[0].shape
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    plan = plan_trace([[x]], {"x": shape}, 0.1)
    return OnnxRuntimeEngine().trace(artifact, EngineSettings(1, options), plan)


@pytest.fixture(scope="module")
def traced(artifact):
    return trace(artifact)


def test_every_exported_operator_is_found_in_what_ran(traced):
    """Whatever this version fuses: each operator is in exactly one row, but for those beside which a reorder stands."""
    work = [row for row in traced.rows if row.category == "compute"]
    named = sorted(operator for row in work for operator in row.operators)
    assert named == sorted(f"aten.{kind}.default" for kind in ("conv2d", "relu", "conv2d", "mean", "flatten", "linear"))
    assert {row.map_confidence for row in work} == {"exact"}
    assert traced.runs >= 5 and traced.resolution_seconds == 1e-6


def test_fused_and_renamed_nodes_name_the_main_operator_first(traced):
    first, second = [row for row in traced.rows if row.op_type in ("Conv", "FusedConv")]
    assert first.operators == ("aten.conv2d.default", "aten.relu.default")
    assert (first.module_path, first.module_paths, first.source) == ("a", ("a", ""), "net.py:0")
    assert second.module_path == "b"
    assert first.flops == 2 * 16 * 16 * 16 * 27
    assert second.flops == 2 * 16 * 16 * 16 * 144


def test_weights_that_were_repacked_are_counted(traced):
    (linear,) = [row for row in traced.rows if row.op_type == "Gemm"]
    assert linear.flops == 2 * 16 * 5
    assert linear.bytes == 4 * (16 + 16 * 5 + 5 + 5)


def test_what_was_put_in_is_layout_and_time_between_operators_is_overhead(traced):
    layout = [row for row in traced.rows if row.op_type.startswith("Reorder")]
    assert all(row.category == "layout" and row.map_confidence == "aligned" and not row.operators for row in layout)
    assert traced.rows[-1].category == "overhead"
    assert sum(row.median_seconds or 0.0 for row in traced.rows) <= 1.5 * traced.execute_seconds + 10e-6


@pytest.fixture(scope="module")
def vision_transformer(tmp_path_factory):
    """A step of a vision transformer: conv, its pixels as tokens, two linear layers, back to an image, conv."""
    from onnx import helper

    generator = np.random.default_rng(0)
    weights = {
        "w1": generator.normal(size=(16, 3, 3, 3)),
        "tokens": np.array([1, 16, 64]),
        "w2": generator.normal(size=(16, 32)),
        "b2": generator.normal(size=(32,)),
        "w3": generator.normal(size=(32, 16)),
        "b3": generator.normal(size=(16,)),
        "image": np.array([1, 16, 8, 8]),
        "w4": generator.normal(size=(16, 16, 3, 3)),
    }
    steps = [
        ("Conv", ["x", "w1"], "conv2d", "conv1", {"pads": [1, 1, 1, 1]}),
        ("Reshape", ["v0", "tokens"], "view", "", {}),
        ("Transpose", ["v1"], "permute", "", {"perm": [0, 2, 1]}),
        ("MatMul", ["v2", "w2"], "linear", "fc1", {}),
        ("Add", ["v3", "b2"], "linear", "fc1", {}),
        ("Erf", ["v4"], "erf", "", {}),
        ("MatMul", ["v5", "w3"], "linear", "fc2", {}),
        ("Add", ["v6", "b3"], "linear", "fc2", {}),
        ("Transpose", ["v7"], "permute", "", {"perm": [0, 2, 1]}),
        ("Reshape", ["v8", "image"], "view", "", {}),
        ("Conv", ["v9", "w4"], "conv2d", "conv2", {"pads": [1, 1, 1, 1]}),
    ]
    nodes = [
        helper.make_node(kind, inputs, [f"v{at}" if at < len(steps) - 1 else "y"], f"node_{at}", **attributes)
        for at, (kind, inputs, _, _, attributes) in enumerate(steps)
    ]
    kinds = [(aten, module) for _, _, aten, module, _ in steps]
    return make_artifact(tmp_path_factory.mktemp("vit"), nodes, kinds, weights, (1, 3, 8, 8), (1, 16, 8, 8))


def test_what_was_put_in_has_the_line_of_the_operator_that_it_serves(vision_transformer):
    traced = trace(vision_transformer)
    work = [row for row in traced.rows if row.category != "overhead"]
    assert not [row.name for row in work if row.source is None]
    products = [row for row in work if row.op_type == "Gemm"]
    assert [(row.module_path, set(row.operators), row.map_confidence) for row in products] == [
        ("fc1", {"aten.linear.default"}, "exact"), ("fc2", {"aten.linear.default"}, "exact")
    ]  # fmt: skip
    assert products[0].sources == ("net.py:4", "net.py:3"), "the reshape behind it was credited with the addition"
    put_in = [row for row in work if row.name.startswith("gemm_")]
    assert [row.module_path for row in put_in][:3] == ["fc1", "fc1", "fc2"], "this ONNX Runtime puts in other reshapes"
    for row in [*put_in, *(row for row in work if row.op_type.startswith("Reorder"))]:
        assert (row.category, row.operators, row.map_confidence) == ("layout", (), "aligned"), row.name
        assert row.module_path in ("conv1", "fc1", "fc2", "conv2"), row.name
    assert {row.category for row in work if row.name in ("node_1", "node_2")} == {"compute"}, (
        "the model's own movements"
    )


def test_an_unoptimized_graph_maps_one_to_one(artifact):
    rows = [row for row in trace(artifact, graph_optimization="off").rows if row.category == "compute"]
    assert [row.name for row in rows] == [
        "node_conv1", "node_relu", "node_conv2", "node_pool", "node_flatten", "node_linear"
    ]  # fmt: skip
    assert all(len(row.operators) == 1 and row.map_confidence == "exact" for row in rows)


def test_names_alone_lead_back_where_the_graph_is_not_known(artifact):
    document = json.loads((artifact.path / "debug" / "source_map.json").read_text())
    shapes = [{"float": [1, 16, 16, 16]}]
    events = [
        {"cat": "Node", "name": f"{name}_kernel_time", "dur": us, "ts": at,
         "args": {"op_name": op, "input_type_shape": shapes, "output_type_shape": shapes}}
        for at, (name, op, us) in enumerate([("relu_nchwc", "Conv", 9), ("ReorderOutput", "ReorderOutput", 2)])
    ]  # fmt: skip
    runs = read_runs([*events, {"cat": "Session", "name": "model_run", "dur": 20, "ts": 0}])
    conv, reorder, overhead = read_profile(runs, [], make_source_map(document, {})).rows
    assert conv.operators == ("aten.conv2d.default", "aten.relu.default") and conv.median_seconds == pytest.approx(9e-6)
    assert (reorder.category, reorder.map_confidence) == ("layout", "none")
    assert overhead.median_seconds == pytest.approx(9e-6)


def test_a_profile_without_runs_is_refused():
    with pytest.raises(RunError, match="no run"):
        read_profile([], [], make_source_map({}, {}))


def test_the_nodes_of_a_file_are_read_without_its_package(artifact):
    import onnx

    expected = onnx.load(artifact.path / "model.onnx").graph.node
    found = read_onnx_nodes(artifact.path / "model.onnx")
    assert [(n.name, n.op_type, list(n.inputs), list(n.outputs)) for n in found] == [
        (n.name, n.op_type, list(n.input), list(n.output)) for n in expected
    ]


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8"])
def test_the_product_that_calibrates_is_a_valid_model(dtype):
    import onnx
    import onnxruntime

    content = write_product(4, dtype)
    onnx.checker.check_model(onnx.load_from_string(content))
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    ones = np.ones((4, 4), dtype)
    assert (session.run(None, {"a": ones})[0] == 4).all()


def test_damaged_onnx_files_are_refused(artifact, tmp_path):
    whole = (artifact.path / "model.onnx").read_bytes()
    (tmp_path / "cut.onnx").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="reaches past"):
        read_onnx_nodes(tmp_path / "cut.onnx")
