"""ExecuTorch's thread pool: one for the whole process, and not to be touched while a program is loaded.

Resetting the pool under a loaded method crashes or hangs, and the pool follows neither the affinity mask nor
OMP_NUM_THREADS. So the first open session fixes the number, later ones join it, and it may change again only when
all of them are closed.
"""

from __future__ import annotations

import threading

from edgex.errors import RunError
from edgex.runtime.engines.executorch import binding as executorch_binding
from edgex.runtime.support.machine.threads import default_threads


class ThreadPool:
    """Counts the open sessions and sets the pool's size for the first of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open_sessions = 0

    def join(self, requested: int | None, preferred: int | None = None) -> int:
        """Enter as one more open session; `leave` must follow.

        Args:
            requested: Threads that the session wants; None takes what is set, or what follows.
            preferred: Threads for the first session if none are requested; None is `default_threads()`.

        Returns:
            Threads in effect.

        Raises:
            RunError: Open sessions run with another number. The caller has not entered.
        """
        with self._lock:
            current = executorch_binding.thread_count()
            if self._open_sessions == 0:
                wanted = requested or preferred or default_threads()
                if wanted != current:
                    executorch_binding.reset_thread_pool(wanted)
                    current = executorch_binding.thread_count()
                if requested is not None and current != requested:
                    raise RunError(f"ExecuTorch's thread pool has {current} threads after {requested} were asked for")
            elif requested is not None and requested != current:
                raise RunError(
                    f"{requested} threads asked for, but open sessions run with {current}",
                    why="ExecuTorch has one thread pool a process; it cannot change while a program is loaded",
                    fix="close the open sessions first, or use a process for each thread count",
                )
            self._open_sessions += 1
            return current

    def leave(self) -> None:
        """Leave after the program is released."""
        with self._lock:
            self._open_sessions -= 1


# One for the process, because the pool is.
POOL = ThreadPool()
