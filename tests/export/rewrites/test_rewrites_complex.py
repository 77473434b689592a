"""Complex arithmetic and Fourier transforms in real numbers: the same as torch's, or left alone."""

from __future__ import annotations

import pytest
import torch
from rewriting import Untouched, capture_program, check_rewrite, operators
from torch import nn

from edgex.export.rewrites.complex.numbers import split_complex
from edgex.export.rewrites.complex.parts import is_complex
from edgex.export.rewrites.complex.transforms import LONGEST

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


def beams(x, _):
    """Of a radar: a sum over three factors, and over one."""
    z = torch.complex(x[..., :3], x[..., 3:6])
    steered = torch.einsum("bti, bio, io -> tbo", z, WEIGHTS, WEIGHTS[0])
    return torch.view_as_real(steered), torch.einsum("bti->ib", z).abs()


def chosen_frequencies(x, _):
    """Of FEDformer: some frequencies are mixed, and written to their places among zeros."""
    places = torch.tensor([0, 2, 5])
    chosen = torch.fft.rfft(x[:, :4, 0])[..., [0, 1, 2]]
    mixed = torch.complex(chosen.real * 2, chosen.imag + 1)
    rows = torch.arange(2).unsqueeze(1)
    spectrum = torch.zeros(2, 9, dtype=torch.cfloat).index_put((rows, places), mixed)
    spectrum = spectrum.index_put((rows, places + 1), torch.conj(mixed), accumulate=True)
    return torch.fft.irfft(spectrum, n=16), torch.view_as_real(spectrum)


def masked_spectrogram(x, _):
    z = torch.stft(x.flatten(1), 16, 4, 12, WINDOW, return_complex=True, normalized=True)
    return torch.istft(z * z.abs(), 16, 4, 12, WINDOW, normalized=True), torch.istft(z, 16, 4, 12, WINDOW, length=30)


def moved_to_a_device(x, turns):
    """Rotary positions as diffusers keep them: tracing notes the dtype of what `to` is asked for."""
    return rotary(x, turns.to(x.device))


def complex_numbers(x, _):
    """As vocoders turn phases."""
    z = x.exp() * (torch.cos(x) + 1j * torch.sin(x)) * (2 - 3j) / (1 + 2j) - 3j
    return torch.view_as_real(z + (0.5 + 1j)), (x * 2j).imag


LONG = torch.randn(3, 2 * LONGEST + 6, generator=torch.Generator().manual_seed(4))


def moved_about(x, turns):
    """Split, padded, chosen and joined."""
    z = torch.complex(x[..., :4], x[..., 4:8])
    one, other = z.split([1, 3], -1)
    first, _ = torch.view_as_complex(x[:, :, :8].contiguous().view(2, 6, 4, 2)).chunk(2, 1)
    windows = torch.nn.functional.pad(z, (1, 2)).unfold(-1, 3, 2).sum(-1)
    masked = torch.where(x[..., :3] > 0, other, 0.5).masked_fill(x[..., 1:4] > 1, 2 - 1j)
    rows = torch.stack(windows.unbind(1)).repeat(1, 2, 1)
    shifted = torch.fft.ifftshift(torch.fft.fftshift(z, -1)).real
    return (one.expand(2, 6, 3) * masked).imag, first.abs(), torch.view_as_real(rows), shifted


def functions(x, turns):
    z = torch.complex(x[..., :4], x[..., 4:8])
    weight = torch.complex(x[0, :3, :4], x[1, :3, :4])
    y = torch.nn.functional.linear(z, weight, torch.complex(x[0, 0, :3], x[0, 1, :3]))
    found = [z.sqrt(), (z.square() + 3).log(), z.reciprocal() * torch.full((4,), 1 - 2j), 1 - z**2, y]
    return [torch.view_as_real(value) for value in found]


def long_filter(x, _):
    """A convolution by way of the spectrum."""
    kernel = torch.fft.rfft(torch.exp(-torch.arange(1030.0) / 50), n=2060)
    return torch.fft.irfft(torch.fft.rfft(x, n=2060) * kernel, n=2060)[..., :1030]


def prime_lengths(x, _):
    """A prime of its own, and one in a length, as filters of odd numbers of taps leave them."""
    return [torch.fft.irfft(torch.fft.rfft(x, n=n) * (1 + 0.5j), n=n) for n in (577, 1138)]


def long_spectrogram(x, _):
    """The window is made in forward."""
    window = torch.hann_window(1536)
    z = torch.stft(x.flatten().repeat(40), 2048, 512, 1536, window, return_complex=True, normalized=True)
    return torch.istft(z * 0.5, 2048, 512, 1536, window, normalized=True), z.imag


CASES = {
    "long spectrogram": (long_spectrogram, X),
    "moved about": (moved_about, X),
    "functions": (functions, X),
    "long": (lambda x, _: torch.view_as_real(torch.fft.fft(x, norm="ortho")), LONG),
    "long, back": (lambda x, _: torch.view_as_real(torch.fft.ifft(torch.complex(x, x.flip(0)))), LONG),
    "long filter": (long_filter, LONG),
    "prime lengths": (prime_lengths, LONG),
    "long, odd": (lambda x, _: torch.fft.irfft(torch.fft.rfft(x, n=1025), n=1025, norm="forward"), LONG),
    "numbers that are complex": (complex_numbers, X),
    "padded": (lambda x, _: torch.fft.fft(x, n=16).real, X),
    "cut": (lambda x, _: torch.fft.irfft(torch.fft.rfft(x, n=7, dim=1), n=6, dim=1), X),
    "neural operator": (spectral_convolution, X),
    "beams": (beams, X),
    "chosen frequencies": (chosen_frequencies, X),
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
    "moved to a device": (moved_to_a_device, X),
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
    assert not any(is_complex(node) for node in after.exported.graph.nodes)
    assert not any("fft" in operator or "complex" in operator for operator in operators(after))


def test_what_nobody_reads_is_not_computed():
    after, _ = split_complex(capture_program(Function(CASES["fnet"][0]), X, randomise=False))
    # Two products along the last dimension; along the other, the two of the real part.
    assert operators(after).count("aten.linear.default") == 4


LEFT = {
    "complex output": lambda x, _: torch.fft.fft(x),
    "an operator without a rule": lambda x, _: torch.fft.fft(x).tan().real,
    "too long a factor": lambda x, _: torch.fft.rfft(x.repeat(1, 1, 1031)).abs(),
    "nothing complex": lambda x, _: x * 2,
}


@pytest.mark.parametrize("name", LEFT)
def test_what_cannot_be_done_is_left_whole(name):
    before = capture_program(Function(LEFT[name]), X, randomise=False)
    after, rewrite = split_complex(before)
    assert after is before
    assert rewrite is None
