"""What a Session asks of an engine: the loaded native file, how it is to run, and where load time went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from edgex.runtime.artifact.manifest import Method


@dataclass(frozen=True)
class EngineSettings:
    """How a session is to run.

    Attributes:
        threads: Threads for one run; None leaves it to the engine, whose default is
            `edgex.runtime.support.machine.threads.default_threads()`.
        options: Further settings by name; an engine refuses those it does not know.
        preferred_threads: What to take instead of the default, found quickest on this machine. Unlike `threads` it is
            no order: an engine that cannot take it just now goes on with what it has.
        tuned_options: Names among `options` that nobody gave: a pick found their values quickest on this machine.
    """

    threads: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    preferred_threads: int | None = None
    tuned_options: tuple[str, ...] = ()


@dataclass(frozen=True)
class LoadSeconds:
    """Where load time went.

    Attributes:
        program: Reading and checking the native file; None where the engine does both in one call.
        method: Making it ready to run (kernels chosen, weights packed).
    """

    program: float | None
    method: float


class Runner(Protocol):
    """One loaded method of one native file.

    Attributes:
        executed_on: Who really runs it, read back from the engine, for example `executorch: XnnpackBackend`.
        threads: Threads in effect, or None where the engine does not say.
        load_seconds: How long loading took.
        planned_arena_bytes: Memory planned for activations, None when unknown.
    """

    executed_on: str
    threads: int | None
    load_seconds: LoadSeconds
    planned_arena_bytes: int | None

    def execute(self, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """Run once.

        Args:
            inputs: C-contiguous arrays in the manifest's order and dtypes, already checked.

        Returns:
            The user's outputs in the manifest's order, owned by the caller: a later run does not overwrite them.

        Raises:
            RunError: The engine refused.
        """
        ...

    def reset(self) -> None:
        """Give every state tensor its initial value."""
        ...

    def close(self) -> None:
        """Release the engine's memory; called once."""
        ...


@runtime_checkable
class HasMethods(Protocol):
    """A runner whose engine loads all methods of an artifact as one program, with one set of weights and state."""

    def method(self, method: Method) -> Runner:
        """What runs another method of the same loaded program; closing this runner closes it too.

        Raises:
            RunError: The program has no such entry.
        """
        ...


@runtime_checkable
class HasReadableState(Protocol):
    """A runner whose state can be copied out and put back."""

    def read_state(self) -> dict[str, np.ndarray]:
        """Copies of the state's tensors, by name, in the dtypes of their specs' arrays."""
        ...

    def write_state(self, values: Mapping[str, np.ndarray]) -> None:
        """Give state tensors these values: all of them, of the right dtypes and shapes."""
        ...
