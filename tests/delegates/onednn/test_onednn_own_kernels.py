"""The backend's own kernels, of every processor, against NumPy and PyTorch: all sizes, groups and leftovers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from onednn_own_kernels import (
    PROCESSORS,
    build_kernels,
    convolve,
    convolve_planes,
    mix,
    multiply,
    quantize_rows,
    score,
    transpose,
    widen,
)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    library = build_kernels(tmp_path_factory.mktemp("kernels"))
    if library is None:
        pytest.skip("no g++")
    return library


def _rounded(x: np.ndarray) -> np.ndarray:
    """What torchao makes of activations, as numbers again."""
    import torchao.quantization.quant_primitives  # noqa: F401  # torch.ops.torchao

    ops, tensor, block = torch.ops.torchao, torch.from_numpy(x), [1, x.shape[1]]
    found = ops.choose_qparams_affine(tensor, "ASYMMETRIC", block, torch.int8, -128, 127, None, None, torch.int8)
    whole = ops.quantize_affine(tensor, block, *found, torch.int8, -128, 127)
    back: torch.Tensor = ops.dequantize_affine(whole, block, *found, torch.int8, -128, 127)
    return back.double().numpy()


def _close(expected: np.ndarray, found: np.ndarray, terms: np.ndarray) -> bool:
    """Apart by the rounding of sums of so large terms at most."""
    return bool((np.abs(expected - found) <= 3e-6 * terms + 1e-6).all())


@settings(max_examples=60, deadline=None)
@given(
    bits=st.sampled_from((4, 8)),
    rows=st.integers(1, 27),
    outputs=st.integers(1, 70),
    groups=st.integers(1, 4),
    group=st.sampled_from((16, 32, 64, 128)),
    less=st.integers(0, 3),
    biased=st.booleans(),
    seed=st.integers(0, 1 << 30),
)
def test_products_in_few_bits(kernels, bits, rows, outputs, groups, group, less, biased, seed):
    generator = torch.Generator().manual_seed(seed)
    # Of 8-bit weights, a layer with one scale an output has any number of inputs.
    inputs = groups * group - (less if bits == 8 and groups == 1 else 0)
    low = -(1 << (bits - 1))
    weight = torch.randint(low, -low, (outputs, inputs), generator=generator).to(torch.int8)
    scale = torch.rand(outputs, groups, generator=generator) + 0.01
    bias = torch.randn(outputs, generator=generator).numpy() if biased else None
    # Also of one sign, whose zero point is at an end.
    x = (torch.randn(rows, inputs, generator=generator) + seed % 3 * 2).numpy()
    wide = (weight.view(outputs, groups, -1).double() * scale[:, :, None].double()).view(outputs, -1).numpy()
    rounded = _rounded(x)
    expected = rounded @ wide.T + (0 if bias is None else bias)
    terms = np.abs(rounded) @ np.abs(wide).T + np.abs(x).max() * np.abs(wide).sum(1) + 1
    for processor in PROCESSORS:
        found = multiply(kernels, processor, bits, x, weight, scale, bias)
        assert found is None or _close(expected, found, terms), processor


@pytest.mark.parametrize("bits", [4, 8])
def test_the_largest_numbers_of_both_signs(kernels, bits):
    """Nothing saturates on the way: bytes of all ends, in rows that are at their ends too."""
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    ends = torch.tensor([low, high], dtype=torch.int8).repeat(16, 1).repeat_interleave(64, 1)
    weight = torch.cat([ends, ends.flip(1), torch.full_like(ends, low), torch.full_like(ends, high)])
    x = np.array([[-128.0] * 64 + [127.0] * 64, [127.0] * 64 + [-128.0] * 64, [0.0] * 127 + [255.0]], np.float32)
    expected = x @ weight.float().numpy().T
    for processor in PROCESSORS:
        found = multiply(kernels, processor, bits, x, weight, torch.ones(len(weight), 4), None)
        assert found is None or np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max(), processor


def test_activations_are_rounded_as_torchao_does(kernels):
    generator = np.random.default_rng(0)
    x = np.concatenate(
        [generator.normal(size=(40, 37)) * 10.0 ** generator.integers(-20, 20, (40, 1)), np.zeros((1, 37))]
    ).astype(np.float32)
    x[3] = np.abs(x[3])
    x[4] = -np.abs(x[4])
    rows, encodings = quantize_rows(kernels, x, 40)
    assert (rows[:, 37:] == 0).all()
    found = (rows[:, :37].astype(np.float64) - encodings[:, 1:]) * encodings[:, :1]
    expected = _rounded(x)
    # A number in the middle between two steps may round to either, where the last bit of the factor differs.
    assert (np.abs(found - expected) > 1e-6 * np.abs(expected).max(1, keepdims=True)).mean() < 1e-3


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_gives_no_number(kernels, odd):
    x = np.ones((2, 32), np.float32)
    x[1, 17] = odd
    weight, scale = torch.ones(5, 32, dtype=torch.int8), torch.ones(5, 1)
    for processor in PROCESSORS:
        found = multiply(kernels, processor, 4, x, weight, scale, None)
        assert found is None or (np.isnan(found[1]).all() and np.allclose(found[0], 32)), processor


@settings(max_examples=40, deadline=None)
@given(rows=st.integers(1, 11), count=st.integers(1, 70), size=st.integers(1, 133), seed=st.integers(0, 1 << 30))
def test_rows_of_attention(kernels, rows, count, size, seed):
    generator = np.random.default_rng(seed)
    query, keys = (generator.normal(size=(number, size)).astype(np.float32) for number in (rows, count))
    weights, to = (generator.normal(size=(rows, number)).astype(np.float32) for number in (count, size))
    scores, mixed = query.astype(np.float64) @ keys.T, to + weights.astype(np.float64) @ keys
    for processor in PROCESSORS:
        found, made = score(kernels, processor, query, keys), mix(kernels, processor, weights, keys, to)
        assert found is None or _close(scores, found, np.abs(query) @ np.abs(keys).T), processor
        assert made is None or _close(mixed, made, np.abs(to) + np.abs(weights) @ np.abs(keys)), processor


@settings(max_examples=40, deadline=None)
@given(count=st.integers(1, 40), size=st.integers(1, 133), seed=st.integers(0, 1 << 30))
def test_rows_of_a_cache_in_8_bits(kernels, count, size, seed):
    generator = np.random.default_rng(seed)
    rows = generator.integers(-128, 128, (count, size)).astype(np.int8)
    scales = generator.uniform(1e-9, 1, (count, 1)).astype(np.float32)
    expected = rows.astype(np.float32) * scales
    for processor in PROCESSORS:
        found = widen(kernels, processor, rows, scales)
        assert found is None or np.array_equal(found, expected), processor


@st.composite
def _dimensions(draw):
    """Of one dimension: places, taps, and the stride, distance between taps, and padding at either side."""
    taps, hole = draw(st.integers(1, 12)), draw(st.integers(1, 3))
    reach = hole * (taps - 1) + 1
    before = draw(st.integers(0, reach + 2))
    size = draw(st.integers(max(1, reach - 2 * before), max(1, reach - 2 * before) + 20))
    return size, taps, draw(st.integers(1, 3)), hole, before


@settings(max_examples=150, deadline=None)
@given(
    rows=_dimensions(),
    columns=_dimensions(),
    channels=st.integers(1, 40),
    biased=st.booleans(),
    seed=st.integers(0, 99),
)
def test_convolutions_of_each_channel(kernels, rows, columns, channels, biased, seed):
    generator = torch.Generator().manual_seed(seed)
    image = torch.randn(1, channels, rows[0], columns[0], generator=generator, dtype=torch.float64)
    weight = torch.randn(channels, 1, rows[1], columns[1], generator=generator, dtype=torch.float64)
    bias = torch.randn(channels, generator=generator, dtype=torch.float64) if biased else None
    strides, holes, padding = zip(rows[2:], columns[2:], strict=True)
    image, weight = image.float().double(), weight.float().double()
    bias = bias if bias is None else bias.float().double()
    run = torch.nn.functional.conv2d
    expected, terms = (
        run(x, w, b, strides, padding, holes, channels)[0].permute(1, 2, 0).numpy()
        for x, w, b in ((image, weight, bias), (image.abs(), weight.abs(), None if bias is None else bias.abs()))
    )
    given = (
        np.ascontiguousarray(image[0].permute(1, 2, 0).float().numpy()),
        weight[:, 0].permute(1, 2, 0).float().numpy(),
        None if bias is None else bias.float().numpy(),
    )
    for processor in PROCESSORS:
        found = convolve(kernels, processor, *given, expected.shape[:2], (rows[2:], columns[2:]))
        assert found is None or _close(expected, found, terms), processor


@settings(max_examples=100, deadline=None)
@given(
    inputs=st.integers(1, 6),
    outputs=st.integers(1, 11),
    taps=st.integers(1, 9),
    vectors=st.integers(1, 12),
    biased=st.booleans(),
    seed=st.integers(0, 99),
)
def test_convolutions_of_planes(kernels, inputs, outputs, taps, vectors, biased, seed):
    generator = np.random.default_rng(seed)
    planes = generator.normal(size=(inputs, 400)).astype(np.float32)
    weight = generator.normal(size=(outputs, inputs, taps)).astype(np.float32)
    bias = generator.normal(size=outputs).astype(np.float32) if biased else None
    at, starts = generator.integers(0, 190, taps), generator.integers(0, 190, vectors)
    for processor, lanes in zip(PROCESSORS, (4, 8, 16), strict=True):
        windows = (starts[:, None] + np.arange(lanes)).ravel()
        read = planes[:, windows[:, None] + at].astype(np.float64)
        expected, terms = (
            np.einsum("oit,iwt->ow", w.astype(np.float64), x) + (0 if b is None else b[:, None])
            for w, x, b in ((weight, read, bias), (abs(weight), abs(read), None if bias is None else abs(bias)))
        )
        found = convolve_planes(kernels, processor, planes, at, starts, weight, bias, lanes)
        assert found is None or _close(expected, found, terms), processor


@settings(max_examples=40, deadline=None)
@given(rows=st.integers(1, 13), columns=st.integers(1, 13), gap=st.integers(0, 3))
def test_transposing(kernels, rows, columns, gap):
    wide = np.random.default_rng(0).normal(size=(rows, columns + gap)).astype(np.float32)
    assert (transpose(kernels, wide[:, :columns], gap) == wide[:, :columns].T).all()
