"""The other side of `compare.worker`: a contestant whose blocks are timed in a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import edgex.errors
from edgex.errors import EdgexError, RunError
from edgex.runtime.artifact.artifact import CheckLevel
from edgex.runtime.engines.trace.operators import OperatorRow, Trace
from edgex.runtime.measure.compare.contest import Pace
from edgex.runtime.measure.profile.report import FreshRun
from edgex.runtime.session.runner import EngineSettings

_MODULE = "edgex.runtime.measure.compare.worker"
_LAST_LINES = 20
_STOP_SECONDS = 10.0


class ProcessContestant:
    """An artifact in a process of its own; see `edgex.runtime.measure.compare.contest.Contestant`.

    Attributes:
        label: How errors name it.
        settings: Threads and engine settings.
        starts: What each fresh process said when it was ready: the fields of `Worker.describe`.
        switches: Involuntary context switches within the timed blocks, over all processes.
    """

    def __init__(
        self, artifact: Path, label: str, inputs: Path, settings: EngineSettings, check: CheckLevel = "hash"
    ) -> None:
        self._command = [sys.executable, "-m", _MODULE, str(artifact.resolve()), "--inputs", str(inputs)]
        self._command += ["--check", check, "--options", json.dumps(dict(settings.options))]
        if settings.threads is not None:
            self._command += ["--threads", str(settings.threads)]
        self.label, self.settings = label, settings
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[str] | None = None
        self.starts: list[dict[str, Any]] = []
        self.switches = 0

    @property
    def fresh(self) -> tuple[FreshRun, ...]:
        """Load and first run of every process that was started."""
        return tuple(FreshRun(**start["fresh"]) for start in self.starts)

    def start(self) -> Pace:
        """Start a process; its load times are kept.

        Raises:
            EdgexError: What the artifact or its engine raised there.
            RunError: The process died.
        """
        # A file, not a pipe: nobody reads while a block runs, and a full pipe would stop the engine.
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        ready = self._read()
        self.starts.append(ready)
        return Pace(**{name: ready[name] for name in Pace.__dataclass_fields__})

    def reopen(self) -> None:
        """Open the session again in the same process."""
        self._ask({"do": "reopen"})

    def time_block(self, passes: int, lead_in: bool) -> tuple[float, ...]:
        """Time a block; seconds per call."""
        answer = self._ask({"do": "block", "passes": passes, "lead_in": lead_in})
        self.switches += answer["switches"]
        return tuple(answer["seconds"])

    def run_cases(self, inputs: Path, outputs: Path) -> Mapping[str, str]:
        """Run sequences from one file into another; see `edgex.runtime.measure.compare.worker.run_cases`."""
        refused: dict[str, str] = self._ask({"do": "run", "inputs": str(inputs), "outputs": str(outputs)})["refused"]
        return refused

    def trace(self) -> tuple[tuple[OperatorRow, ...], Trace | None, str | None]:
        """Trace the operators: rows and what they are together; or none, and the reason."""
        answer = self._ask({"do": "trace"})
        if "reason" in answer:
            return (), None, answer["reason"]
        return tuple(map(OperatorRow.from_json, answer["rows"])), Trace(**answer["trace"]), None

    def stop(self) -> None:
        """End the process; without one nothing happens."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None and process.stdout is not None
            try:
                process.stdin.close()
                process.wait(_STOP_SECONDS)
            except (subprocess.TimeoutExpired, BrokenPipeError):
                process.kill()
                process.wait()
            finally:
                process.stdout.close()
        if self._log is not None:
            self._log.close()
            self._log = None

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._died() from None
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process is not None and self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._died()
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise _rebuild(answer["error"], self.label)
        return answer

    def _died(self) -> RunError:
        assert self._process is not None and self._log is not None
        code = self._process.wait()
        ended = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        self._log.seek(0)
        tail = self._log.read().strip().splitlines()[-_LAST_LINES:]
        return RunError(f"the process that ran {self.label} ended: {ended}", why="\n".join(tail) or None)


def _rebuild(parts: Mapping[str, Any], label: str) -> EdgexError:
    kind = getattr(edgex.errors, parts["class"])
    error: EdgexError = kind(parts["what"], parts["where"] or label, parts["fix"], why=parts["why"])
    return error
