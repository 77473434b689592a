"""The one place that imports coreai.runtime: packages and format are betas, and what moves is mended here.

The runtime's calls are coroutines. Each model has an event loop of its own to be opened and closed in, which runs while
somebody waits for it; runs are waited for without one, see `edgex.runtime.engines.coreai.waiting`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from edgex.errors import TargetUnavailable
from edgex.runtime.engines.coreai.waiting import CallLoop
from edgex.runtime.support.machine.c_library import suggest_fix

INSTALL_COMMAND = "pip install --pre 'edgex-toolchain[run-coreai]'"
ENTRY_POINT = "main"


def import_runtime() -> ModuleType:
    """The package `coreai.runtime`.

    Raises:
        TargetUnavailable: coreai-core is not installed, or does not import, as where the C library is too old for it.
    """
    try:
        import coreai.runtime
    except ImportError as error:
        raise TargetUnavailable(
            "coreai-core does not import", why=str(error), fix=suggest_fix(str(error), INSTALL_COMMAND)
        ) from error
    module: ModuleType = coreai.runtime
    return module


class CoreAiFunction:
    """The function `main` of an `.aimodel`, compiled for this machine, as an ordinary call."""

    def __init__(self, folder: Path) -> None:
        """Compile and load.

        Args:
            folder: The `.aimodel`.

        Raises:
            TargetUnavailable: coreai-core is not installed, or does not import.
            Exception: What Core AI raises for a file that it does not take; of no common kind.
        """
        runtime = import_runtime()
        from coreai.authoring.asset import AIModelAsset

        self._array = runtime.NDArray
        self._loop = asyncio.new_event_loop()
        self._calls = CallLoop()
        self._threads: ThreadPoolExecutor | None = None
        self._opened: Any = None
        try:
            # Only this way in compiles the file where there is no macOS to do so.
            opened = AIModelAsset.load(folder).executable()
            model = self._wait(opened.__aenter__())
            self._opened = opened
            self._function = model.load_function(ENTRY_POINT)
        except BaseException:
            self.close()
            raise
        self.inputs: tuple[str, ...] = tuple(self._function.desc.input_names)
        self.outputs: tuple[str, ...] = tuple(self._function.desc.output_names)

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run once; the outputs are views of memory that is Core AI's."""
        given = {name: self._array(array) for name, array in inputs.items()}
        found = self._calls.wait(self._function(inputs=given))
        return {name: array.numpy() for name, array in found.items()}

    def close(self) -> None:
        """Give back the model, its compiled files and the event loop."""
        try:
            if self._opened is not None:
                self._function = None
                self._wait(self._opened.__aexit__(None, None, None))
        finally:
            self._opened = None
            if self._threads is not None:
                self._threads.shutdown()
            self._loop.close()

    def _wait(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._loop.run_until_complete(coroutine)
        # A notebook runs a loop of its own in this thread, and a second one may not run there meanwhile.
        if self._threads is None:
            self._threads = ThreadPoolExecutor(1, "coreai")
        return self._threads.submit(self._loop.run_until_complete, coroutine).result()
