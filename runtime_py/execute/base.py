"""The one way to execute an artifact: a request, an executor, a result, whatever lies between.

```python
with open_executor("ssh:pi@raspberrypi") as executor:          # or InProcess(), FreshProcess()
    result = executor.execute(artifact, RunRequest(sequences=((inputs,),), runs=100), progress)
```

| executor | runs it | for |
|---|---|---|
| `edgex.runtime.execute.here.in_process.InProcess` | in this process | one run, steady latency, operators |
| `edgex.runtime.execute.here.fresh_process.FreshProcess` | in a new process | proof, load, first run, memory |
| `edgex.runtime.execute.here.kept_process.KeptProcess` | in one process, kept | timing in turns, many small requests |
| `local-native`, `ssh:HOST` (`edgex.runtime.execute.linux`) | the native runner, or some files of edgex | Linux |
| `adb:SERIAL` (`edgex.runtime.execute.adb`) | the benchmark app | Android |

`run`, `verify`, `profile`, `compare` and `sweep` make requests, and make the same of the results wherever they come
from. A new place to run is a class with the methods of `Executor`, and an entry point in the group
`edgex.executors`: see `edgex.runtime.execute.address`. `tests/runtime/execute/test_conformance.py` runs over all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from edgex.errors import EdgexError, RunError, UsageError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.execute.request import (
    Address,
    Arrays,
    DeviceInfo,
    DeviceOptions,
    MethodInputs,
    RunRequest,
    RunResult,
    TextRequest,
    method_of,
)
from edgex.runtime.session.signature import Signature

if TYPE_CHECKING:
    from typing import Self

    from edgex.runtime.generation.generator import Finish, Spent
    from edgex.runtime.support.machine.host import HostInfo

# Told about each stage, with a detail.
Progress = Callable[[str, str], None]


def no_progress(_stage: str, _detail: str) -> None:
    """Tell nobody."""


# Receives what there is so far: when more is to come, and when the run is interrupted.
Keep = Callable[[RunResult], object]


def keep_nothing(_result: RunResult) -> None:
    """Nobody wants a part."""


class Executor(Protocol):
    """Something that executes artifacts. Its methods raise DeviceError for what goes wrong on the way to it."""

    def describe(self) -> DeviceInfo:
        """What it is. Problems that keep it from running artifacts are in the answer, not raised.

        Raises:
            DeviceError: It cannot be reached.
        """
        ...

    @property
    def host(self) -> HostInfo:
        """The machine, as a profile describes one; read when it is first asked for."""
        ...

    def execute(
        self, artifact: Artifact, request: RunRequest, progress: Progress = no_progress, keep: Keep = keep_nothing
    ) -> RunResult:
        """Execute an artifact; elsewhere, send it unless it is there, and leave nothing but the cached model.

        Args:
            artifact: What runs.
            request: What is wanted.
            progress: Told about each stage, with a detail, as it comes.
            keep: Receives samples before slower passes begin, and where the run is interrupted.

        Raises:
            DeviceError: The device, or the connection, failed; or it cannot run this artifact.
            RunError: The engine refused the artifact or, elsewhere, its inputs.
        """
        ...

    def close(self) -> None:
        """Remove what this session put there, and release the connection. Closing twice is allowed."""
        ...

    def __enter__(self) -> Executor: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@runtime_checkable
class RunsSomeEngines(Protocol):
    """An executor that runs artifacts of some engines only; of others, only running an artifact tells.

    Attributes:
        engines: Their names.
    """

    engines: tuple[str, ...]


class TextRun(Protocol):
    """A text that is being generated: iterate over its new ids.

    Attributes:
        finish: Why it ended; None while it has not.
        seed: What the draws started from; None where nothing is drawn, or it is not known yet.
        spent: Tokens and seconds so far.
        load_seconds: Checking and loading the model; None where it is not known yet.
        result: Who ran it and where, without outputs.
    """

    seed: int | None
    spent: Spent
    load_seconds: float | None

    @property
    def finish(self) -> Finish | None:
        """See above."""
        ...

    @property
    def result(self) -> RunResult:
        """See above."""
        ...

    def __iter__(self) -> Iterator[int]: ...


@runtime_checkable
class GeneratesText(Protocol):
    """An executor that can generate."""

    def generate(self, artifact: Artifact, request: TextRequest, progress: Progress = no_progress) -> TextRun:
        """Generate, from an empty text; nothing runs before the first id is asked for.

        Raises:
            DeviceError: The device cannot run this artifact, or the way to it failed; also from the run.
            RunError: The engine failed, or it is no language model.
        """
        ...


class ExecutorKind(Protocol):
    """Executors that are reached in the same way: what an entry point of the group `edgex.executors` names."""

    def open(self, address: Address, options: DeviceOptions) -> Executor:
        """Open the one that is meant; nothing is sent to it yet.

        Args:
            address: As `--device` names it.
            options: How it is used.

        Raises:
            DeviceError: It cannot be reached.
        """
        ...

    def list(self) -> list[DeviceInfo]:
        """Those that can be found without being named; empty where that cannot be done."""
        ...


class Closing:
    """The end of a `with` block closes; nothing is held unless `close` says otherwise."""

    def close(self) -> None:
        """See `Executor`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Here(Closing):
    """What all executors say that run on this machine as it is."""

    def describe(self) -> DeviceInfo:
        """See `Executor`."""
        host = self.host
        return DeviceInfo("here", "here", host.cpu, abi=host.machine, os=host.system, features=host.isa or ())

    @property
    def host(self) -> HostInfo:
        """See `Executor`."""
        from edgex.runtime.support.machine.host import read_host

        return read_host()


@dataclass(frozen=True)
class Prepared:
    """The sequences of a request, checked as a Session checks them before any engine sees them.

    Attributes:
        sequences: Those that fit, as C-contiguous arrays in the manifest's dtypes (bfloat16 as float32).
        numbers: Which of the request's they are.
        refused: Why others do not fit, by number.
        left_out: Why others cannot be run there, by number.
    """

    sequences: tuple[tuple[Arrays, ...], ...]
    numbers: tuple[int, ...]
    refused: Mapping[int, EdgexError]
    left_out: Mapping[int, str] = field(default_factory=dict)

    def spread(self, outputs: Sequence[tuple[Arrays, ...]]) -> Sequence[tuple[Arrays, ...]]:
        """Outputs of the sequences that fit, with none for those that did not."""
        if not self.refused and not self.left_out:
            return outputs
        found = dict(zip(self.numbers, outputs, strict=True))
        others = len(self.refused) + len(self.left_out)
        return tuple(found.get(number, ()) for number in range(len(self.numbers) + others))


_ONE_METHOD = "it runs several methods in turn, and a process there runs one"


def prepare_sequences(artifact: Artifact, request: RunRequest, *, one_method: bool = False) -> Prepared:
    """Check the inputs of every sequence, for an executor that sends them elsewhere.

    Args:
        artifact: What runs.
        request: What is wanted.
        one_method: What runs there has one method loaded: sequences over several are left out.
    """
    manifest = artifact.manifest
    signatures = {
        name: Signature.of(manifest.select(name))
        for name in {method_of(step) for sequence in request.sequences for step in sequence}
    }
    fitting: dict[int, tuple[Arrays, ...]] = {}
    refused: dict[int, EdgexError] = {}
    left_out: dict[int, str] = {}
    for number, sequence in enumerate(request.sequences):
        if one_method and any(method_of(step) is not None for step in sequence):
            left_out[number] = _ONE_METHOD
            continue
        try:
            fitting[number] = tuple(_prepare_step(step, signatures) for step in sequence)
        except RunError as error:
            refused[number] = error
    return Prepared(tuple(fitting.values()), tuple(fitting), refused, left_out)


def _prepare_step(step: Mapping[str, Any], signatures: Mapping[str | None, Signature]) -> Arrays:
    method = method_of(step)
    inputs = signatures[method].prepare_named(**step)
    return inputs if method is None else MethodInputs(method, inputs)


def refuse_what_needs_this_machine(request: RunRequest, address: str) -> None:
    """A device's engine takes no settings, and no process is kept there from request to request.

    Raises:
        UsageError: Either is asked for.
    """
    if request.options:
        raise UsageError(f"engine settings are for this machine, not for {address}", why=", ".join(request.options))
    refuse_turn(request, address)


def refuse_turn(request: RunRequest, address: str) -> None:
    """Whoever keeps no process from request to request takes no turns.

    Raises:
        UsageError: One is asked for.
    """
    if request.turn is not None:
        raise UsageError(f"turns need a process that is kept between requests, which {address} has not")
