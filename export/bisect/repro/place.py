"""Whether a repro can be written where the user wants it; nothing heavy is imported."""

from __future__ import annotations

from pathlib import Path

from edgex.errors import UsageError


def check_folder(path: Path, *, force: bool) -> None:
    """Refuse a folder that is not empty, before anything slow.

    Raises:
        UsageError: Something is there.
    """
    if path.exists() and not path.is_dir():
        raise UsageError(f"--repro {path} is a file", fix="name a folder")
    if path.is_dir() and any(path.iterdir()) and not force:
        raise UsageError(f"--repro {path} is not empty", fix="--force writes into it, or name another folder")
