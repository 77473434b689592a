"""A text that the native runner generates on a Linux machine, token by token as its lines come."""

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing

from edgex.errors import DeviceError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.execute.base import no_progress
from edgex.runtime.execute.kit.generation import decoder_flags, sampling_flags
from edgex.runtime.execute.linux.link import Done, Link, Sent, ShellJob, Streamed
from edgex.runtime.execute.linux.program import Program
from edgex.runtime.execute.linux.transcript import Transcript
from edgex.runtime.execute.request import DeviceInfo, RunResult, TextRequest
from edgex.runtime.generation.generator import Finish, Spent
from edgex.runtime.generation.limits import read_limits

# Where `ShellJob` puts what is sent to the program.
_IDS = "in.tensors"


def text_flags(artifact: Artifact, request: TextRequest) -> list[str]:
    """What the runner's `generate` is told, but for where its files are.

    Raises:
        RunError: It is no language model, or the prompt does not fit it.
    """
    read_limits(artifact).check_ids(request.ids)
    flags = [*decoder_flags(artifact), *sampling_flags(request.sampling), "--max-new", str(request.max_new)]
    return [*flags, *(["--ignore-eos"] if request.ignore_eos else [])]


class DeviceText:
    """See `edgex.runtime.execute.base.TextRun`. Left early, the program there is ended."""

    def __init__(
        self,
        link: Link,
        artifact: Artifact,
        program: Program,
        request: TextRequest,
        flags: Sequence[str],
        device: DeviceInfo,
        sent: Sent,
    ) -> None:
        """Nothing runs yet."""
        self.finish: Finish | None = None
        self.seed = request.sampling.seed if request.sampling.temperature else None
        self.spent = Spent()
        self.load_seconds: float | None = None
        self._link, self._artifact, self._program, self._request = link, artifact, program, request
        self._flags, self._device, self._sent = tuple(flags), device, sent
        self._transcript = Transcript(secrets.token_hex(8), link.address, artifact.path.name, no_progress)

    @property
    def result(self) -> RunResult:
        """Who ran it and where."""
        loaded = self._transcript.found.get("loaded", {})
        return RunResult(
            executed_on=str(self._program.executed_on),
            threads=loaded.get("threads"),
            outputs=(),
            versions=self._program.versions,
            device=self._device,
            run_id=self._transcript.run_id,
            model_digest=self._program.model_digest,
            copy_seconds=self._sent.seconds if self._sent.bytes else None,
            copied_bytes=self._sent.bytes,
        )

    def __iter__(self) -> Iterator[int]:
        with closing(self._link.stream(self._job())) as lines:
            done = yield from self._follow(lines)
        code = done.codes[-1] if done.codes else done.code
        self._transcript.finish(Done(code, b"", done.errors))
        self._take_end()

    def _job(self) -> ShellJob:
        program, *model = self._program.command
        run_id = self._transcript.run_id
        command = [program, "generate", *model, *self._flags, "--ids-file", _IDS, "--json", "--run-id", run_id]
        return ShellJob(
            self._link.workspace(run_id), " ".join(map(str, self._request.ids)).encode(), [command], files=()
        )

    def _follow(self, lines: Generator[str, None, Streamed]) -> Generator[int, None, Streamed]:
        vocabulary, found = read_limits(self._artifact).vocabulary, self._transcript.found
        while True:
            try:
                line = next(lines)
            except StopIteration as end:
                done: Streamed = end.value
                return done
            self._transcript(line)
            token = found.pop("token", None)
            if token is None:
                continue
            if token["id"] >= vocabulary or self.spent.decoded >= self._request.max_new:
                raise DeviceError(
                    "the device's answer is damaged", self._link.address, why="a token that nobody asked for"
                )
            self._count(float(token["seconds"]))
            yield int(token["id"])

    def _count(self, seconds: float) -> None:
        """By when a token came, until the runner tells what it has spent."""
        spent = self.spent
        if not spent.prefilled:
            loaded = self._transcript.found.get("loaded", {})
            self.load_seconds = float(loaded.get("program_seconds") or 0) + float(loaded.get("method_seconds") or 0)
            spent.prefilled, spent.prefill_seconds = len(self._request.ids), seconds
        else:
            spent.decoded += 1
            spent.decode_seconds = max(0.0, seconds - spent.prefill_seconds)

    def _take_end(self) -> None:
        found = self._transcript.found
        told, digest = found.get("generated"), found.get("model", {}).get("sha256")
        if told is None or digest != self._program.model_digest:
            why = "it does not say how the text ended" if told is None else f"the model's SHA-256 is {digest}"
            raise DeviceError("the device's answer is damaged", self._link.address, "run it again", why=why)
        self.finish, self.load_seconds = told["finish"], float(told["load_seconds"])
        self.spent = Spent(
            len(self._request.ids),
            float(told["prefill_seconds"]),
            int(told["decoded"]),
            float(told["decode_seconds"]),
            float(told["sampling_seconds"]),
        )
