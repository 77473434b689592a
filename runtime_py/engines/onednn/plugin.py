"""The plug-in: finds, compiles if need be, and loads the backend `OneDnnGraphBackend` into this process."""

from __future__ import annotations

import ctypes
import threading

from edgex.errors import TargetUnavailable
from edgex.runtime.engines.base import Availability
from edgex.runtime.engines.onednn.build import built_backend, require_backend
from edgex.runtime.engines.onednn.library import find_library, require_machine
from edgex.runtime.support.process.fork_safety import OPENMP

NAME = "onednn"
BACKEND = "OneDnnGraphBackend"


class OneDnnPlugin:
    """See `edgex.runtime.engines.plugins.EnginePlugin`."""

    def availability(self) -> Availability:
        """Whether machine, library and backend, or what it takes to compile one, are there; nothing is loaded."""
        try:
            require_machine()
            find_library()
            require_backend()
        except TargetUnavailable as error:
            return Availability(False, error.what, error.fix)
        return Availability(True)

    def load(self) -> None:
        """Load the backend; compiled at first use, which takes half a minute on two cores.

        Raises:
            TargetUnavailable: A part is missing or does not fit the others.
            RunError: This process was forked from one that has its OpenMP threads; the backend refuses runs there.
        """
        OPENMP.enter()
        _LOADED.load()

    def use_threads(self, threads: int) -> None:
        """Threads of the backend's OpenMP regions; torch keeps its own number."""
        _LOADED.load().edgex_onednn_set_threads(threads)


class _LoadedBackend:
    """The libraries, loaded once: a process cannot give back a backend that ExecuTorch has registered."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._library: ctypes.CDLL | None = None

    def load(self) -> ctypes.CDLL:
        with self._lock:
            if self._library is None:
                self._library = _load_libraries()
            return self._library


def _load_libraries() -> ctypes.CDLL:
    from edgex.runtime.engines.executorch.binding import backend_names

    require_machine()
    onednn = find_library()
    backend = built_backend()
    # The order matters: the binding brings libexecutorch (and torch libgomp), and the backend finds them by soname.
    backend_names()
    try:
        ctypes.CDLL(str(onednn))
        library = ctypes.CDLL(str(backend))
    except OSError as error:
        raise TargetUnavailable(
            "the oneDNN backend cannot be loaded",
            str(backend),
            "delete the file to have it compiled again",
            why=str(error),
        ) from error
    if library.edgex_onednn_registered() or BACKEND not in backend_names():
        raise TargetUnavailable("ExecuTorch did not take in the oneDNN backend", str(backend))
    return library


_LOADED = _LoadedBackend()
