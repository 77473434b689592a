"""Complex arithmetic and Fourier transforms in real numbers: the same as torch's, or left alone."""

from __future__ import annotations

import pytest
import torch
from rewriting import Untouched, capture_program, check_rewrite, operators
from torch import nn

from edgex.export.rewrites.complex.numbers import split_complex
from edgex.export.rewrites.complex.operators import LONGEST

X = torch.randn(2, 6, 9, generator=torch.Generator().manual_seed(0))
EVEN = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        angles = torch.outer(torch.arange(6.0), 0.3 * torch.arange(1.0, 4))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))

    def forward(self, x):
        return self.function(x, self.turns)


def rotary(x, turns):
    pairs = torch.view_as_complex(x[..., :6].clone(memory_format=torch.contiguous_format).view(2, 6, 3, 2))
    return torch.view_as_real(pairs * turns).flatten(2)


def arithmetic(x, turns):
    z = torch.complex(x[..., :3], x[..., 3:6]) * turns.conj() / 2 + turns - torch.polar(x[..., :3].abs(), x[..., 6:])
    z = torch.cat([z, z.transpose(0, 1).reshape(2, 6, 3)], 1) * 0.5
    return z.real, z.imag, z.abs(), z.angle()


WEIGHTS = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(2), dtype=torch.complex64)
WINDOW = torch.hann_window(12)


def spectral_convolution(x, _):
    """Of a neural operator: low frequencies are mixed and written into zeros."""
    mixed = torch.einsum("bi,bio->bo", torch.fft.rfft(x[:, :4, 0]) * 2, WEIGHTS[:, :, :3])
    spectrum = torch.zeros(2, 9, dtype=torch.cfloat)
    spectrum = torch.slice_scatter(spectrum, mixed, 1, 0, 3)
    return torch.fft.irfft(spectrum / (spectrum + 2), n=16), spectrum.sum(0).exp().real


def masked_spectrogram(x, _):
    z = torch.stft(x.flatten(1), 16, 4, 12, WINDOW, return_complex=True, normalized=True)
    return torch.istft(z * z.abs(), 16, 4, 12, WINDOW, normalized=True), torch.istft(z, 16, 4, 12, WINDOW, length=30)


def complex_numbers(x, _):
    """As vocoders turn phases."""
    z = x.exp() * (torch.cos(x) + 1j * torch.sin(x)) * (2 - 3j) / (1 + 2j) - 3j
    return torch.view_as_real(z + (0.5 + 1j)), (x * 2j).imag


CASES = {
    "numbers that are complex": (complex_numbers, X),
    "padded": (lambda x, _: torch.fft.fft(x, n=16).real, X),
    "cut": (lambda x, _: torch.fft.irfft(torch.fft.rfft(x, n=7, dim=1), n=6, dim=1), X),
    "neural operator": (spectral_convolution, X),
    "spectrogram": (masked_spectrogram, X),
    "fnet": (lambda x, _: torch.fft.fftn(x, dim=(1, 2)).real, X),
    "all dimensions": (lambda x, _: torch.view_as_real(torch.fft.fftn(x)), X),
    "there and back": (lambda x, _: torch.fft.ifft(torch.fft.fft(x, norm="forward") * 2, norm="forward").real, X),
    "back in the middle": (lambda x, _: torch.fft.ifft2(x, dim=(0, 1)).imag, X),
    "half spectrum, odd": (lambda x, _: torch.view_as_real(torch.fft.rfft(x, norm="ortho")), X),
    "half spectrum, even": (lambda x, _: torch.view_as_real(torch.fft.rfft2(x)), EVEN),
    "filter, odd": (lambda x, _: torch.fft.irfft(torch.fft.rfft(x) * torch.arange(1.0, 6), n=9), X),
    "filter, even": (lambda x, _: torch.fft.irfftn(torch.fft.rfftn(x, norm="ortho"), norm="ortho"), EVEN),
    "not from a real signal": (lambda x, _: torch.fft.irfft(torch.complex(x[..., :5], x[..., 3:8]), n=8), EVEN),
    "rotary": (rotary, X),
    "arithmetic": (arithmetic, X),
}


@pytest.mark.parametrize("name", CASES)
def test_the_numbers_stay(name):
    function, x = CASES[name]
    before = capture_program(Function(function), x, randomise=False)
    untouched = Untouched(before, x)
    after, rewrite = split_complex(before)
    check_rewrite(before, after, x, untouched=untouched)
    assert rewrite.name == "split_complex"
    assert not any(node.meta["val"].is_complex() for node in after.exported.graph.nodes if node.op != "output")
    assert not any("fft" in operator or "complex" in operator for operator in operators(after))


def test_what_nobody_reads_is_not_computed():
    after, _ = split_complex(capture_program(Function(CASES["fnet"][0]), X, randomise=False))
    # Two products along the last dimension; along the other, the two of the real part.
    assert operators(after).count("aten.linear.default") == 4


LEFT = {
    "complex output": lambda x, _: torch.fft.fft(x),
    "an operator without a rule": lambda x, _: torch.fft.fft(x).tan().real,
    "too long": lambda x, _: torch.fft.rfft(x.repeat(1, 1, LONGEST)).abs(),
    "nothing complex": lambda x, _: x * 2,
}


@pytest.mark.parametrize("name", LEFT)
def test_what_cannot_be_done_is_left_whole(name):
    before = capture_program(Function(LEFT[name]), X, randomise=False)
    after, rewrite = split_complex(before)
    assert after is before
    assert rewrite is None
