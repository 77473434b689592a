"""What onnx-cpu cannot run is refused at once, all of it, with operator, line and reason."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from onnx_support import HERE, capture, lower
from torch import nn

from edgex.delegates.base import CapturedProgram
from edgex.delegates.onnxruntime.cpu import OnnxCpuDelegate, OnnxCpuOptions
from edgex.delegates.onnxruntime.graph import torch_registry
from edgex.delegates.plan import PartitionPlan
from edgex.errors import LoweringError

THIS = Path(__file__).name


def line_of(text: str) -> str:
    """`file:line` of the only line of this file that ends with a marker."""
    lines = Path(__file__).read_text().splitlines()
    (number,) = [index for index, line in enumerate(lines, 1) if line.endswith(f"# {text}")]
    return f"{THIS}:{number}"


def plan(program: CapturedProgram) -> PartitionPlan:
    return OnnxCpuDelegate().plan(program, OnnxCpuOptions())


def refused(program: CapturedProgram) -> LoweringError:
    with pytest.raises(LoweringError) as caught:
        lower(program)
    assert caught.value.exit_code == 5
    assert caught.value.fix is not None
    return caught.value


class Untranslatable(nn.Module):
    def forward(self, x):
        left = torch.linalg.svd(x)[0]  # svd
        middle = torch.special.bessel_j0(x) + torch.special.bessel_j0(x * 2)  # bessel
        return left, middle.relu(), torch.linalg.eig(x)[0].real  # eig


def test_every_operator_without_a_translation_is_named_at_once() -> None:
    program = capture(Untranslatable(), (torch.randn(4, 4),))
    planned = plan(program)
    assert [(f.op, f.count, f.code, f.source, f.fatal) for f in planned.fallbacks] == [
        ("aten._linalg_svd.default", 1, "not_in_delegate", line_of("svd"), True),
        ("prims.bessel_j0.default", 2, "not_in_delegate", line_of("bessel"), True),
        ("aten.linalg_eig.default", 1, "not_in_delegate", line_of("eig"), True),
    ]
    assert planned.delegated_ops == planned.total_ops - 4
    assert planned.delegate_calls == 0
    error = refused(program)
    for name, marker in (("_linalg_svd", "svd"), ("bessel_j0", "bessel"), ("linalg_eig", "eig")):
        assert name in error.what
        assert line_of(marker) in str(error.why)
    assert "(2 times)" in str(error.why)
    assert error.where == line_of("svd")


class Double(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.again = nn.Conv1d(2, 3, 3).double(), nn.Conv1d(3, 2, 3).double()

    def forward(self, x):
        x = self.conv(x.double())  # first
        return self.again(x).relu()  # second


def test_an_operator_without_a_kernel_for_its_dtype_is_found_without_loading() -> None:
    program = capture(Double(), (torch.randn(1, 2, 8),))
    planned = plan(program)
    assert [(f.op, f.code, f.source) for f in planned.fallbacks] == [
        ("aten.conv1d.default", "no_kernel", line_of("first")),
        ("aten.conv1d.default", "no_kernel", line_of("second")),
    ]
    assert "Conv with inputs of type double" in planned.fallbacks[0].reason
    assert planned.delegated_ops == planned.total_ops - 2
    error = refused(program)
    assert line_of("first") in str(error.why)
    assert line_of("second") in str(error.why)


def test_a_kernel_is_missed_inside_a_branch_too() -> None:
    class Branch(nn.Module):
        def forward(self, x):
            def conv(y):
                return nn.functional.conv1d(y, torch.ones(1, 1, 1, dtype=torch.float64))

            return torch.cond(x.sum() > 0, conv, lambda y: y * 2, (x,))  # branch

    fallbacks = plan(capture(Branch(), (torch.randn(1, 1, 4, dtype=torch.float64),))).fallbacks
    assert [(f.op, f.code, f.source) for f in fallbacks] == [("aten.conv1d.default", "no_kernel", line_of("branch"))]


def test_bfloat16_inside_the_graph_is_refused_by_dtype() -> None:
    class Half(nn.Module):
        def forward(self, x):
            return nn.functional.conv1d(x.bfloat16(), torch.ones(1, 2, 3, dtype=torch.bfloat16)).float()  # bf16

    (fallback,) = plan(capture(Half(), (torch.randn(1, 2, 8),))).fallbacks
    assert (fallback.op, fallback.source) == ("aten.conv1d.default", line_of("bf16"))
    assert fallback.code in ("dtype", "no_kernel")
    assert "bfloat16" in fallback.reason


def test_complex_numbers_do_not_cross_the_signature() -> None:
    class Spectrum(nn.Module):
        def forward(self, x):
            return torch.fft.fft(x)

    program = capture(Spectrum(), (torch.randn(2, 8),))
    assert ("output", "dtype") in [(f.op, f.code) for f in plan(program).fallbacks]
    assert "'output_0' is complex64" in str(refused(program).why)


def test_an_operator_used_in_a_way_that_does_not_translate() -> None:
    class Weighted(nn.Module):
        def forward(self, x, weights):
            return torch.bincount(x, weights, minlength=8)[:8]  # bincount

    program = capture(Weighted(), (torch.arange(6), torch.rand(6)))
    (fallback,) = plan(program).fallbacks
    assert (fallback.op, fallback.code, fallback.source) == (
        "aten.bincount.default",
        "attribute",
        line_of("bincount"),
    )
    assert "bincount with weights is not supported" in fallback.reason
    assert "bincount" in refused(program).what


def test_a_mutation_that_capture_did_not_list_is_not_dropped() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.tensor(5.0))

        def forward(self, x):
            self.count += 1
            return x * self.count

    program = dataclasses.replace(capture(Counter(), (torch.ones(2),)), state=())
    with pytest.raises(LoweringError, match="writes to count"):
        lower(program)


def test_precisions_outside_are_refused_with_what_to_use() -> None:
    delegate = OnnxCpuDelegate()
    assert delegate.precisions == ("fp32", "fp16")
    assert "bfloat16" in delegate.precision_refusal("bf16")
    assert "--precision fp16" in delegate.precision_refusal("bf16")


class TestTorchRegistry:
    """The adapter over torch's private exporter: these fail clearly when an upgrade moves it."""

    def test_what_it_imports_is_there(self) -> None:
        from torch.onnx._internal.exporter._core import _is_onnx_op, _prepare_exported_program_for_export
        from torch.onnx._internal.exporter._dispatching import dispatch
        from torch.onnx._internal.exporter._registration import ONNXRegistry

        assert all(map(callable, (_is_onnx_op, _prepare_exported_program_for_export, dispatch)))
        registry = ONNXRegistry.from_torchlib(opset_version=20)
        assert len(registry.functions) > 500
        assert registry.is_registered(torch.ops.aten.relu.default)

    def test_it_sees_the_graph_that_the_exporter_translates(self) -> None:
        exported = torch.export.export(nn.Sequential(nn.Linear(4, 3), nn.GELU()), (torch.randn(2, 4),))
        onnx_program = torch.onnx.export(exported, dynamo=True, verbose=False)
        found = torch_registry.diagnose(RuntimeError("first\nsecond"), exported, 20)
        assert found.untranslatable == ()
        assert found.failing is None
        assert found.cause == "RuntimeError: first"
        assert str(found.program.graph) == str(onnx_program.exported_program.graph)

    def test_what_has_a_translation_of_ours_is_not_in_the_way(self) -> None:
        class Values(nn.Module):
            def forward(self, x):
                return torch.linalg.svdvals(x)

        exported = torch.export.export(Values(), (torch.randn(3, 3),))
        [(node, _)] = torch_registry.diagnose(RuntimeError("first"), exported, 20).untranslatable
        assert torch_registry.diagnose(RuntimeError("first"), exported, 20, {node.target}).untranslatable == ()

    def test_it_finds_the_failing_operator_in_the_exporters_error(self) -> None:
        class Attention(nn.Module):
            def forward(self, x):
                return nn.functional.scaled_dot_product_attention(x, x, x)

        exported = torch.export.export(Attention(), (torch.randn(2, 5, 8),))
        with pytest.raises(torch.onnx.OnnxExporterError) as caught:
            torch.onnx.export(exported, dynamo=True, verbose=False)
        found = torch_registry.diagnose(caught.value, exported, 20)
        assert found.failing is not None
        assert str(found.failing.target) == "aten.scaled_dot_product_attention.default"
        assert "4D" in found.cause
        assert torch_registry.own_decomposition(found.failing) is not None


def test_the_source_root_is_the_users_folder() -> None:
    program = dataclasses.replace(capture(Double(), (torch.randn(1, 2, 8),)), source_root=HERE.parent)
    assert plan(program).fallbacks[0].source == f"delegates/onnxruntime/{line_of('first')}"
