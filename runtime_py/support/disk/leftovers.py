"""Temporary folders of edgex's, and those among them whose process was killed before it could remove them.

The name of each ends in `tmp-PROCESS`, and its process holds a lock on it for as long as it lives: the system takes the
lock back however a process ends. A number alone would not do, because numbers are used again, and those of another
container mean nothing here.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Beside what is replaced: an older folder, for as long as the file system cannot swap two in one step.
RETIRED = "-old"
_TEMPORARY = re.compile(r"(?P<owner>.+)\.tmp-(?P<process>\d+)(?P<rest>-.+)?")

# How exactly a file system may note when something was changed.
_CLOCK_SECONDS = 1.0


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the lock that says that this folder's process lives; nothing on a file system that has no locks.

    Args:
        folder: It may be renamed or removed meanwhile.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _try_lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def remove_abandoned(parent: Path, owner: str) -> None:
    """Remove the temporary folders of processes that are gone; an older folder that one of them had put aside returns.

    Args:
        parent: Where they are; it may be missing.
        owner: A pattern of `re` for what stands in a name before `.tmp-PROCESS`.
    """
    try:
        found = sorted((path for path in parent.iterdir() if ".tmp-" in path.name), key=lambda path: path.name)
    except OSError:  # missing, or not ours to read: then nothing of ours is in it
        return
    for path in found:
        parts = _TEMPORARY.fullmatch(path.name)
        if (
            parts is None
            or re.fullmatch(owner, parts["owner"]) is None
            or not _is_abandoned(path, int(parts["process"]))
        ):
            continue
        published = path.with_name(parts["owner"].removeprefix("."))
        if parts["rest"] == RETIRED and path.name.startswith(".") and not published.exists():
            path.rename(published)
        else:
            shutil.rmtree(path, ignore_errors=True)


def _is_abandoned(folder: Path, process: int) -> bool:
    """Whether nobody holds the folder, and its process does not live. What cannot be told is not abandoned."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        if not _try_lock(descriptor):
            return False
        changed = os.fstat(descriptor).st_mtime
    finally:
        os.close(descriptor)
    return not _lives_since(process, changed)


def _try_lock(descriptor: int) -> bool:
    """Whether nobody else has the lock, as far as the file system knows."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # it has no locks: the number of the process has to do
        return True
    return True


def _lives_since(process: int, seconds: float) -> bool:
    """Whether a process lives that can have changed something then: a younger one only has the same number."""
    import psutil

    try:
        return psutil.Process(process).create_time() <= seconds + _CLOCK_SECONDS
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
