"""A program that leaves out what forward does in Python must stay beside eager over several runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from edgex.errors import CaptureError
from edgex.export.source.eager import BufferSnapshot, reference_conditions

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from edgex.export.source.eager import EagerModel

STEPS = 4
# The same operators in the same precision: only a kernel that sums in another order differs.
_RELATIVE = 1e-4


def check_follows_eager(program: ExportedProgram, eager: EagerModel, changed: Sequence[str]) -> None:
    """Run both on the example several times in a row, from the initial state.

    Args:
        program: Takes and gives tensors alone.
        eager: The model; its buffers are the initial ones afterwards.
        changed: Names of the Python values that every run changes and the program leaves out.

    Raises:
        CaptureError: The outputs of some run differ.
    """
    module = program.module()
    buffers = BufferSnapshot(module)
    eager.reset()
    try:
        for step in range(1, STEPS + 1):
            expected = eager.run(eager.example)
            with reference_conditions():
                found = module(*[tensor.clone() for tensor in eager.example])
            if not all(_close(a, b) for a, b in zip(found, expected, strict=True)):
                raise CaptureError(
                    f"forward changes {', '.join(changed)}, and an exported program cannot",
                    why=f"in run {step} on the same inputs the captured program gives other outputs than the model",
                    fix="keep what changes in a buffer, and change it in place",
                )
    finally:
        buffers.restore()
        eager.reset()


def _close(found: torch.Tensor, expected: torch.Tensor) -> bool:
    if not expected.is_floating_point():
        return torch.equal(found, expected)
    largest = float(torch.nan_to_num(expected).abs().max()) if expected.numel() else 0.0
    return torch.allclose(found, expected, rtol=_RELATIVE, atol=_RELATIVE * largest, equal_nan=True)
