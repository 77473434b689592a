"""A Linux machine as a device: `local-native` and `ssh`, which differ in the way to it only."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from edgex.errors import DeviceError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.execute.base import (
    Closing,
    Keep,
    Prepared,
    Progress,
    keep_nothing,
    no_progress,
    prepare_sequences,
    refuse_what_needs_this_machine,
)
from edgex.runtime.execute.kit.text import DeviceText, text_flags
from edgex.runtime.execute.linux.link import Done, Link, Sent, ShellJob, follow
from edgex.runtime.execute.linux.probe import Probed, probe_machine
from edgex.runtime.execute.linux.program import Program, ProgramMaker
from edgex.runtime.execute.linux.transcript import Transcript
from edgex.runtime.execute.request import Arrays, DeviceInfo, DeviceOptions, RunRequest, RunResult, TextRequest
from edgex.runtime.execute.tensors import describe_inputs, pack_tensors, unpack_tensors
from edgex.runtime.execute.tracing import read_recorded
from edgex.runtime.generation.sampling import Sampler
from edgex.runtime.support.machine.host import HostInfo

# Runs whose operators are recorded: few, as each event takes 70 bytes and a median needs no more.
_TRACED_RUNS = 50
_OUTPUTS, _TRACE = "out.tensors", "trace.etdp"


class LinuxDevice(Closing):
    """See `edgex.runtime.execute.base.Executor`."""

    engines = ("executorch", "onnxruntime")

    def __init__(self, kind: str, link: Link, options: DeviceOptions) -> None:
        self._kind = kind
        self._link = link
        self._options = options
        self._probed: Probed | None = None

    @property
    def probed(self) -> Probed:
        """What the machine is; asked once."""
        if self._probed is None:
            self._probed = probe_machine(self._link, self._kind)
        return self._probed

    @property
    def host(self) -> HostInfo:
        """The machine, as a profile describes one."""
        return self.probed.host

    def describe(self) -> DeviceInfo:
        """See `Executor`."""
        return self.probed.info

    def execute(
        self, artifact: Artifact, request: RunRequest, progress: Progress = no_progress, keep: Keep = keep_nothing
    ) -> RunResult:
        """See `Executor`."""
        refuse_what_needs_this_machine(request, self._link.address)
        prepared = prepare_sequences(artifact, request, one_method=True)
        program, sent = self._provide(artifact, progress)
        run_id = secrets.token_hex(8)
        job = _Job(self._link, artifact, program, request, prepared, run_id, self.probed, progress)
        return replace(job.answer(), copy_seconds=sent.seconds if sent.bytes else None, copied_bytes=sent.bytes)

    def generate(self, artifact: Artifact, request: TextRequest, progress: Progress = no_progress) -> DeviceText:
        """See `edgex.runtime.execute.base.GeneratesText`."""
        if artifact.manifest.engine != "executorch":
            raise DeviceError(
                f"generating on a device takes the native runner, which runs no artifact of {artifact.manifest.engine}",
                artifact.path.name,
                "edgex export MODEL -t xnnpack --llm --context N",
            )
        # Its draws can be drawn again, however the text ends: the seed is known here.
        request = replace(request, sampling=replace(request.sampling, seed=Sampler(request.sampling).seed))
        flags = text_flags(artifact, request)
        program, sent = self._provide(artifact, progress)
        flags += ["--threads", str(request.threads or default_threads(self.host))]
        return DeviceText(self._link, artifact, program, request, flags, self.probed.info, sent)

    def _provide(self, artifact: Artifact, progress: Progress) -> tuple[Program, Sent]:
        """Put what runs an artifact there; what had to be sent.

        Raises:
            DeviceError: The machine cannot run it.
        """
        progress("device", "what it is")
        there = self.probed
        for problem in there.info.problems:
            raise DeviceError("the device cannot run artifacts", self._link.address, why=problem)
        _refuse_missing_isa(artifact, there)
        before = self._link.sent
        program = self._find_maker(artifact)(artifact, self._link, there, progress)
        after = self._link.sent
        return program, Sent(after.bytes - before.bytes, after.seconds - before.seconds)

    def close(self) -> None:
        """See `Executor`."""
        self._link.close()

    def _find_maker(self, artifact: Artifact) -> ProgramMaker:
        engine = artifact.manifest.engine
        if engine == "executorch":
            from edgex.runtime.execute.linux.native import NativeMaker

            return NativeMaker(self._options.executorch_wheel)
        if engine == "onnxruntime":
            from edgex.runtime.execute.linux.python import PythonMaker

            return PythonMaker(self._options.python or "python3")
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


def default_threads(host: HostInfo) -> int:
    """The rule of `edgex.runtime.support.machine.threads`: usable cores, or physical ones where they are fewer."""
    known = [count for count in (host.usable_cores, host.physical_cores) if count]
    return max(1, min(known, default=1))


@dataclass(frozen=True)
class _Job:
    """One request, on one machine, in one folder of it."""

    link: Link
    artifact: Artifact
    program: Program
    request: RunRequest
    prepared: Prepared
    run_id: str
    there: Probed
    progress: Progress

    def answer(self) -> RunResult:
        request, specs, sequences = self.request, self.artifact.manifest.method.inputs, self.prepared.sequences
        if 0 in self.prepared.refused:
            raise self.prepared.refused[0]
        packed = b"".join(pack_tensors(specs, step) for steps in sequences for step in steps)
        cases = [flag for steps in sequences for flag in ("--case", f"run:{len(steps)}:")]
        traced = request.trace and self.program.traces
        flags = [["--case", "run:1:"]] * request.fresh_processes
        flags.append([*cases, "--outputs", _OUTPUTS, *self._sampling()])
        if traced:
            # In a process of its own: recording makes every run slower.
            flags.append([*cases[:2], "--etdump", _TRACE, "--warmup", "1", "--runs", str(_TRACED_RUNS)])
        said, files = self._run(packed, flags, [_OUTPUTS, *([_TRACE] if traced else [])])
        main = said[request.fresh_processes]
        loaded = main.found.get("loaded", {})
        if "model" not in main.found:
            raise DeviceError("the device does not say which model ran", self.link.address, "run it again")
        digest = str(main.found["model"]["sha256"])
        if digest != self.program.model_digest:
            raise DeviceError(
                "the device ran another model than it was given", self.link.address, why=f"its SHA-256 is {digest}"
            )
        given_up = main.found.get("left_out", {})
        left_out = {int(number): str(given_up["reason"]) for number in given_up.get("sequences", ())}
        stopped = {self.prepared.numbers[at]: reason for at, reason in left_out.items()}
        trace, reason = read_recorded(files.get(_TRACE), self.artifact, sequences[0][0])
        return RunResult(
            executed_on=self.program.executed_on or str(loaded.get("executed_on")),
            threads=loaded.get("threads"),
            outputs=self.prepared.spread(self._split_outputs(files[_OUTPUTS], left_out)),
            refused=self.prepared.refused,
            simulator=loaded.get("simulator"),
            left_out={**self.prepared.left_out, **stopped},
            threads_source="default" if request.threads is None else "given",
            planned_arena_bytes=self.program.planned_arena_bytes,
            cold=tuple(one.cold() for one in said[: request.fresh_processes] or [main]),
            **main.events.describe(),
            clock="the device's",
            versions=self.program.versions,
            trace=trace,
            no_trace_reason=reason or self.program.no_trace_reason,
            device=self.there.info,
            run_id=self.run_id,
            model_digest=digest,
            conditions={"load_average_before": self.there.load_average},
        )

    def _run(
        self, data: bytes, flags: Sequence[Sequence[str]], files: Sequence[str]
    ) -> tuple[list[Transcript], Mapping[str, bytes]]:
        """Start a process for each of `flags`, one after the other; what they said, and the files that came back."""
        address, name = self.link.address, self.artifact.path.name
        said = [Transcript(self.run_id, address, name, self.progress) for _ in flags]
        common = self._common_flags()
        commands = [[*self.program.command, *common, *more] for more in flags]

        def on_line(line: str) -> None:
            said[min(sum("done" in one.found for one in said), len(said) - 1)](line)

        job = ShellJob(self.link.workspace(self.run_id), data, commands, files)
        done = follow(self.link.stream(job), on_line)
        if done.code and "No space left" in done.errors:
            raise DeviceError(
                "the device is out of space: the run's inputs and outputs do not fit",
                address,
                "free some space there",
                why=done.errors,
            )
        for at, one in enumerate(said):
            code = done.codes[at] if at < len(done.codes) else done.code
            one.finish(Done(code, b"", done.errors))
        missing = [file for file in files if file not in done.files]
        if missing or done.code:
            why = done.errors or f"exit code {done.code}"
            raise DeviceError(f"{', '.join(missing) or 'the answer'} did not come back whole", address, why=why)
        return said, done.files

    def _common_flags(self) -> list[str]:
        method = self.artifact.manifest.method
        flags = ["--run-id", self.run_id, "--inputs", "in.tensors"]
        flags += ["--threads", str(self.request.threads or default_threads(self.there.host))]
        for flag, values in (
            ("--input", describe_inputs(method.inputs)),
            ("--output", [spec.name for spec in method.outputs]),
            ("--state", [state.name for state in method.state]),
        ):
            flags += [part for value in values for part in (flag, value)]
        return flags

    def _sampling(self) -> list[str]:
        if self.request.runs == 0:
            return []
        counts = ("--warmup", self.request.warmup), ("--runs", self.request.runs)
        return [part for flag, count in counts for part in (flag, "auto" if count is None else str(count))]

    def _split_outputs(self, data: bytes, left_out: Collection[int]) -> tuple[tuple[Arrays, ...], ...]:
        try:
            flat = unpack_tensors(data)
        except (ValueError, KeyError) as error:
            raise DeviceError("the outputs arrived damaged", self.link.address, why=str(error)) from error
        counts = [0 if at in left_out else len(steps) for at, steps in enumerate(self.prepared.sequences)]
        expected = sum(counts)
        if len(flat) != expected:
            raise DeviceError("the outputs arrived damaged", self.link.address, why=f"{len(flat)} of {expected} sets")
        left = iter(flat)
        return tuple(tuple(next(left) for _ in range(count)) for count in counts)
