"""Stress inputs: seeded, of the example's shapes and ranges, and at the ends of every dynamic dimension."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from edgex.export.proof.stress import make_stress_inputs
from edgex.runtime.artifact.specs import Dim, TensorSpec
from edgex.runtime.execute.verification import lay_out

IMAGE = TensorSpec("x", "float32", (1, 3, 4, 5))
EXAMPLE = {"x": np.random.default_rng(0).random((1, 3, 4, 5)).astype(np.float32)}


def test_a_rank_four_float_input_gets_every_kind() -> None:
    names = [case.name for case in make_stress_inputs([IMAGE], EXAMPLE)]
    assert names == [
        "stress: large", "stress: large, negative", "stress: tiny", "stress: negative", "stress: zero", "stress: NaN",
        "stress: infinity", "stress: transposed memory", "stress: channels_last memory",
    ]  # fmt: skip


def test_the_cases_are_the_same_every_time() -> None:
    first, second = (make_stress_inputs([IMAGE], EXAMPLE) for _ in range(2))
    for one, two in zip(first, second, strict=True):
        np.testing.assert_array_equal(one.inputs["x"], two.inputs["x"])


def test_large_inputs_stay_within_half_precision() -> None:
    factors = {p: make_stress_inputs([IMAGE], EXAMPLE, p)[0].inputs["x"].max() / EXAMPLE["x"].max() for p in
               ("fp32", "fp16")}  # fmt: skip
    assert np.isclose(factors["fp32"], 16) and np.isclose(factors["fp16"], 4)


def test_special_values_are_strewn_and_no_case_for_integers() -> None:
    cases = {case.name: case for case in make_stress_inputs([IMAGE], EXAMPLE)}
    nan, infinity = cases["stress: NaN"].inputs["x"], cases["stress: infinity"].inputs["x"]
    assert np.isnan(nan).sum() == 6 and np.isfinite(nan).sum() == 54
    assert (infinity == np.inf).sum() == 3 and (infinity == -np.inf).sum() == 3
    assert cases["stress: NaN"].only_reported and not cases["stress: large, negative"].only_reported
    mask = np.array([[0, -np.inf]], np.float32)
    masked = make_stress_inputs([IMAGE, TensorSpec("mask", "float32", (1, 2))], {**EXAMPLE, "mask": mask})
    kept = [case for case in masked if "memory" not in case.name]
    assert len(kept) == 7 and all(np.array_equal(case.inputs["mask"], mask) for case in kept)
    names = [case.name for case in make_stress_inputs([IMAGE], EXAMPLE, quantized=True)]
    assert "stress: large, negative" in names and "stress: NaN" not in names


def test_integers_stay_within_the_examples_range() -> None:
    spec = TensorSpec("ids", "int64", (2, 50))
    example = {"ids": np.arange(7, 107).reshape(2, 50)}
    (case,) = [c for c in make_stress_inputs([spec], example) if "integers" in c.name]
    drawn = case.inputs["ids"]
    assert drawn.dtype == np.int64 and drawn.min() >= 7 and drawn.max() <= 106
    assert not np.array_equal(drawn, example["ids"])


def test_booleans_keep_their_share() -> None:
    spec = TensorSpec("mask", "bool", (40,))
    example = {"mask": np.arange(40) < 10}
    (case,) = make_stress_inputs([spec], example)
    assert case.inputs["mask"].sum() == 10 and not np.array_equal(case.inputs["mask"], example["mask"])


def test_dynamic_dimensions_are_tried_at_their_ends_and_outside() -> None:
    batch = Dim("batch", 1, 8)
    specs = [TensorSpec("x", "float32", (batch, 3)), TensorSpec("y", "float32", (batch, Dim("length", 0, 4)))]
    example = {"x": np.ones((2, 3), np.float32), "y": np.ones((2, 3), np.float32)}
    cases = {case.name: case for case in make_stress_inputs(specs, example)}
    assert cases["batch=8 (max)"].inputs["x"].shape == (8, 3)
    assert cases["batch=8 (max)"].inputs["y"].shape == (8, 3)
    assert cases["length=0 (min)"].inputs["y"].shape == (2, 0)
    assert cases["all dimensions at max"].inputs["y"].shape == (8, 4)
    assert cases["batch=0 (below min)"].must_be_refused and cases["batch=9 (above max)"].must_be_refused
    assert "length=-1 (below min)" not in cases


@settings(max_examples=50, deadline=None)
@given(hnp.arrays(np.float32, hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4),
                  elements=st.floats(-10, 10, width=32)))  # fmt: skip
def test_every_layout_keeps_the_values(array: np.ndarray) -> None:
    for layout in ("contiguous", "transposed", "channels_last"):
        np.testing.assert_array_equal(lay_out(array, layout), array)


def test_layouts_really_differ_in_memory() -> None:
    x = EXAMPLE["x"]
    assert not lay_out(x, "transposed").flags.c_contiguous
    assert lay_out(x, "channels_last").strides == (240, 4, 60, 12)
