"""A child that ends when its parent does, also when the parent is killed and can tell nobody.

Linux ends it itself, in the midst of native code too. Elsewhere, and where another thread than the main one has started
the child, a thread of the child looks once a second: Linux would take the end of that other thread for the parent's.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from typing import NoReturn

_LOOK_SECONDS = 1.0
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with_parent(parent: int, *, of_main_thread: bool = True) -> None:
    """To be called by a child when it begins: it is killed when its parent has ended.

    Args:
        parent: The process that started it. If that is gone already, this does not return.
        of_main_thread: Whether the parent's main thread has started it.
    """
    if sys.platform == "linux" and of_main_thread:
        # A refusal, as of a filter for system calls, leaves the thread to do it.
        asked = ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) == 0
    else:
        asked = False
    if os.getppid() != parent:  # it ended before it could be watched
        _end()
    if not asked:
        threading.Thread(target=_watch, args=(parent,), name="edgex-parent", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    _end()


def _end() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise SystemExit  # not reached
