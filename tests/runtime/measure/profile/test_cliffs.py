"""Operators far below what the machine can do are named, with the cause where it is known."""

from __future__ import annotations

import dataclasses

import pytest

from edgex.runtime.engines.onednn.kernel_log import ReferenceKernel, find_reference_kernels
from edgex.runtime.engines.trace.operators import OperatorRow
from edgex.runtime.measure.profile.cliffs import find_cliffs

LOG = """onednn_verbose,info,oneDNN v3.2.0 (commit 4011219)
onednn_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:ba::f0 dst_f32::blocked:BA16a64b::f0,,,64x192,2.6
onednn_verbose,exec,cpu,matmul,ref:any,undef,src_f32:a:blocked:abcd::f0,binary_add:f32:14:abcd ,,16x4,120.5
onednn_verbose,exec,cpu,matmul,ref:any,undef,src_f32:a:blocked:abcd::f0,binary_add:f32:14:abcd ,,16x4,123.5
onednn_verbose,v1,primitive,exec,cpu,binary,ref:any,undef,src_f32,attr,alg:binary_add,2x9x8:2x1x8,0.01
"""
ROW = OperatorRow(
    name="matmul+add",
    op_type="matmul+add",
    delegate="OneDnnGraphBackend",
    category="compute",
    count=1,
    median_seconds=900e-6,
    share=0.6,
    module_path="",
    module_paths=("",),
    source="net.py:7",
    sources=("net.py:7",),
    operators=("aten.matmul.default",),
    map_confidence="exact",
    roofline_fraction=0.01,
)


def none() -> tuple[ReferenceKernel, ...]:
    raise AssertionError("no run is worth it")


def test_reference_kernels_are_read_from_the_log() -> None:
    found = find_reference_kernels(LOG.splitlines())
    assert found == (ReferenceKernel("matmul", "16x4", 123.5), ReferenceKernel("binary", "2x9x8:2x1x8", 0.01))


def test_a_slow_region_is_named_with_its_reference_kernel() -> None:
    (warning,) = find_cliffs([ROW], lambda: find_reference_kernels(LOG.splitlines()))
    assert warning.code == "cliff"
    assert "net.py:7" in warning.text and "60 %" in warning.text and "1.0 %" in warning.text
    assert "matmul 16x4 with its reference kernel" in warning.text


def test_a_portable_kernel_is_named() -> None:
    row = dataclasses.replace(ROW, name="avg", op_type="aten.avg_pool2d.out", delegate=None)
    (warning,) = find_cliffs([row], none)
    assert "portable kernel" in warning.text


@pytest.mark.parametrize(
    "change", [{"share": 0.05}, {"roofline_fraction": 0.2}, {"roofline_fraction": None}, {"median_seconds": 3e-6}]
)
def test_what_is_fast_short_or_unknown_is_no_cliff(change: dict[str, float | None]) -> None:
    assert find_cliffs([dataclasses.replace(ROW, **change)], none) == ()
