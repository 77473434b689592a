"""Operators of real ExecuTorch runs, joined to modules and lines, quantized graphs among them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from pte_support import captured, write_manifest
from torch import nn

from edgex.delegates.xnnpack.delegate import XnnpackDelegate, XnnpackOptions
from edgex.export.rewrites.recurrences.layers import loop_recurrences
from edgex.runtime.engines.executorch.engine import ExecuTorchEngine
from edgex.runtime.engines.executorch.trace.etdump import TracedRun, TraceEvent
from edgex.runtime.engines.executorch.trace.handles import match_handles
from edgex.runtime.engines.executorch.trace.reader import read_trace
from edgex.runtime.engines.trace.operators import OperatorRow
from edgex.runtime.engines.trace.source_map import MappedOperator, make_source_map
from edgex.runtime.engines.trace.tracing import EngineTrace, compute_dtype, finish_rows, plan_trace, summarize_trace
from edgex.runtime.session.runner import EngineSettings

FILE = "runtime/engines/executorch/trace/test_executorch_trace.py"


class ConvNet(nn.Module):
    """Fused activations, a 1 x 1 convolution that runs as a product, and an operator that XNNPACK does not take."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.deep = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.point = nn.Conv2d(16, 32, 1)
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        x = x + nn.functional.relu6(self.deep(x))
        x = nn.functional.hardswish(self.point(x))
        x = nn.functional.adaptive_avg_pool2d(x, 1).flatten(1)
        return self.head(torch.cumsum(x, 1))


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(64, 128)
        self.two = nn.Linear(128, 32)

    def forward(self, x):
        return self.two(torch.relu(self.one(x)))


def quantize(model: nn.Module, args: tuple[torch.Tensor, ...], *, dynamic: bool) -> nn.Module:
    """int8 by torchao's PT2E flow with XNNPACK's own quantizer."""
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    config = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=dynamic)
    prepared = prepare_pt2e(torch.export.export(model.eval(), args).module(), XNNPACKQuantizer().set_global(config))
    prepared(*args)
    converted: nn.Module = convert_pt2e(prepared)
    return converted


class _NoEval:
    """A converted graph refuses `eval`, and needs none."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def eval(self) -> nn.Module:
        return self.module


def trace(module, *args, folder: Path, dynamic_shapes=None, shapes=None) -> EngineTrace:
    """Lower, write with its source map, and run traced; `shapes` other than the example's."""
    program = captured(module, *args, dynamic_shapes=dynamic_shapes)
    return trace_program(program, *args, folder=folder, shapes=shapes)


def trace_program(program, *args, folder: Path, shapes=None) -> EngineTrace:
    lowered = XnnpackDelegate().lower(program, XnnpackOptions())
    folder.mkdir(parents=True)
    lowered.write(folder)
    (folder / "debug").mkdir()
    (folder / "debug" / "source_map.json").write_text(json.dumps(lowered.debug))
    with_map = dataclasses.replace(lowered, files=(*lowered.files, "debug/source_map.json"))
    artifact = write_manifest(folder, with_map)
    generator = np.random.default_rng(0)
    sizes = shapes or {spec.name: arg.shape for spec, arg in zip(program.inputs, args, strict=True)}
    inputs = [generator.normal(size=sizes[spec.name]).astype(np.float32) for spec in program.inputs]
    return ExecuTorchEngine().trace(artifact, EngineSettings(1), plan_trace([inputs], sizes, 0.1))


def rows_of(found: EngineTrace, kind: str) -> list[OperatorRow]:
    return [row for row in found.rows if row.op_type.startswith(kind)]


def operators(row: OperatorRow) -> set[str]:
    return {name.split(".")[1] for name in row.operators}


@pytest.fixture(scope="module")
def fp32(tmp_path_factory):
    return trace(ConvNet(), torch.randn(1, 3, 24, 24), folder=tmp_path_factory.mktemp("trace") / "net.xnnpack.edgex")


def test_operators_inside_the_delegate_lead_to_modules_and_lines(fp32):
    first, deep = rows_of(fp32, "Convolution")
    (point, head) = rows_of(fp32, "Fully Connected")
    assert [row.module_path for row in (first, deep, point, head)] == ["first", "deep", "point", "head"]
    assert operators(first) == {"convolution", "_native_batch_norm_legit_no_training", "relu"}
    assert set(first.module_paths) == {"first", "norm", ""}
    assert operators(deep) == {"convolution", "hardtanh"}
    assert all(row.source.startswith(f"{FILE}:") for row in (first, deep, point, head))
    assert first.source != deep.source != point.source
    assert all(row.map_confidence in ("exact", "aligned") for row in (first, deep, point, head))


def test_flops_and_bytes_are_those_of_what_ran(fp32):
    first, deep = rows_of(fp32, "Convolution")
    assert first.flops == 2 * 16 * 24 * 24 * 27
    assert deep.flops == 2 * 16 * 24 * 24 * 9
    assert deep.bytes == 4 * (2 * 16 * 24 * 24 + 16 * 9 + 16)
    (added,) = rows_of(fp32, "Add")
    assert [tensor.shape for tensor in added.inputs] == [(1, 16, 24, 24)] * 2


def test_kernels_outside_are_known_exactly(fp32):
    (cumsum,) = rows_of(fp32, "aten.cumsum")
    assert (cumsum.name, cumsum.delegate, cumsum.map_confidence) == ("cumsum.out", None, "exact")
    assert cumsum.operators == ("aten.cumsum.default",) and cumsum.module_path == ""


def test_inserted_transposes_are_layout_and_stand_beside_their_operator(fp32):
    transposes = rows_of(fp32, "Transpose")
    assert transposes and {row.category for row in transposes} == {"layout"}
    assert transposes[0].module_path == "first" and transposes[0].operators == ()


def test_shares_add_up_and_the_rest_is_overhead(fp32):
    rows = finish_rows(fp32, None)
    summary = summarize_trace(fp32, rows, fp32.execute_seconds)
    assert sum(row.share for row in rows if row.share is not None) == pytest.approx(1.0)
    assert len({row.name for row in rows}) == len(rows)
    assert {row.category for row in rows} >= {"compute", "layout", "overhead"}
    assert 0.0 < summary.coverage < 1.0 and summary.module_share >= 0.95 and summary.source_share >= 0.9
    assert summary.overhead_ratio == 1.0 and fp32.runs >= 5


def test_the_arena_is_told_in_terms_of_rows(fp32):
    assert fp32.arena
    for span in fp32.arena:
        assert 0 <= span.first_op <= span.last_op < len(fp32.rows) and span.bytes > 0 <= span.offset_bytes
    assert any(span.first_op < span.last_op for span in fp32.arena)


def test_a_static_int8_graph_is_aligned_although_the_counts_differ(tmp_path):
    x = torch.randn(1, 3, 24, 24)
    found = trace(_NoEval(quantize(ConvNet(), (x,), dynamic=False)), x, folder=tmp_path / "a.edgex")
    first, deep = rows_of(found, "Convolution")
    assert (first.module_path, deep.module_path) == ("first", "deep")
    assert "relu" in operators(first) and "hardtanh" in operators(deep)
    # What lies in memory is int8.
    assert [tensor.dtype for tensor in first.inputs if tensor.shape == (1, 3, 24, 24)] == ["int8"]
    assert {tensor.dtype for tensor in first.outputs} == {"int8"} and compute_dtype(first) == "int8"
    assert {row.category for row in rows_of(found, "Convert")} == {"cast"}
    assert [row.module_path for row in rows_of(found, "Fully Connected")] == ["point", "head"]


def test_a_dynamic_int8_graph_folds_its_conversions(tmp_path):
    x = torch.randn(1, 64)
    found = trace(_NoEval(quantize(Mlp(), (x,), dynamic=True)), x, folder=tmp_path / "a.edgex")
    one, two = rows_of(found, "Fully Connected")
    assert (one.module_path, two.module_path) == ("one", "two")
    assert {"linear", "relu", "quantize_per_tensor", "choose_qparams"} <= operators(one)
    assert one.flops == 2 * 64 * 128
    assert {one.map_confidence, two.map_confidence} <= {"exact", "aligned"}


def test_dynamic_sizes_are_those_of_the_run(tmp_path):
    batch = torch.export.Dim("batch", min=1, max=16)
    found = trace(
        Mlp(), torch.randn(3, 64), folder=tmp_path / "a.edgex", dynamic_shapes={"x": {0: batch}}, shapes={"x": (11, 64)}
    )
    one, _ = rows_of(found, "Fully Connected")
    assert one.flops == 2 * 11 * 64 * 128
    assert one.inputs[0].shape == (11, 64) and one.outputs[0].shape == (11, 128)


# ---- traces made by hand


def run(*events: tuple[str, int, int], inside: str = "", metadata: tuple[bytes, ...] = ()) -> TracedRun:
    """A run of (name, instruction, nanoseconds); names with `inside` in them are a delegate's."""
    attached = iter(metadata)
    made = []
    for name, instruction, _ in events:
        in_delegate = bool(inside) and inside in name
        made.append(TraceEvent(name, instruction, in_delegate, next(attached, b"") if in_delegate else b""))
    return TracedRun(tuple(made), np.array([nanoseconds for _, _, nanoseconds in events]))


def test_a_loop_sums_its_runs_and_counts_them():
    body = [("native_call_add.out", 1, 40), ("OPERATOR_CALL", 1, 50)]
    found = read_trace([run(*body, *body, ("Method::execute", -1, 200))] * 3, make_source_map({}, {}))
    add, overhead = found.rows
    assert (add.name, add.count, add.median_seconds, add.map_confidence) == ("add.out", 2, pytest.approx(8e-8), "none")
    assert overhead.median_seconds == pytest.approx(1.2e-7)
    assert found.coverage == pytest.approx(0.4)


def test_a_delegate_that_reports_nothing_is_one_row():
    document = {
        "ops": [
            {"id": name, "op": f"aten.{name}.default", "module": name, "source": "n.py:1", "delegate": 0, "handle": 1}
            for name in ("conv", "relu")
        ],
        "delegates": [{"id": 0, "backend": "SomeBackend", "instruction": 4, "handles": [1]}],
    }
    found = read_trace([run(("DELEGATE_CALL", 4, 900), ("Method::execute", -1, 1000))], make_source_map(document, {}))
    whole = found.rows[0]
    assert (whole.name, whole.delegate, whole.map_confidence) == ("SomeBackend 0", "SomeBackend", "delegate")
    assert whole.module_paths == ("conv", "relu")
    assert found.coverage == pytest.approx(0.9)


def test_all_steps_of_a_loop_are_one_operator(tmp_path):
    class Steps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.GRU(32, 64, batch_first=True)

        def forward(self, x):
            return self.layer(x)[0]

    captured_program = captured(Steps(), torch.randn(1, 40, 32))
    program, _ = loop_recurrences(captured_program)
    found = trace_program(program, torch.randn(1, 40, 32), folder=tmp_path / "loop")
    (loop,) = rows_of(found, "edgex") or [row for row in found.rows if "edgex.recurrent_steps.default" in row.operators]
    assert (loop.count, loop.map_confidence, loop.category) == (1, "exact", "compute")
    assert loop.module_path == "layer" and loop.source is not None
    assert loop.flops == 2 * 40 * 3 * 64 * 64
    around = [row for row in found.rows if row.name in ("copy_", "select_copy.int_out")]
    assert around and all(row.category == "overhead" for row in around)


def operator(name: str, handle: int, op: str, module: str = "m", source: str = "n.py:1") -> MappedOperator:
    return MappedOperator(name, f"aten.{op}.default", handle, module, source, 0, (), (), None)


def event(name: str, handles: bytes) -> TraceEvent:
    return TraceEvent(name, 0, True, handles)


def test_handles_lead_to_fused_operators():
    region = [operator("c", 1, "conv"), operator("r", 2, "relu"), operator("d", 3, "conv")]
    found = match_handles([event("conv+relu", b"1,2\0"), event("conv", b"3\0")], region)
    assert [one.names for one in found] == [("c", "r"), ("d",)]
    assert [one.confidence for one in found] == ["exact", "exact"]


def test_conversions_belong_to_what_they_are_for():
    """Of two readers each dequantizes what it reads; weights by channel are never reported."""

    def converts(name: str, handle: int, op: str, read: str) -> MappedOperator:
        return MappedOperator(name, f"quantized_decomposed.{op}", handle, "m", "n.py:1", 0, (read,), (name,), None)

    def layer(name: str, handle: int, *read: str) -> MappedOperator:
        return MappedOperator(name, "aten.linear.default", handle, "m", "n.py:2", 0, read, (name,), 8)

    region = [
        converts("q", 1, "quantize_per_tensor.default", "x"),
        converts("d", 1, "dequantize_per_tensor.default", "q"),
        converts("w", 2, "dequantize_per_channel.default", "p_weight"),
        layer("a", 3, "d", "w"),
        converts("qa", 4, "quantize_per_tensor.default", "a"),
        converts("da", 4, "dequantize_per_tensor.default", "qa"),
        layer("b", 5, "da", "p_one"),
        layer("c", 6, "da", "p_two"),
    ]
    alone, first, *readers = match_handles(
        [
            event("quantize", b"1\0"),
            event("dequantize+linear+quantize", b"1,3,4\0"),
            event("dequantize+linear", b"4,5\0"),
            event("dequantize+linear", b"4,6\0"),
        ],
        region,
    )
    assert alone.names == ("q",) and alone.own_work
    assert (first.names, first.own_work) == (("a", "d", "qa", "w"), True)
    assert [(one.names, one.own_work) for one in readers] == [(("b",), True), (("c",), True)]


def test_steps_of_one_operator_are_counted_off():
    region = [operator(f"step{i}", 7, "linear", source=f"n.py:{i}") for i in range(3)]
    found = match_handles([event("linear", b"7\0")] * 3, region)
    assert [one.names for one in found] == [("step0",), ("step1",), ("step2",)]
    assert {one.confidence for one in found} == {"aligned"}


def test_copies_are_the_cost_of_the_operator_that_needs_them():
    region = [operator("p", 5, "permute"), operator("c", 6, "conv"), *(operator(f"s{i}", 7, "view") for i in range(2))]
    alone, fused, integers = match_handles(
        [event("copy", b"5\0"), event("conv+copy", b"6,5\0"), event("copy+copy+copy", b"7,7,7\0")], region
    )
    assert (alone.names, alone.confidence, alone.inserted, alone.own_work) == (("p",), "exact", True, False)
    assert (fused.names, fused.inserted, fused.own_work) == (("c",), False, True)
    assert (integers.names, integers.inserted) == (("s0", "s1"), True)


def test_copies_for_nobody_or_for_several_lines_stay_without_a_line():
    elsewhere = [operator(f"step{i}", 7, "view", source=f"n.py:{i}") for i in range(2)]
    for handles in (b"0\0", b"7\0"):
        (found,) = match_handles([event("copy", handles)], elsewhere)
        assert found.names == () and found.confidence == "none" and found.inserted


def test_steps_that_cannot_be_told_apart_are_not():
    elsewhere = [operator(f"step{i}", 7, "linear", source=f"n.py:{i}") for i in range(3)]
    assert [one.names for one in match_handles([event("linear", b"7\0")] * 2, elsewhere)] == [(), ()]
    # Where they come from is known all the same if it is one place; what they compute is not.
    same_place = [operator(f"step{i}", 7, "linear") for i in range(3)]
    for one in match_handles([event("linear", b"7\0")] * 2, same_place):
        assert one.confidence == "exact" and len(one.names) == 3 and not one.own_work
