"""Where every other process is started, Python or not: what shall hold for all of them is said here once."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def start_program(command: Sequence[str | Path], **options: Any) -> subprocess.Popen[Any]:
    """Start a program and go on.

    Args:
        command: Program and arguments; no shell reads them.
        **options: As `subprocess.Popen` takes them.

    Raises:
        OSError: There is no such program, or it cannot be started.
    """
    return subprocess.Popen(command, **options)


def run_program(command: Sequence[str | Path], **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run a program to its end, whatever its exit code; ended where this is left early.

    Args:
        command: Program and arguments; no shell reads them.
        **options: As `subprocess.run` takes them.

    Raises:
        OSError: There is no such program, or it cannot be started.
        subprocess.TimeoutExpired: It took longer than the option `timeout` says; it was ended.
    """
    return subprocess.run(command, check=False, **options)
