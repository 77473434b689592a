"""Python children: the one way in which they are started, and the one protocol in which they are asked.

```python
with Child("edgex.runtime.engines.onnxruntime.provider.probe:answer", "the probe") as child:
    answer = child.ask({"do": "run"}, timeout_seconds=20)
```

A line of JSON each way; the child's side is in `edgex.runtime.support.process.serving`:

```
parent   {"do": NAME, …}
child    {"event": NAME, …}   any number, while it works
         {"answer": {…}}      or  {"error": {"class", "what", "where", "fix", "why"}}
```

A child imports from where its parent does, and never from the folder in which the user works: a `cuda.py` or a
`tokenize.py` there would stand in for a library, or for Python's own module. It ends when its stdin does, and is
killed when its parent is: see `edgex.runtime.support.process.lifetime`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import edgex.errors
from edgex.errors import EdgexError, RunError
from edgex.runtime.support.process.programs import start_program
from edgex.runtime.support.process.serving import MAIN_THREAD, OTHER_THREAD
from edgex.runtime.support.process.shadowed_modules import explain_shadow

Event = Mapping[str, Any]

_LAST_LINES = 20
_STOP_SECONDS = 10.0

# What the parent runs from comes last, so that it is found where it is not installed.
_START = (
    "import sys; sys.path[:] = [path for path in sys.path if path] + [sys.argv[1]]; "
    "from edgex.runtime.support.process.serving import main; main(*sys.argv[2:])"
)


class ChildEnded(RunError):
    """A child ended before it answered.

    Attributes:
        signal: The signal that killed it, for example `SIGSEGV`; None where it ended by itself.
        timed_out: Whether it was ended because it took too long.
    """

    signal: str | None = None
    timed_out: bool = False


def start_python(
    task: str, environment: Mapping[str, str] | None = None, errors: IO[bytes] | None = None
) -> subprocess.Popen[str]:
    """Start a Python child; every one of edgex's is started here.

    Args:
        task: `MODULE:NAME` of what answers; see `edgex.runtime.support.process.serving`.
        environment: Variables that are set besides this process's own.
        errors: Receives its stderr; None lets it through.
    """
    # src/edgex/runtime/support/process/child.py, and `runtime` may be a link: edgex itself says where it lies.
    root = Path(edgex.errors.__file__).parent.parent
    thread = MAIN_THREAD if threading.current_thread() is threading.main_thread() else OTHER_THREAD
    return start_program(
        [sys.executable, "-P", "-c", _START, str(root), task, str(os.getpid()), thread],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        encoding="utf-8",
        env={**os.environ, **(environment or {})},
    )


class Child:
    """A child that answers requests, one after the other."""

    def __init__(
        self, task: str, label: str, environment: Mapping[str, str] | None = None, where: str | None = None
    ) -> None:
        """Start it.

        Args:
            task: `MODULE:NAME` of what answers.
            label: What it is, for errors: `the process that ran net.xnnpack.edgex`.
            environment: Variables that are set besides this process's own.
            where: Where its errors are said to be that do not say it themselves.
        """
        self.label = label
        self._where = where
        # A file, not a pipe: nobody reads while the child works, and a full pipe would stop it.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        self._process = start_python(task, environment, self._log)
        self._timed_out = self._is_busy = False
        self._begun = 0

    def name(self, label: str, where: str | None) -> None:
        """Say what it is from now on, as its creator may: for a child that was started before that was known."""
        self.label, self._where = label, where

    def begin(self, request: Mapping[str, Any]) -> None:
        """Send a request and go on; what it answers is thrown away when something is asked.

        A child that has died says so then.
        """
        assert self._process.stdin is not None
        self._begun += 1
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()

    def ask(
        self,
        request: Mapping[str, Any],
        on_event: Callable[[Event], object] = lambda _event: None,
        *,
        timeout_seconds: float | None = None,
    ) -> dict[str, Any]:
        """Send a request and wait for the answer.

        Args:
            request: What JSON can hold; `do` names it.
            on_event: Told what the child says meanwhile.
            timeout_seconds: The child is ended after this time.

        Raises:
            EdgexError: What the child raised.
            ChildEnded: The child died, or took too long.
        """
        timer = threading.Timer(timeout_seconds or 0.0, self._give_up)
        timer.daemon = True
        if timeout_seconds is not None:
            timer.start()
        try:
            return self._exchange(json.dumps(request), on_event)
        finally:
            timer.cancel()

    @property
    def has_ended(self) -> bool:
        """Whether it lives no longer."""
        return self._process.poll() is not None

    def close(self) -> None:
        """End the child, at once where it still works on a request that was left. Closing twice is allowed."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        if self._is_busy or self._begun:
            process.kill()
        try:
            process.stdin.close()
            process.wait(_STOP_SECONDS)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            process.kill()
            process.wait()
        finally:
            process.stdout.close()
            self._log.close()

    def kill(self) -> None:
        """End the child at once, whatever it does."""
        self._process.kill()
        self.close()

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None or issubclass(kind, EdgexError):
            self.close()
        else:
            self.kill()

    def _exchange(self, line: str, on_event: Callable[[Event], object]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._is_busy = True
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None
        for said in self._process.stdout:
            message: dict[str, Any] = json.loads(said)
            if self._begun:
                self._begun -= "answer" in message or "error" in message
                continue
            self._is_busy = not ("answer" in message or "error" in message)
            if "answer" in message:
                answer: dict[str, Any] = message["answer"]
                return answer
            if "error" in message:
                raise rebuild_error(message["error"], self._where)
            on_event(message)
        raise self._ended()

    def _give_up(self) -> None:
        self._timed_out = True
        self._process.kill()

    def _ended(self) -> ChildEnded:
        code = self._process.wait()
        self._log.seek(0)
        log = self._log.read().decode("utf-8", "replace").strip()
        name = signal.Signals(-code).name if code < 0 else None
        ended = "it took too long" if self._timed_out else f"killed by {name}" if name else f"exit code {code}"
        error = ChildEnded(
            f"{self.label} ended: {ended}",
            fix=explain_shadow(log, os.environ.get("PYTHONPATH", "")),
            why="\n".join(log.splitlines()[-_LAST_LINES:]) or None,
        )
        error.signal, error.timed_out = (None if self._timed_out else name), self._timed_out
        return error


def rebuild_error(parts: Mapping[str, Any], where: str | None = None) -> EdgexError:
    """The error that a child sent, as one of this process."""
    kind = getattr(edgex.errors, parts["class"], RunError)
    error: EdgexError = kind(parts["what"], parts["where"] or where, parts["fix"], why=parts["why"])
    return error
