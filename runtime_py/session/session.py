"""A loaded artifact: checks what goes in, runs it, carries its state. The same for every engine.

```python
with edgex.load("digits.xnnpack.edgex", threads=2) as session:
    (logits,) = session(image)                # by position, by name: session(x=image), or session({"x": image})
    scores = session(image)["scores"]         # outputs have their names, too
```

Nothing is left to the engines' own checks: see `edgex.runtime.session.signature`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from edgex.errors import RunError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.artifact.specs import TensorSpec
from edgex.runtime.session.by_size import SizeTable
from edgex.runtime.session.non_finite import FiniteCheck
from edgex.runtime.session.outputs import Outputs
from edgex.runtime.session.runner import EngineSettings, HasMethods, HasReadableState, Runner
from edgex.runtime.session.signature import Signature
from edgex.runtime.session.simulation import Simulator

if TYPE_CHECKING:
    from edgex.runtime.generation.generator import Generator

# `given`: by a flag or an argument. `tuned`: found quickest here by a sweep. `default`: the engine's, or, for a second
# session of an engine that has one thread pool a process, what the first session has set.
ThreadsSource = Literal["given", "tuned", "default"]


class Loaded:
    """A loaded program, as the sessions on its methods share it.

    Attributes:
        runner: What was loaded first, and closes it.
        lock: Held while any of them runs.
        closed: Whether one of them has closed it.
        runners: What runs each entry of the program that a session was asked for.
        stateful: Those among them that keep state.
    """

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.lock = threading.Lock()
        self.closed = False
        self.runners: dict[str, Runner] = {}
        self.stateful: dict[str, Runner] = {}


class Session:
    """One method of a loaded artifact, the first unless another is selected.

    Where the methods are one model at several sizes and none is selected, each run takes the one that its inputs have.

    Serves one thread at a time: it locks; open a second Session for independent state.

    Attributes:
        artifact: What was loaded.
        inputs: What `run` takes, in order.
        outputs: What `run` returns, in order.
        runner: The engine's side; for edgex's own tools.
        settings: What was asked of the engine.
        assignment: How many nodes each provider of the engine runs, as it reports; None where it does not tell.
        simulator: What runs it in place of the device that it was made for; None where nothing does.
    """

    def __init__(self, artifact: Artifact, runner: Runner, loaded: Loaded | None = None) -> None:
        """A session on what an engine has loaded.

        Args:
            artifact: Its manifest says which method is meant.
            runner: Runs that method.
            loaded: Shared by the sessions on one loaded program; None begins with this one.
        """
        method = artifact.manifest.method
        self.artifact = artifact
        self.runner = runner
        self.settings = EngineSettings()
        self.assignment: Mapping[str, int] | None = None
        self.simulator: Simulator | None = None
        self.inputs: tuple[TensorSpec, ...] = method.inputs
        self.outputs: tuple[TensorSpec, ...] = method.outputs
        self.state = method.state
        # How `edgex.load` opened it, for `pickle`; None where something else did.
        self.reopen: Callable[[str], Session] | None = None
        self._output_names = tuple(spec.name for spec in self.outputs)
        self._loaded = loaded or Loaded(runner)
        self._loaded.runners[method.entry] = runner
        if method.state:
            self._loaded.stateful[method.entry] = runner
        self._lock = self._loaded.lock
        self._signature = Signature.of(artifact.manifest)
        self._fits = self._signature.fits
        self._finite: FiniteCheck | None = None
        chooses = artifact.manifest.by_size and artifact.manifest.selected is None
        self._sizes = SizeTable(artifact.manifest) if chooses else None
        # Sessions on other sizes, by the method's name: opened when they are first asked for.
        self._others: dict[str, Session] = {}

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

    @property
    def tuned_options(self) -> dict[str, Any]:
        """Engine settings that nobody gave: `edgex pick` found them quickest here."""
        return {name: self.settings.options[name] for name in self.settings.tuned_options}

    @property
    def methods(self) -> tuple[str, ...]:
        """Names of the artifact's methods, in its order."""
        return tuple(method.name for method in self.artifact.manifest.methods)

    def method(self, name: str) -> Session:
        """A Session on another method of what is loaded: the same weights, the same state, one run at a time.

        Args:
            name: One of `methods`; this Session's own name gives this Session.

        Raises:
            RunError: The artifact has no such method, its engine loads one method of it only, or the session is closed.
        """
        if name == self.artifact.manifest.method.name:
            return self
        artifact = self.artifact.select(name)
        method = artifact.manifest.method
        with self._lock:
            if self._closed:
                raise RunError("this Session is closed", fix="edgex.load(...) opens a new one")
            loaded = self._loaded
            runner = loaded.runners.get(method.entry)
            if runner is None:
                if not isinstance(loaded.runner, HasMethods):
                    raise RunError(
                        f"the engine {artifact.manifest.engine} runs one method of a loaded program",
                        artifact.path.name,
                        f"edgex.load(..., method={name!r}) opens it by itself",
                    )
                runner = loaded.runner.method(method)
        other = Session(artifact, runner, loaded)
        other.settings, other.assignment, other.simulator = self.settings, self.assignment, self.simulator
        if self._finite is not None:
            other.refuse_non_finite()
        return other

    def refuse_non_finite(self) -> None:
        """Refuse NaN and infinity from now on where the artifact is not proved to treat them as eager does."""
        check = FiniteCheck(self.artifact)
        self._finite = check if check.watched else None

    def run(self, *args: Any, **kwargs: Any) -> Outputs:
        """Run once; `session(x)` is the same.

        Args:
            *args: Inputs in order: NumPy arrays, torch tensors, or anything with `__dlpack__`; or one mapping from
                names to them: `run({"xs.0": a, "xs.1": b})`.
            **kwargs: Inputs by name.

        Returns:
            The outputs as NumPy arrays, in the manifest's order; a tuple that takes their names too.

        Raises:
            RunError: An input is missing, unknown, of another dtype or shape, or holds NaN or infinity that the
                artifact does not treat as eager does; or the engine failed.
        """
        if not kwargs and self._fits(args):
            arrays: Any = args
        else:
            if self._sizes is not None and (other := self._of_sizes(self._sizes, args, kwargs)) is not self:
                return other.run(*args, **kwargs)
            arrays = self._signature.prepare(*args, **kwargs)
        if self._finite is not None:
            self._finite.require(arrays)
        with self._lock:
            if self._loaded.closed:
                raise RunError("this Session is closed", fix="edgex.load(...) opens a new one")
            outputs = Outputs(self.runner.execute(arrays))
        outputs.names = self._output_names
        return outputs

    def __call__(self, *args: Any, **kwargs: Any) -> Outputs:
        """See `run`."""
        return self.run(*args, **kwargs)

    def prepare(self, *args: Any, **kwargs: Any) -> list[np.ndarray]:
        """Check inputs as `run` does, without running.

        Args:
            *args: As for `run`.
            **kwargs: As for `run`.

        Returns:
            C-contiguous arrays in the manifest's order and dtypes; an array that is already so is not copied.

        Raises:
            RunError: As `run`, before the engine.
        """
        if self._sizes is not None and (other := self._of_sizes(self._sizes, args, kwargs)) is not self:
            return other.prepare(*args, **kwargs)
        arrays = self._signature.prepare(*args, **kwargs)
        if self._finite is not None:
            self._finite.require(arrays)
        return arrays

    def _of_sizes(self, table: SizeTable, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Session:
        """The session whose method takes inputs of these sizes.

        Raises:
            RunError: There is none, or an input is missing or unknown.
        """
        values = self._signature.bind(*args, **kwargs)
        name = table.find(values)
        if name is None:
            raise table.refuse(values)
        if name == self.artifact.manifest.method.name:
            return self
        if name not in self._others:
            self._others[name] = self.method(name)
        return self._others[name]

    def reset(self) -> None:
        """Give every state tensor of what is loaded its initial value, whichever method keeps it."""
        with self._lock:
            if self._closed:
                raise RunError("this Session is closed", fix="edgex.load(...) opens a new one")
            for runner in self._loaded.stateful.values():
                runner.reset()

    def read_state(self) -> dict[str, np.ndarray]:
        """Copies of the state's tensors by name; bfloat16 as float32.

        Raises:
            RunError: The session is closed, or its engine does not give its state away.
        """
        with self._lock:
            return self._readable_state().read_state()

    def write_state(self, values: Mapping[str, np.ndarray]) -> None:
        """Put the state's tensors back.

        Args:
            values: All of them, as `read_state` gives them.

        Raises:
            RunError: One is missing, unknown, or of another dtype or shape; or as `read_state`.
        """
        expected = {spec.name: (spec.numpy_dtype, spec.shape) for spec in self.state}
        found = {name: (value.dtype, value.shape) for name, value in values.items()}
        if found != expected:
            wrong = sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))
            raise RunError(f"these are not this artifact's state: {', '.join(wrong)}", self.artifact.path.name)
        with self._lock:
            self._readable_state().write_state(values)

    def _readable_state(self) -> HasReadableState:
        if self._closed:
            raise RunError("this Session is closed", fix="edgex.load(...) opens a new one")
        if not isinstance(self.runner, HasReadableState):
            raise RunError(f"the engine {self.artifact.manifest.engine} does not give its state away")
        return self.runner

    def generator(self, tokenizer: str | os.PathLike[str] | None = None) -> Generator:
        """A text generator on this session, for artifacts of language models; it uses the session's state.

        Args:
            tokenizer: A `tokenizer.json` in place of the artifact's own.

        Raises:
            RunError: The artifact is no language model.
        """
        from edgex.runtime.generation.decoder import read_decoder
        from edgex.runtime.generation.generator import Generator

        return Generator(read_decoder(self), None if tokenizer is None else Path(tokenizer))

    def close(self) -> None:
        """Release the engine's memory, for all sessions on the loaded program. Closing twice is allowed."""
        with self._lock:
            if not self._closed:
                self._loaded.closed = True
                self._loaded.runner.close()

    @property
    def _closed(self) -> bool:
        return self._loaded.closed

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(str, specs)) or "nothing" for specs in (self.inputs, self.outputs))
        where = "closed" if self._closed else self.executed_on
        return f"<Session {self.artifact.path.name}: {inputs} -> {outputs}; {where}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens the artifact again, by its path; what is loaded does not travel.

        Raises:
            RunError: The session is closed, carries state, or `edgex.load` did not open it.
        """
        fix = "send the artifact's path, and call edgex.load there"
        if self.reopen is None or self._closed:
            raise RunError("this Session cannot be pickled", fix=fix, why="it is closed, or edgex.load did not open it")
        if self.state:
            why = "it carries state, which would start anew in the copy"
            raise RunError("this Session cannot be pickled", fix=fix, why=why)
        return (self.reopen, (self.artifact.digest,))

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
