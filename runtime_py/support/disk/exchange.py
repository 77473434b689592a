"""Swap two folders in one step: at no moment is either name missing, whatever happens to this process.

Python has no name for it; the C libraries of Linux and macOS have one each.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from pathlib import Path

# linux/fcntl.h and linux/fs.h: renameat2(2), since Linux 3.15 and glibc 2.28.
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
# sys/stdio.h of macOS: renamex_np(2), since 10.12.
_RENAME_SWAP = 2

# What is said where the kernel or the file system has no such step.
_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)


def swap(one: Path, other: Path) -> bool:
    """Swap two names of one file system.

    Returns:
        Whether they were swapped; False where the system or the file system cannot do that, and nothing was changed.

    Raises:
        OSError: The file system refuses for another reason.
    """
    library = ctypes.CDLL(None, use_errno=True)
    first, second = os.fsencode(one), os.fsencode(other)
    if sys.platform == "darwin":
        done = library.renamex_np(first, second, _RENAME_SWAP)
    elif hasattr(library, "renameat2"):
        done = library.renameat2(_AT_FDCWD, first, _AT_FDCWD, second, _RENAME_EXCHANGE)
    else:
        return False
    if done == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), str(one), None, str(other))
