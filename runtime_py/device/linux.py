"""A Linux machine as a device: `local-native` and `ssh`, which differ in the way to it only."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Protocol

from edgex.errors import DeviceError
from edgex.runtime.artifact import Artifact
from edgex.runtime.device.base import (
    Arrays,
    DeviceAnswer,
    DeviceInfo,
    DeviceOptions,
    DeviceRequest,
    Progress,
    no_progress,
)
from edgex.runtime.device.lines import LineReader
from edgex.runtime.device.link import Link
from edgex.runtime.device.probe import Probed, probe
from edgex.runtime.device.tensors import describe_inputs, pack_tensors, unpack_tensors
from edgex.runtime.host import HostInfo

# Runs whose operators are recorded: few, as each event takes 70 bytes and a median needs no more.
_TRACED_RUNS = 50


@dataclass(frozen=True)
class Program:
    """What runs an artifact on a machine: a command line that takes the runner's flags.

    Attributes:
        command: Its beginning: program, model, plug-ins.
        model_digest: SHA-256 of the native file.
        executed_on: Who runs it; None where the program tells.
        versions: Of what runs it.
        traces: Whether it can record operators.
        no_trace_reason: Why it cannot.
    """

    command: tuple[str, ...]
    model_digest: str
    executed_on: str | None
    versions: dict[str, str]
    traces: bool = True
    no_trace_reason: str | None = None


class ProgramMaker(Protocol):
    """Puts what runs an artifact onto a machine."""

    def __call__(self, artifact: Artifact, link: Link, there: Probed, progress: Progress) -> Program:
        """Send it unless it is there.

        Raises:
            DeviceError: The machine cannot run this artifact.
        """
        ...


class LinuxDevice:
    """See `edgex.runtime.device.base.Device`."""

    def __init__(self, kind: str, link: Link, options: DeviceOptions) -> None:
        self._kind = kind
        self._link = link
        self._options = options
        self._probed: Probed | None = None

    @property
    def probed(self) -> Probed:
        """What the machine is; asked once."""
        if self._probed is None:
            self._probed = probe(self._link, self._kind, self._options.python)
        return self._probed

    @property
    def host(self) -> HostInfo:
        """The machine, as a profile describes one."""
        return self.probed.host

    def describe(self) -> DeviceInfo:
        """See `Device`."""
        return self.probed.info

    def execute(self, artifact: Artifact, request: DeviceRequest, progress: Progress = no_progress) -> DeviceAnswer:
        """See `Device`."""
        progress("device", "what it is")
        there = self.probed
        for problem in there.info.problems:
            raise DeviceError("the device cannot run artifacts", self._link.address, why=problem)
        _refuse_missing_isa(artifact, there)
        before = self._link.sent
        program = self._find_maker(artifact)(artifact, self._link, there, progress)
        sent = self._link.sent
        run_id = secrets.token_hex(8)
        work = self._link.make_workspace(run_id)
        try:
            job = _Job(self._link, work, artifact, program, request, run_id, there, progress)
            answer = job.answer()
        finally:
            self._link.remove_workspace(work)
        copied = sent.bytes - before.bytes
        seconds = sent.seconds - before.seconds if copied else None
        return replace(answer, copy_seconds=seconds, copied_bytes=copied)

    def close(self) -> None:
        """See `Device`."""
        self._link.close()

    def __enter__(self) -> LinuxDevice:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _find_maker(self, artifact: Artifact) -> ProgramMaker:
        engine = artifact.manifest.engine
        if engine == "executorch":
            from edgex.runtime.device.native import NativeMaker

            return NativeMaker(self._options.executorch_wheel)
        if engine == "onnxruntime":
            from edgex.runtime.device.python import PythonMaker

            return PythonMaker(self._options.python)
        raise DeviceError(
            f"artifacts of the engine {engine} cannot be run on a device",
            artifact.path.name,
            "export for xnnpack, onednn or onnx-cpu",
        )


def _refuse_missing_isa(artifact: Artifact, there: Probed) -> None:
    present = there.host.isa
    missing = [name for name in artifact.manifest.requirements.isa if present is not None and name not in present]
    if missing:
        raise DeviceError(
            f"the artifact needs a processor with {', '.join(missing)}, which the device's lacks",
            artifact.path.name,
            "run it on one that has them, or export the model again with --precision fp32",
        )


@dataclass(frozen=True)
class _Job:
    """One request, on one machine, in one folder of it."""

    link: Link
    work: str
    artifact: Artifact
    program: Program
    request: DeviceRequest
    run_id: str
    there: Probed
    progress: Progress

    def answer(self) -> DeviceAnswer:
        request = self.request
        method = self.artifact.manifest.method
        packed = b"".join(pack_tensors(method.inputs, step) for steps in request.sequences for step in steps)
        done = self.link.run(f"cat > {shlex.quote(f'{self.work}/in.tensors')}", packed)
        if done.code:
            raise DeviceError("the inputs cannot be sent", self.link.address, why=done.errors)
        cold = []
        for number in range(request.fresh_processes):
            self.progress("fresh", f"load and first run, process {number + 1} of {request.fresh_processes}")
            cold.append(self._start(["--case", "run:1:"]).cold())
        cases = [flag for steps in request.sequences for flag in ("--case", f"run:{len(steps)}:")]
        said = self._start([*cases, "--outputs", f"{self.work}/out.tensors", *self._sampling()])
        trace = self._trace(cases[:2]) if request.trace and self.program.traces else None
        found, loaded, plan = said.found, said.found.get("loaded", {}), said.found.get("plan", {})
        warmup = found.get("warmup", {})
        digest = str(found["model"]["sha256"])
        if digest != self.program.model_digest:
            raise DeviceError(
                "the device ran another model than it was given", self.link.address, why=f"its SHA-256 is {digest}"
            )
        return DeviceAnswer(
            run_id=self.run_id,
            model_digest=digest,
            device=self.there.info,
            executed_on=self.program.executed_on or str(loaded.get("executed_on")),
            threads=loaded.get("threads"),
            outputs=self._fetch_outputs(),
            cold=tuple(cold) or (said.cold(),),
            rounds=tuple(said.rounds),
            steps=int(plan.get("steps", 1)),
            calls_per_sample=int(plan.get("calls_per_sample", 1)),
            warmup_runs=int(warmup.get("runs", 0)),
            warmup_seconds=float(warmup.get("seconds", 0.0)),
            warmup_settled=warmup.get("settled"),
            versions=self.program.versions,
            trace=trace,
            no_trace_reason=self.program.no_trace_reason,
            conditions={"load_average_before": self.there.load_average},
        )

    def _sampling(self) -> list[str]:
        if self.request.runs == 0:
            return []
        counts = ("--warmup", self.request.warmup), ("--runs", self.request.runs)
        return [part for flag, count in counts for part in (flag, "auto" if count is None else str(count))]

    def _trace(self, case: Sequence[str]) -> bytes:
        """An ETDump of a process of its own: recording makes every run slower."""
        self.progress("trace", "operators, in runs of their own")
        file = f"{self.work}/trace.etdp"
        self._start([*case, "--etdump", file, "--warmup", "1", "--runs", str(_TRACED_RUNS)])
        return self._fetch(file)

    def _start(self, flags: Sequence[str]) -> LineReader:
        method = self.artifact.manifest.method
        said = LineReader(self.run_id, self.link.address, self.artifact.path.name, self.progress)
        command = [*self.program.command, "--run-id", self.run_id, "--inputs", f"{self.work}/in.tensors"]
        command += ["--threads", str(self.request.threads or self._default_threads())]
        for flag, values in (
            ("--input", describe_inputs(method.inputs)),
            ("--output", [spec.name for spec in method.outputs]),
            ("--state", [state.name for state in method.state]),
        ):
            command += [part for value in values for part in (flag, value)]
        said.finish(self.link.stream(self.work, [*command, *flags], said))
        return said

    def _default_threads(self) -> int:
        """The rule of `edgex.runtime.threads`: usable cores, or physical ones where they are fewer."""
        host = self.there.host
        known = [count for count in (host.usable_cores, host.physical_cores) if count]
        return max(1, min(known, default=1))

    def _fetch(self, file: str) -> bytes:
        done = self.link.run(f"cat {shlex.quote(file)}")
        if done.code:
            raise DeviceError("the answer cannot be fetched", self.link.address, why=done.errors)
        return done.output

    def _fetch_outputs(self) -> tuple[tuple[Arrays, ...], ...]:
        try:
            flat = unpack_tensors(self._fetch(f"{self.work}/out.tensors"))
        except (ValueError, KeyError) as error:
            raise DeviceError("the outputs arrived damaged", self.link.address, why=str(error)) from error
        expected = sum(len(steps) for steps in self.request.sequences)
        if len(flat) != expected:
            raise DeviceError("the outputs arrived damaged", self.link.address, why=f"{len(flat)} of {expected} sets")
        left = iter(flat)
        return tuple(tuple(next(left) for _ in steps) for steps in self.request.sequences)
