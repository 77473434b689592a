"""Notices that libraries mean for their developers, kept off the user's terminal."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the notices of ExecuTorch's exporter and of torchao off the terminal.

    Importing them prints what optional libraries are not there and sets up the root logger; lowering warns of its own
    deprecated calls, and of initial values of state, which edgex keeps.
    """
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.filterwarnings("ignore", message="Mutation on a buffer in the model is detected")
            # Torch's switch for oneDNN sets all its flags each time it is used.
            warnings.filterwarnings("ignore", message="TF32 acceleration on top of oneDNN")
            yield
    finally:
        root.setLevel(level)
        for handler in [handler for handler in root.handlers if handler not in handlers]:
            root.removeHandler(handler)
