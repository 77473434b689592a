"""Integers of 8 and 16 bits: operators that ONNX Runtime has no kernel for are computed in 32."""

from __future__ import annotations

import pytest
import torch
from rewriting import Calls, capture_program, operators, run_program
from torch.nn import functional as F

from benchmarks.operators.proof import prove
from edgex.export.rewrites.numbers.small_integers import widen_small_integers

SOUND = (torch.randn(4, 6, generator=torch.Generator().manual_seed(0)) * 9_000).to(torch.int16)
PIXELS = torch.randint(0, 256, (4, 6), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))

TAKEN = {
    "peaks": (lambda x: x.abs().amax(1), SOUND),
    "a peak": (lambda x: x.min(), SOUND),
    "a peak and where": (lambda x: x.max(1), SOUND),
    "where": (lambda x: x.argmin(1), SOUND),
    "of two": (lambda x: torch.maximum(x, x.flip(0)), SOUND),
    "bounds": (lambda x: x.clamp(-900, 800), SOUND),
    "choices": (lambda x: torch.where(x > 3, x, x.flip(0)), SOUND),
    "padding": (lambda x: F.pad(x, (1, 2), value=7), SOUND),
    "halves": (lambda x: x >> 1, SOUND),
    "twice what does not fit": (lambda x: x << 3, SOUND),
    "minus pixels": (lambda x: -x, PIXELS),
    "halves of pixels": (lambda x: x >> 1, PIXELS),
}
LEFT = {
    "pixels that it has kernels for": (lambda x: x.amax(1), PIXELS),
    "floats": (lambda x: x.float().clamp(0, 1), SOUND),
    "types that are mixed": (lambda x: torch.maximum(x, x.long()), SOUND),
}


@pytest.mark.parametrize("name", TAKEN)
def test_the_numbers_and_types_stay(name):
    function, x = TAKEN[name]
    before = capture_program(Calls(function), x)
    after, rewrite = widen_small_integers(before)
    assert rewrite is not None and rewrite.count == 1, operators(before)
    for expected, found in zip(run_program(before, x), run_program(after, x), strict=True):
        assert found.dtype == expected.dtype and torch.equal(found, expected)
    assert widen_small_integers(after) == (after, None)


@pytest.mark.parametrize("name", LEFT)
def test_the_rest_is_left_alone(name):
    function, x = LEFT[name]
    before = capture_program(Calls(function), x)
    assert widen_small_integers(before) == (before, None)


def test_all_of_them_run():
    class Everything(torch.nn.Module):
        def forward(self, sound, pixels):
            given = {id(SOUND): sound, id(PIXELS): pixels}
            found = [function(given[id(x)]) for function, x in TAKEN.values()]
            return [part for one in found for part in (one if isinstance(one, tuple) else (one,))]

    proof = prove(Everything(), (SOUND, PIXELS), "onnx-cpu")
    assert proof.exit_code == 0, (proof.reason, proof.error)
