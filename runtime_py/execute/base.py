"""What every device understands: one request, one answer, whatever lies between.

```python
with open_device("ssh:pi@raspberrypi") as device:
    answer = device.execute(artifact, DeviceRequest(sequences=((inputs,),), runs=100), progress)
```

`edgex run`, `verify` and `profile` are three kinds of request; `measure.device.commands` makes them, and turns the
answers into the same results that a run on this machine gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.support.host import HostInfo

Arrays = Mapping[str, np.ndarray]
# Told about each stage, with a detail.
Progress = Callable[[str, str], None]


def no_progress(_stage: str, _detail: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class DeviceInfo:
    """One device; None where it does not tell.

    Attributes:
        kind: `adb`, `ssh` or `local-native`.
        address: What `--device` takes to reach it.
        model: What people call it: `Pixel 8`, `Raspberry Pi 5 Model B`, a processor's name.
        soc: The chip, where the system names one.
        abi: What its programs are compiled for: `arm64-v8a`, `x86_64`, `aarch64`.
        os: System and version: `Android 15 (API 35)`, `Debian GNU/Linux 12`.
        libc: The C library with its version, for example `glibc 2.36`.
        free_memory_bytes: What programs can take now.
        features: Instruction sets, as the system names them.
        versions: Of what runs artifacts there, by name.
        problems: Why it cannot be used now, one sentence each; empty for a device that is ready.
    """

    kind: str
    address: str
    model: str | None = None
    soc: str | None = None
    abi: str | None = None
    os: str | None = None
    libc: str | None = None
    free_memory_bytes: int | None = None
    features: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """A JSON object with the fields as they are named here."""
        return {
            **asdict(self),
            "features": list(self.features),
            "versions": dict(self.versions),
            "problems": list(self.problems),
        }


@dataclass(frozen=True)
class DeviceOptions:
    """How a device is used.

    Attributes:
        app: adb: the benchmark app: an APK, the folder of a project of `edgex android`, or an application id; None is
            the one that is installed.
        executorch_wheel: Linux: the executorch wheel whose libraries fit it; None is what is installed here, or was
            given before.
        python: Linux: the interpreter there that has onnxruntime, for ONNX artifacts; None is `python3`.
    """

    executorch_wheel: Path | None = None
    python: str | None = None
    app: str | None = None


@dataclass(frozen=True)
class DeviceRequest:
    """What a device is to do with an artifact.

    Attributes:
        sequences: Runs whose outputs are wanted. Each sequence starts from the initial state; its steps are inputs by
            name: checked, C-contiguous arrays in the manifest's dtypes (bfloat16 as float32).
        threads: Threads of a run; None leaves it to the engine.
        warmup: Runs before the samples; None runs until the latency settles. Without `runs` there is no warm-up.
        runs: Samples to take of the first sequence; 0 takes none, None about three seconds' worth.
        fresh_processes: Processes in which load, first run and memory are measured; 0 measures what the one process
            of the runs shows.
        trace: Also record operators, in runs that are not among the samples, where the device can.
    """

    sequences: tuple[tuple[Arrays, ...], ...]
    threads: int | None = None
    warmup: int | None = None
    runs: int | None = 0
    fresh_processes: int = 0
    trace: bool = False


@dataclass(frozen=True)
class ColdStart:
    """One process on the device, from its start to the end of the first run, in seconds; None where it is not known.

    Attributes:
        program: Reading and checking the native file, plug-ins included.
        method: Making it ready to run.
        first: The first run.
        peak_rss_bytes: Largest resident set after the first run.
        check: Hashing the model.
        startup: The process, until it could begin to load: libraries, an interpreter, an engine.
        stages: Largest resident set up to the end of each stage, by its name in `edgex.runtime.measure.profile`.
    """

    program: float | None
    method: float | None
    first: float | None
    peak_rss_bytes: int | None = None
    check: float | None = None
    startup: float | None = None
    stages: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class DeviceAnswer:
    """What a device did. All times are the device's own clock, in seconds, but `copy_seconds`.

    Attributes:
        run_id: The identity that this run was given; an answer with another one is refused.
        model_digest: SHA-256 of the native file that ran, computed on the device.
        device: Where.
        executed_on: Who ran it: backends, or providers.
        threads: Threads in effect; None where the engine does not say.
        outputs: Per sequence and step, outputs by name (bfloat16 as float32). Empty where a device reports verdicts
            instead: see `verdicts`.
        verdicts: Results of golden cases that the device compared itself, as `edgex.verify/1` has them in `cases`;
            None where outputs came back.
        copy_seconds: Sending what the device did not have yet, by this machine's clock; None when nothing was sent.
        copied_bytes: How much that was.
        cold: Fresh processes, at least one.
        rounds: Samples in seconds per run, `[round][sample]`; empty where none were asked for.
        steps: Runs between two resets among the samples.
        calls_per_sample: Runs that share one sample, whose time is divided by them.
        warmup_runs: Warm-up runs made.
        warmup_seconds: How long they took.
        warmup_settled: Whether two windows agreed; None when the number of runs was given.
        versions: Of what ran it.
        trace: An ETDump, or what else the engine records, as bytes; None where there is none.
        no_trace_reason: Why there is none.
        conditions: What else the device said of itself around the run (temperature, frequency, battery, load), for
            people and tools; JSON's types only.
        warnings: Reasons to trust the figures less: `{"code", "text"}`.
    """

    run_id: str
    model_digest: str
    device: DeviceInfo
    executed_on: str
    threads: int | None
    outputs: tuple[tuple[Arrays, ...], ...]
    cold: tuple[ColdStart, ...]
    verdicts: Sequence[Mapping[str, Any]] | None = None
    copy_seconds: float | None = None
    copied_bytes: int = 0
    rounds: tuple[tuple[float, ...], ...] = ()
    steps: int = 1
    calls_per_sample: int = 1
    warmup_runs: int = 0
    warmup_seconds: float = 0.0
    warmup_settled: bool | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    trace: bytes | None = None
    no_trace_reason: str | None = None
    conditions: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[Mapping[str, str], ...] = ()


class Device(Protocol):
    """Something that can run artifacts. Every method raises DeviceError for what goes wrong on the way to it."""

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

    def execute(self, artifact: Artifact, request: DeviceRequest, progress: Progress = no_progress) -> DeviceAnswer:
        """Send the artifact unless it is there, run it, bring back the answer, leave nothing but the cached model.

        Raises:
            DeviceError: The device, or the connection, failed; or it cannot run this artifact.
            RunError: The engine refused the artifact or its inputs.
        """
        ...

    def close(self) -> None:
        """Remove what this session put there, and let go of the connection. Closing twice is allowed."""
        ...

    def __enter__(self) -> Device: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
