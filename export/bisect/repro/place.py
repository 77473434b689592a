"""Whether a repro can be written where the user wants it; nothing heavy is imported."""

from __future__ import annotations

from pathlib import Path

from edgex.errors import ArtifactError, UsageError
from edgex.runtime.support.publish import disk_errors, try_folder


def check_folder(path: Path, *, force: bool) -> None:
    """Refuse a folder that is not empty or cannot be written, before anything slow.

    Raises:
        UsageError: Something is there.
        ArtifactError: The file system refuses.
    """
    if path.exists() and not path.is_dir():
        raise UsageError(f"--repro {path} is a file", fix="name a folder")
    if path.is_dir() and any(path.iterdir()) and not force:
        raise UsageError(f"--repro {path} is not empty", fix="--force writes into it, or name another folder")
    parent = next(folder for folder in (path, *path.parents) if folder.is_dir())
    with disk_errors(ArtifactError, f"--repro {path}: nothing can be written in {parent}", fix="name another folder"):
        try_folder(parent, path.name)
