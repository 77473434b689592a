"""Ask the app for something and get its answer: the best way that the device allows.

1. `am instrument` returns the answer on stdout, in pieces.
2. Pieces were lost: the app has written the same into its external folder, which `adb pull` reads.
3. The shell may not read that folder: `run-as` may, for debug builds.
4. `am instrument` is not allowed: a screen of the app is started instead, and the file is waited for.

Whatever the way, an answer of another run is refused.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from edgex.errors import DeviceError
from edgex.runtime.execute.adb.answer import damaged, parse, refusal, require_run, unpack
from edgex.runtime.execute.adb.app.app import InstalledApp
from edgex.runtime.execute.adb.app.instrumentation import DONE, Transcript, read_transcript
from edgex.runtime.execute.adb.failure import explain, find_loss
from edgex.runtime.execute.adb.transport.client import AdbClient, Completed
from edgex.runtime.execute.adb.transport.logcat import read_clock, read_crash
from edgex.runtime.support.disk.scratch import scratch_folder

ANSWER_FILE = "answer.json"
ACTIVITY = "dev.edgex.sample.BenchmarkActivity"

_POLL_SECONDS = 0.5
# Looks without a process before it counts as gone: it takes a moment to appear.
_ABSENT_LOOKS = 6


@dataclass(frozen=True)
class Task:
    """Something that the app can do.

    Attributes:
        name: `describe`, `job` or `cold`.
        run_id: Names the run, and the folder that is the run's own.
    """

    name: str
    run_id: str

    @property
    def arguments(self) -> str:
        """The values that the app is given, for `am` to send along after its own flag."""
        return " ".join(f"{{flag}} {key} {shlex.quote(v)}" for key, v in (("task", self.name), ("run_id", self.run_id)))


@dataclass(frozen=True)
class Reply:
    """The app's answer.

    Attributes:
        document: `edgex.device-answer/1`, of this run.
        way: `instrument`, `pull`, `run-as` or `activity`: how it came back.
    """

    document: dict[str, Any]
    way: str


class AppRunner:
    """Runs tasks in one app on one device."""

    def __init__(self, client: AdbClient, app: InstalledApp, progress: Callable[[str, str], None]) -> None:
        self._client = client
        self._app = app
        self._progress = progress
        self._where = f"adb:{client.serial}"
        # The app's folder as the shell sees it.
        self.folder = f"/sdcard/Android/data/{app.application_id}/files/edgex"

    def run(self, task: Task) -> Reply:
        """Run a task to its end.

        Raises:
            DeviceError: The app crashed, refused, or no way to its answer was left; or the device went away.
            RunError: The engine refused.
        """
        since = read_clock(self._client)
        words = task.arguments.format(flag="-e")
        with self._client.follow(f"am instrument -w -r {words} {self._app.component}") as process:
            assert process.stdout is not None
            transcript = read_transcript(process.stdout, self._progress)
            returncode = process.wait()
        if transcript.refusal is not None:
            return self._run_on_screen(task, since, transcript.refusal)
        self._require_no_crash(transcript, since)
        said = Completed(returncode, "\n".join(transcript.other).encode(), "")
        if transcript.code is None:
            # The stream ended without an end: the connection broke, or something ended `am`.
            raise explain(self._client, "run the app", said)
        if "edgex_error" in transcript.result:
            error = parse(transcript.result["edgex_error"].encode(), self._where)
            raise refusal(error.get("kind"), error.get("message"), self._where)
        if transcript.code != DONE:
            raise DeviceError(
                f"the app ended with code {transcript.code}", self._where, "adb logcat may say more", why=said.words
            )
        if transcript.answer is not None:
            return Reply(self._checked(unpack(transcript.answer, self._where), task), "instrument")
        return self._read_file(task) or self._lost(task)

    def _require_no_crash(self, transcript: Transcript, since: str | None) -> None:
        if transcript.crash is None:
            return
        gone = find_loss(self._client)
        if gone is not None:
            raise DeviceError(f"the device went away during the run: it is {gone}", self._where, "reconnect it")
        raise self._crashed(transcript.crash, since)

    def _crashed(self, said: str, since: str | None) -> DeviceError:
        log = read_crash(self._client, since, self._app.application_id)
        return DeviceError(
            f"the app crashed on the device: {said}",
            self._where,
            "with SIGILL the processor lacks an instruction; with SIGKILL memory ran out: a smaller model may run",
            why=f"its log:\n{log}" if log else "its log says nothing",
        )

    def _run_on_screen(self, task: Task, since: str | None, refused: str) -> Reply:
        self._progress("start", "am instrument is not allowed: the app's screen does it")
        # The file is waited for: one of the task before this one must not be there.
        self._client.shell(f"rm -f {shlex.quote(self._answer_path(task))}")
        component = f"{self._app.application_id}/{ACTIVITY}"
        words = task.arguments.format(flag="--es")
        done = self._client.shell(f"am start -S -W -n {component} {words}")
        if done.returncode != 0 or "Error" in done.text or "Exception" in done.text + done.stderr:
            why = f"am instrument: {refused.strip()}\nam start: {done.words}"
            raise DeviceError(
                "the device lets nothing be started in the app",
                self._where,
                "unlock it, look whether the app starts there by hand, and allow debugging of apps in its settings",
                why=why[:2000],
            )
        absent = 0
        while absent < _ABSENT_LOOKS:
            time.sleep(_POLL_SECONDS)
            alive = self._client.shell(f"pidof {self._app.application_id}")
            # 1 is "no such process"; more than that is adb's own failure.
            if alive.returncode > 1 and (gone := find_loss(self._client)) is not None:
                raise DeviceError(f"the device went away during the run: it is {gone}", self._where, "reconnect it")
            reply = self._read_file(task)
            if reply is not None:
                return Reply(reply.document, "activity")
            absent = 0 if alive.text.strip() else absent + 1
        raise self._crashed("its process ended", since)

    def _read_file(self, task: Task) -> Reply | None:
        """The answer from the file that the app wrote; None where neither way reads it."""
        name = f"job-{task.run_id}/{ANSWER_FILE}"
        with scratch_folder("adb") as folder:
            target = folder / ANSWER_FILE
            done = self._client.run("pull", self._answer_path(task), str(target))
            if done.returncode == 0 and target.is_file():
                return Reply(self._checked(parse(target.read_bytes(), self._where), task), "pull")
        content = self.read_as_app(name)
        return None if content is None else Reply(self._checked(parse(content, self._where), task), "run-as")

    def read_as_app(self, name: str) -> bytes | None:
        """A file of the app's folder, read in the app's name; None where the build or the system does not allow it."""
        path = shlex.quote(f"{self.folder}/{name}")
        done = self._client.run("exec-out", f"run-as {self._app.application_id} cat {path}")
        # Where `run-as` refuses, it says so on the same stream.
        refused = done.returncode != 0 or not done.stdout or done.stdout.startswith((b"run-as:", b"cat:"))
        return None if refused else done.stdout

    def _answer_path(self, task: Task) -> str:
        return f"{self.folder}/job-{task.run_id}/{ANSWER_FILE}"

    def _checked(self, document: dict[str, Any], task: Task) -> dict[str, Any]:
        require_run(document, task.run_id, self._where)
        if document.get("task") != task.name:
            raise damaged(self._where, f"it answers the task {document.get('task')!r} instead of {task.name!r}")
        return document

    def _lost(self, task: Task) -> Reply:
        raise DeviceError(
            "the app ran, but its answer did not come back",
            self._where,
            "run the command again; a debug build of the app lets run-as read it",
            why=f"neither am instrument, nor adb pull, nor run-as gave {ANSWER_FILE} of run {task.run_id}",
        )
