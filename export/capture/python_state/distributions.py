"""Checks of `torch.distributions`: they raise an error or do nothing, so a program gives the same numbers without them.

`Normal(mean, deviation)` asks in Python whether every deviation is positive, and `log_prob(x)` whether x is possible:
branches on the values of tensors, which torch.export refuses.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator
from pathlib import Path

import torch

from edgex.export.capture.torch_internals import distributions_checked

NOTICE = "torch.distributions' checks of its arguments are left out: where eager raises, the artifact gives numbers"

_FOLDER = Path(torch.distributions.__file__).parent


def fails_in_check(error: Exception) -> bool:
    """Whether a trace ended in the library's own code."""
    frames = traceback.extract_tb(error.__traceback__)
    return any(Path(frame.filename).parent == _FOLDER for frame in frames)


@contextlib.contextmanager
def without_checks() -> Iterator[None]:
    """Leave the checks out, as `set_default_validate_args(False)` does."""
    checked = distributions_checked()
    torch.distributions.Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        torch.distributions.Distribution.set_default_validate_args(checked)
