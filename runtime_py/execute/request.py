"""What an executor is asked, and what it answers: plain values, the same wherever an artifact runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgex.runtime.generation.sampling import GREEDY, Sampling

if TYPE_CHECKING:
    from edgex.errors import EdgexError
    from edgex.runtime.artifact.artifact import CheckLevel
    from edgex.runtime.engines.trace.tracing import EngineTrace
    from edgex.runtime.execute.here.memory_growth import MemoryGrowth
    from edgex.runtime.session.repeats import Repeat
    from edgex.runtime.session.session import ThreadsSource
    from edgex.runtime.support.machine.activity import Activity, MeasurementWarning

Arrays = Mapping[str, np.ndarray]


class MethodInputs(dict[str, Any]):
    """Inputs of a step that another method runs than the one that the artifact was opened with.

    Attributes:
        method: Its name.
    """

    def __init__(self, method: str, inputs: Arrays) -> None:
        super().__init__(inputs)
        self.method = method


def method_of(step: Mapping[str, Any]) -> str | None:
    """The method that runs a step; None is the one that the artifact was opened with."""
    return step.method if isinstance(step, MethodInputs) else None


@dataclass(frozen=True)
class DeviceInfo:
    """A machine that runs artifacts; None where it does not tell.

    Attributes:
        kind: `adb`, `ssh` or `local-native`; `here` for this process and its children.
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
class Address:
    """A device as `--device` names it.

    Attributes:
        kind: How it is reached: the name of an entry point.
        serial: adb: which of several; None where there is only one. Kinds of other packages: what follows the kind.
        user: ssh: None leaves it to the user's ssh configuration.
        host: ssh: a name, an alias of the configuration, or an IP address without brackets.
        port: ssh: None leaves it to the configuration.
    """

    kind: str
    serial: str | None = None
    user: str | None = None
    host: str | None = None
    port: int | None = None

    def __str__(self) -> str:
        if self.kind != "ssh":
            return f"{self.kind}:{self.serial}" if self.serial else self.kind
        host = f"[{self.host}]" if ":" in str(self.host) else self.host
        user = f"{self.user}@" if self.user else ""
        return f"ssh:{user}{host}" + (f":{self.port}" if self.port else "")


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
class Turn:
    """A part of a measurement that several artifacts take in turns, each in a process that is kept between requests.

    What is timed is the first sequence of the request, once with all of its steps as a whole where there is state. The
    first turn with these sequences also warms up, and its result has a `pace`.

    Attributes:
        session: Which session of the process: where it is not that of the turn before, the session is opened again,
            elsewhere in memory, and warmed up.
        passes: Samples, or whole sequences with state, that are timed; 0 only makes ready.
        lead_in: Whether a pass comes before that is not counted.
    """

    session: int = 0
    passes: int = 0
    lead_in: bool = False


@dataclass(frozen=True)
class Pace:
    """What is to be known of whoever takes turns before they can be planned.

    Attributes:
        sample_seconds: Mean wall time of one sample.
        samples_per_pass: Samples of the smallest thing that is timed: 1, or those of one sequence with state.
        rest_seconds: How long its threads take to come to rest after a turn.
        open_seconds: How long opening its session took, warm-up of the new session included.
    """

    sample_seconds: float
    samples_per_pass: int
    rest_seconds: float
    open_seconds: float


@dataclass(frozen=True)
class RunRequest:
    """What an executor is to do with an artifact.

    Attributes:
        sequences: Runs whose outputs are wanted. Each sequence starts from the initial state; its steps are inputs by
            name, of whatever `Session.run` takes: every executor checks them first, and refuses a sequence that does
            not fit. A step that is `MethodInputs` is run by another method of what is loaded, where the executor can do
            that; else its sequence is left out.
        threads: Threads of a run; None leaves it to the engine.
        options: Engine settings by name; devices take none.
        check: How the artifact is checked before it is loaded.
        warmup: Runs before the samples; None runs until the latency settles. Without `runs` there is no warm-up.
        runs: Samples to take of the first sequence; 0 takes none, None about three seconds' worth.
        fresh_processes: Processes in which load, first run and memory are measured; 0 measures none apart.
        repeat_seconds: How long the sequences may be run once more in each of the ways of `repeats`, to see whether the
            same comes out; 0 does not. Only where a session can be opened as often as that needs: on this machine.
        trace: Also record operators and read meters, in runs that are not among the samples, where that can be done.
        turn: Take a turn instead of `runs`; only executors that keep their process do. Outputs are then left out.
    """

    sequences: tuple[tuple[Mapping[str, Any], ...], ...]
    threads: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    check: CheckLevel = "hash"
    warmup: int | None = None
    runs: int | None = 0
    fresh_processes: int = 0
    trace: bool = False
    repeat_seconds: float = 0.0
    turn: Turn | None = None


@dataclass(frozen=True)
class TextRequest:
    """What an executor that generates is to do; prompts become ids, and ids text, here.

    Attributes:
        ids: The prompt, within the model's limits.
        max_new: The most tokens to generate.
        sampling: How each is chosen.
        ignore_eos: Go on behind an id that ends a text.
        threads: Threads of a run; None leaves it to the engine.
        source: What the encoder takes, by name; None for a model without one.
    """

    ids: tuple[int, ...]
    max_new: int = 128
    sampling: Sampling = GREEDY
    ignore_eos: bool = False
    threads: int | None = None
    source: Arrays | None = None


@dataclass(frozen=True)
class FreshRun:
    """Load and first run of one fresh process, in seconds, and its memory, in bytes.

    Attributes:
        check: Sizes and hashes of the artifact; None where a device does not tell.
        engine_import: Importing the engine and setting it up: all of opening that is not program or method. On a
            device, the process until it could begin to load. None where it is not known.
        program: Reading and checking the native file, plug-ins included; None where the engine does that and `method`
            in one step.
        method: Making it ready to run.
        first: The first run.
        peak_rss_bytes: Largest resident set of the process, interpreter and engine included.
        stages: The same up to the end of each stage of `MemoryStage`; empty where the system does not say.
    """

    check: float | None
    engine_import: float | None
    program: float | None
    method: float
    first: float
    peak_rss_bytes: int | None
    stages: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class RunResult:
    """What an executor did. Times are of the machine that ran it, in seconds, but `copy_seconds`.

    Attributes:
        executed_on: Who ran it: backends, or providers.
        threads: Threads in effect; None where the engine does not say.
        outputs: Per sequence and step, outputs by name (bfloat16 as float32). A refused sequence has the steps before.
        refused: Sequences that did not fit, or that the engine refused, by number. Executors elsewhere raise where an
            engine refuses.
        threads_source: Where the number of threads comes from.
        tuned_options: Engine settings that the request did not name: a pick found them quickest here.
        assignment: How many nodes each provider of the engine ran; None where it does not tell.
        planned_arena_bytes: Memory that the native file plans for activations; None where it is not known.
        repeats: What came out otherwise when the sequences were run once more; None where they were not.
        cold: Fresh processes.
        rounds: Samples in seconds per run, `[round][sample]`; empty where none were asked for.
        steps: Runs between two resets among the samples.
        calls_per_sample: Runs that share one sample, whose time is divided by them.
        planned_rounds: Rounds that were planned; more than there are where the run was interrupted.
        samples_per_round: Samples that were planned for each round.
        warmup_runs: Warm-up runs made.
        warmup_seconds: How long they took.
        warmup_settled: Whether two windows agreed; None when the number of runs was given.
        clock: Which clock.
        pace: Of whom turns are asked, in the first of them; None in all others.
        switches: How often the scheduler took a core away while a turn was timed.
        activity: What else the machine did while samples were taken; None where none were.
        versions: Of what ran it.
        simulator: What ran it in place of the device that the artifact is for; None where nothing did.
        left_out: Why sequences were not simulated, by number; see `Simulator.seconds`.
        trace: Operators of traced runs; None where there is none.
        no_trace_reason: Why there is none, where one was asked for.
        energy: `joules_per_run` and `source`; None without a meter.
        growth: How this process's memory grew over many runs; None where nobody looked.
        counters: The processor's counters per run; None where it counts nothing.
        device: Where; None for this process and its children.
        run_id: The identity that a run on a device was given; an answer with another one is refused.
        model_digest: SHA-256 of the native file that ran, computed on the device.
        copy_seconds: Sending what the device did not have yet, by this machine's clock; None when nothing was sent.
        copied_bytes: How much that was.
        conditions: What else the device said of itself around the run (temperature, frequency, battery, load), for
            people and tools; JSON's types only.
        warnings: Reasons to trust the figures less, that the device gives.
    """

    executed_on: str
    threads: int | None
    outputs: Sequence[tuple[Arrays, ...]]
    refused: Mapping[int, EdgexError] = field(default_factory=dict)
    threads_source: ThreadsSource = "default"
    tuned_options: Mapping[str, Any] = field(default_factory=dict)
    assignment: Mapping[str, int] | None = None
    planned_arena_bytes: int | None = None
    repeats: tuple[Repeat, ...] | None = None
    cold: tuple[FreshRun, ...] = ()
    rounds: tuple[tuple[float, ...], ...] = ()
    steps: int = 1
    calls_per_sample: int = 1
    planned_rounds: int | None = None
    samples_per_round: int | None = None
    warmup_runs: int = 0
    warmup_seconds: float = 0.0
    warmup_settled: bool | None = None
    clock: str = "time.perf_counter_ns"
    pace: Pace | None = None
    switches: int = 0
    activity: Activity | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    simulator: str | None = None
    left_out: Mapping[int, str] = field(default_factory=dict)
    trace: EngineTrace | None = None
    no_trace_reason: str | None = None
    energy: Mapping[str, Any] | None = None
    counters: Mapping[str, Any] | None = None
    growth: MemoryGrowth | None = None
    device: DeviceInfo | None = None
    run_id: str | None = None
    model_digest: str | None = None
    copy_seconds: float | None = None
    copied_bytes: int = 0
    conditions: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[MeasurementWarning, ...] = ()

    @property
    def place(self) -> str:
        """Who ran it, with the device."""
        return self.executed_on if self.device is None else f"{self.executed_on} (on {self.device.address})"

    def describe_device(self) -> dict[str, Any] | None:
        """The object `device` of the documents: what the device is, and what sending took; None for here."""
        if self.device is None:
            return None
        return {
            **self.device.to_json(),
            "run_id": self.run_id,
            "model_sha256": self.model_digest,
            "copy_seconds": self.copy_seconds,
            "copied_bytes": self.copied_bytes,
        }
