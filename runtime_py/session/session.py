"""A loaded artifact: checks what goes in, runs it, carries its state. The same for every engine.

```python
with edgex.load("digits.xnnpack.edgex", threads=2) as session:
    (logits,) = session.run(image)            # by position, or session.run(x=image)
```

Nothing is left to the engines' own checks: see `edgex.runtime.session.signature`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Literal

import numpy as np

from edgex.errors import RunError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.artifact.specs import TensorSpec
from edgex.runtime.session.runner import EngineSettings, Runner
from edgex.runtime.session.signature import Signature

# `given`: by a flag or an argument. `tuned`: found quickest here by a sweep. `default`: the engine's, or, for a second
# session of an engine that has one thread pool a process, what the first session has set.
ThreadsSource = Literal["given", "tuned", "default"]


class Session:
    """One loaded artifact. Serves one thread at a time: it locks; open a second Session for independent state.

    Attributes:
        artifact: What was loaded.
        inputs: What `run` takes, in order.
        outputs: What `run` returns, in order.
        runner: The engine's side; for edgex's own tools.
        settings: What was asked of the engine.
        assignment: How many nodes each provider of the engine runs, as it reports; None where it does not tell.
    """

    def __init__(self, artifact: Artifact, runner: Runner) -> None:
        method = artifact.manifest.method
        self.artifact = artifact
        self.runner = runner
        self.settings = EngineSettings()
        self.assignment: Mapping[str, int] | None = None
        self.inputs: tuple[TensorSpec, ...] = method.inputs
        self.outputs: tuple[TensorSpec, ...] = method.outputs
        self.state = method.state
        self._lock = threading.Lock()
        self._closed = False
        self._signature = Signature(self.inputs)
        self._fits = self._signature.fits

    @property
    def executed_on(self) -> str:
        """Who runs it, as the engine reports it."""
        return self.runner.executed_on

    @property
    def threads(self) -> int | None:
        """Threads in effect, or None where the engine does not say."""
        return self.runner.threads

    @property
    def threads_source(self) -> ThreadsSource:
        """Where the number of threads comes from: see `ThreadsSource`."""
        if self.settings.threads is not None:
            return "given"
        preferred = self.settings.preferred_threads
        return "tuned" if preferred is not None and preferred == self.threads else "default"

    def run(self, *args: Any, **kwargs: Any) -> tuple[np.ndarray, ...]:
        """Run once.

        Args:
            *args: Inputs in order: NumPy arrays, torch tensors, or anything with `__dlpack__`.
            **kwargs: Inputs by name. Names that are no Python identifiers go in as `run(**{"xs.0": a})`.

        Returns:
            The outputs as NumPy arrays, in the manifest's order.

        Raises:
            RunError: An input is missing, unknown, of another dtype or shape; or the engine failed.
        """
        arrays = args if not kwargs and self._fits(args) else self.prepare(*args, **kwargs)
        with self._lock:
            if self._closed:
                raise RunError("this Session is closed", fix="edgex.load(...) opens a new one")
            return self.runner.execute(arrays)

    def prepare(self, *args: Any, **kwargs: Any) -> list[np.ndarray]:
        """Check inputs as `run` does, without running.

        Args:
            *args: As for `run`.
            **kwargs: As for `run`.

        Returns:
            C-contiguous arrays in the manifest's order and dtypes; an array that is already so is not copied.

        Raises:
            RunError: An input is missing, unknown, of another dtype or shape.
        """
        return self._signature.prepare(*args, **kwargs)

    def reset(self) -> None:
        """Give every state tensor its initial value; without state, nothing happens."""
        with self._lock:
            if self._closed:
                raise RunError("this Session is closed", fix="edgex.load(...) opens a new one")
            if self.state:
                self.runner.reset()

    def close(self) -> None:
        """Release the engine's memory. Closing twice is allowed."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self.runner.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
