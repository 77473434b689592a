"""Run models one after the other in processes of their own, within limits of time and memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

import psutil

from benchmarks.coverage.child import PROGRESS, REPORT
from benchmarks.coverage.outcome import DEFECT_CODE, FAILED, Outcome, outcomes_of
from benchmarks.coverage.suite import Entry
from benchmarks.processes import ROOT

GIB = 1024**3
TIMEOUT_CODE = 124
MEMORY_CODE = 137
POLL_SECONDS = 0.25


@dataclass(frozen=True)
class Limits:
    """Of one model on all its targets: wall seconds, and bytes of the export with its verifying process."""

    seconds: float = 600.0
    bytes: int = 8 * GIB


class Runner:
    """The process that imports once and forks; a context manager."""

    def __init__(self, log: Path, sources: str, limits: Limits) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log.open("a", encoding="utf-8")
        self._sources = sources
        self._limits = limits
        self._server: subprocess.Popen[str] | None = None
        self._answers: Queue[Any] = Queue()
        self._running: int | None = None

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._running is not None:  # interrupted
            with suppress(ProcessLookupError):
                os.killpg(self._running, signal.SIGKILL)
        if self._server is not None:
            assert self._server.stdin is not None
            with suppress(OSError):
                self._server.stdin.close()
            self._server.wait()
        self._log.close()

    def run(self, entry: Entry, targets: Sequence[str]) -> list[Outcome]:
        """Export one model; where its process dies, target by target, so that one cannot hide the others."""
        found = self._run_once(entry, targets)
        if found is None and len(targets) > 1:
            return [outcome for target in targets for outcome in self.run(entry, [target])]
        return found or []

    def _run_once(self, entry: Entry, targets: Sequence[str]) -> list[Outcome] | None:
        """None where the process died with several targets."""
        with tempfile.TemporaryDirectory(prefix="edgex-coverage-") as text:
            folder = Path(text)
            print(f"== {entry.name} {' '.join(targets)}", file=self._log, flush=True)
            code, reason = self._serve(entry, targets, folder)
            report = folder / REPORT
            if code == 0 and report.exists():
                return outcomes_of(entry.name, json.loads(report.read_text(encoding="utf-8")), self._sources)
            if len(targets) > 1:
                return None
            stage = (folder / PROGRESS).read_text(encoding="utf-8") if (folder / PROGRESS).exists() else "start"
            stage = stage.split(" ")[0]
            return [Outcome(entry.name, targets[0], FAILED, stage, code, reason, sources=self._sources)]

    def _serve(self, entry: Entry, targets: Sequence[str], folder: Path) -> tuple[int, str]:
        """Have a fork export; the exit code, and in words how it ended."""
        server = self._start()
        assert server.stdin is not None
        server.stdin.write(json.dumps({"model": entry.name, "targets": list(targets), "folder": str(folder)}) + "\n")
        server.stdin.flush()
        pid = self._running = self._answers.get()["pid"]
        started = time.monotonic()
        while True:
            try:
                code = self._answers.get(timeout=POLL_SECONDS)["status"]
            except Empty:
                pass
            else:
                self._running = None
                return code, _describe(code)
            if time.monotonic() - started > self._limits.seconds:
                self._end(pid)
                return TIMEOUT_CODE, f"stopped after {self._limits.seconds:.0f} s, the limit of the suite"
            if _memory_of(pid) > self._limits.bytes:
                self._end(pid)
                return MEMORY_CODE, f"stopped at {self._limits.bytes / GIB:.0f} GiB, the limit of the suite"

    def _end(self, pid: int) -> None:
        """End the export and the verifying process that it may have started, and wait for the server to say so."""
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        self._answers.get()
        self._running = None

    def _start(self) -> subprocess.Popen[str]:
        if self._server is None:
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(_search_path())}
            command = [sys.executable, "-m", "benchmarks.coverage.child"]
            self._server = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
            )
            Thread(target=self._listen, args=(self._server,), daemon=True).start()
        return self._server

    def _listen(self, server: subprocess.Popen[str]) -> None:
        assert server.stdout is not None
        for line in server.stdout:
            self._answers.put(json.loads(line))
        # The server itself ended: whoever waits must not wait for ever.
        self._answers.put({"pid": 0, "status": DEFECT_CODE})


def _search_path() -> list[str]:
    """The tree itself, before what the environment asks for."""
    asked = os.environ.get("PYTHONPATH", "")
    return [str(ROOT), *(entry for entry in asked.split(os.pathsep) if entry)]


def _memory_of(pid: int) -> int:
    """Resident bytes of a process and of those that it started; pages that forks share count for each."""
    try:
        process = psutil.Process(pid)
        processes = [process, *process.children(recursive=True)]
        return sum(one.memory_info().rss for one in processes)
    except psutil.Error:
        return 0


def _describe(code: int) -> str:
    if code > 128:
        return f"the process was ended by {signal.Signals(code - 128).name}"
    return f"the process ended with exit code {code} and no report; its output is in the log"
