"""Temporary folders in the system's own place for them: gone after use, or with the next where it was killed."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgex.runtime.support.disk.leftovers import held, remove_abandoned

_NAMES = re.escape("edgex-") + r"[a-z]+-\w+"


@contextmanager
def scratch_folder(purpose: str, parent: Path | None = None) -> Iterator[Path]:
    """An empty folder that nobody else can read.

    Args:
        purpose: One word for its name, `edgex-PURPOSE-….tmp-PROCESS`.
        parent: Where; None is where the system has such folders.

    Raises:
        OSError: The file system refuses.
    """
    parent = parent or Path(tempfile.gettempdir())
    remove_abandoned(parent, _NAMES)
    with (
        tempfile.TemporaryDirectory(f".tmp-{os.getpid()}", f"edgex-{purpose}-", parent) as name,
        held(Path(name)),
    ):
        yield Path(name)
