"""What a forked child cannot use: the threads of OpenMP, which stay behind in the parent.

The library libgomp keeps its threads for the next parallel region of the thread that started them. A child begins with
a copy of that thread and with none of the others, and its first parallel region waits for them for ever.
"""

from __future__ import annotations

import os

from edgex.errors import RunError


class OpenMpThreads:
    """The process whose OpenMP threads were started through edgex, of which there is one pool, torch's and oneDNN's."""

    def __init__(self) -> None:
        self._process: int | None = None

    def enter(self) -> None:
        """To be called before a parallel region.

        Raises:
            RunError: The threads were started before this process was forked.
        """
        if self._process is None:
            self._process = os.getpid()
        elif self._process != os.getpid():
            raise RunError(
                "this process was forked after the engine had started its threads, which do not come along",
                fix="start children with the method 'spawn' of multiprocessing, or load artifacts in the children only",
                why="the first run here would wait for them for ever",
            )


OPENMP = OpenMpThreads()
