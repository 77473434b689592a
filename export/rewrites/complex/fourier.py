"""The matrices of discrete Fourier transforms, computed in float64."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch

# `real`: between a real signal and the first half of its spectrum.
Part = Literal["complex", "real"]


@dataclass(frozen=True)
class Matrices:
    """What takes real and imaginary part to real and imaginary part, each `[out, in]`; None where nothing goes."""

    real_to_real: torch.Tensor
    real_to_imag: torch.Tensor | None
    imag_to_real: torch.Tensor | None
    imag_to_imag: torch.Tensor | None


def scale_of(norm: str | None, length: int, inverse: bool) -> float:
    """The factor of one transform under torch's `norm`."""
    if norm == "ortho":
        return 1 / math.sqrt(length)
    return 1 / length if (norm == "forward") != inverse else 1.0


def matrices(length: int, inverse: bool, part: Part, scale: float, dtype: torch.dtype) -> Matrices:
    """The matrices of one transform.

    Args:
        length: Of the signal.
        inverse: Whether it goes back from the spectrum.
        part: `real`: the spectrum is the first `length // 2 + 1` of it and the signal real.
        scale: A factor for all.
        dtype: Of the result.
    """
    count = length // 2 + 1 if part == "real" else length
    rows, columns = (length, count) if inverse else (count, length)
    # The product is reduced before the division: it grows beyond what the angle's digits hold.
    turns = torch.outer(torch.arange(rows), torch.arange(columns)) % length
    angles = turns.to(torch.float64) * (2 * math.pi / length)
    cos, sin = angles.cos() * scale, angles.sin() * scale * (1 if inverse else -1)
    if part == "complex":
        return Matrices(*(matrix.to(dtype) for matrix in (cos, sin, -sin, cos)))
    if not inverse:
        return Matrices(cos.to(dtype), sin.to(dtype), None, None)
    # The other half of the spectrum is the conjugate of this one: it counts twice, but for the ends.
    twice = torch.full((count,), 2.0, dtype=torch.float64)
    twice[0] = 1
    if length % 2 == 0:
        twice[-1] = 1
    return Matrices((cos * twice).to(dtype), None, (-sin * twice).to(dtype), None)
