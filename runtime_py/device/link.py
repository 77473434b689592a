"""The way to a Linux machine: commands of its shell, files that stay there under their digest, a folder for one run.

Two ways: `LocalLink`, this machine itself, and `SshLink` (edgex.runtime.device.ssh_link). What is done over them is the
same (edgex.runtime.device.linux).
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from edgex.runtime.device.base import Progress

_LAST_LINES = 20
_COPIED_BYTES = 1 << 20


@dataclass(frozen=True)
class Done:
    """How a command ended: exit code, what it wrote to stdout, and the last lines of what it wrote to stderr."""

    code: int
    output: bytes
    errors: str


@dataclass(frozen=True)
class Sent:
    """What a device did not have yet: bytes, and the seconds that it took."""

    bytes: int = 0
    seconds: float = 0.0


class Link(Protocol):
    """A way to a machine. Every method raises DeviceError when the way itself fails.

    Attributes:
        address: As `--device` names the machine.
        sent: What `provide` has sent so far.
    """

    address: str
    sent: Sent

    def run(self, script: str, data: bytes = b"") -> Done:
        """Run a script of the POSIX shell; `data` is its stdin."""
        ...

    def stream(self, folder: str, command: Sequence[str], on_line: Callable[[str], None]) -> Done:
        """Run one program in a folder, and hand over its lines of stdout as they come.

        Should the way break, or this process end, the program is killed there and the folder removed.
        """
        ...

    def provide(self, name: str, digest: str, files: Mapping[str, Path], progress: Progress) -> str:
        """Make sure that the machine has files, in one folder; returns the folder there.

        Args:
            name: What they are, for messages and for the folder's name.
            digest: Equal digests are equal files: those that are there already are not sent again.
            files: Paths here, by names there.
            progress: Told what is sent.
        """
        ...

    def make_workspace(self, run_id: str) -> str:
        """A new, empty folder there for one run."""
        ...

    def remove_workspace(self, folder: str) -> None:
        """Remove it with all that is in it."""
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...


def guarded(folder: str, command: Sequence[str]) -> str:
    """A script that runs a program in a folder as long as its stdin is open.

    When this end of it goes away, stdin ends there: then the program is killed and the folder removed.
    """
    line = " ".join(map(shlex.quote, command))
    where = shlex.quote(folder)
    return (
        f"cd {where} || exit 1; exec 3<&0; {line} </dev/null 3<&- & R=$!; "
        f"(cat <&3; kill -9 $R; rm -rf {where}) >/dev/null 2>&1 & G=$!; "
        "exec 3<&-; wait $R; C=$?; kill $G 2>/dev/null; exit $C"
    )


def run_process(command: Sequence[str], data: bytes) -> Done:
    """Run a process to its end."""
    done = subprocess.run(command, input=data, capture_output=True, check=False)
    return Done(done.returncode, done.stdout, _last_lines(done.stderr))


def stream_process(command: Sequence[str], on_line: Callable[[str], None]) -> Done:
    """Run a process whose stdin stays open, and hand over its lines; killed if this is left early."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None and process.stdin is not None
    errors: list[bytes] = []
    # A full pipe of stderr would stop the program.
    drain = threading.Thread(target=_drain, args=(process.stderr, errors), daemon=True)
    drain.start()
    try:
        for line in process.stdout:
            on_line(line.decode("utf-8", "replace").rstrip("\n"))
        code = process.wait()
    finally:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        if process.poll() is None:
            process.terminate()
            process.wait()
        process.stdout.close()
    drain.join(timeout=1.0)
    return Done(code, b"", _last_lines(b"".join(errors)))


def _drain(stream: IO[bytes], into: list[bytes]) -> None:
    with stream:
        for line in stream:
            into.append(line)
            del into[:-_LAST_LINES]


def _last_lines(data: bytes) -> str:
    return "\n".join(data.decode("utf-8", "replace").strip().splitlines()[-_LAST_LINES:])


def signal_name(code: int) -> str | None:
    """`SIGSEGV` for the exit code with which a shell reports it; None for other codes."""
    number = -code if code < 0 else code - 128
    try:
        return signal.Signals(number).name
    except ValueError:
        return None


class LocalLink:
    """This machine. Files are used where they are: nothing is copied."""

    def __init__(self) -> None:
        self.address = "local-native"
        self.sent = Sent()

    def run(self, script: str, data: bytes = b"") -> Done:
        """See `Link`."""
        return run_process(["/bin/sh", "-c", script], data)

    def stream(self, folder: str, command: Sequence[str], on_line: Callable[[str], None]) -> Done:
        """See `Link`."""
        return stream_process(["/bin/sh", "-c", guarded(folder, command)], on_line)

    def provide(self, name: str, digest: str, files: Mapping[str, Path], progress: Progress) -> str:
        """The files' own folder; where they lie in several, one in the user's cache that brings them together."""
        from edgex.runtime.cache import user_cache

        parents = {path.parent for path in files.values()}
        if len(parents) == 1 and all(path.name == there for there, path in files.items()):
            return str(parents.pop().resolve())
        folder = user_cache() / "device" / "local" / f"{name}-{digest}"
        folder.mkdir(parents=True, exist_ok=True)
        for there, path in files.items():
            place = folder / there
            place.parent.mkdir(parents=True, exist_ok=True)
            if place.exists():
                continue
            temporary = place.with_name(f".{place.name}.{os.getpid()}")
            # A program finds its libraries beside where it really lies: so it must lie here. Large files are libraries.
            if path.stat().st_size < _COPIED_BYTES:
                shutil.copy2(path, temporary)
            else:
                temporary.symlink_to(path.resolve())
            temporary.replace(place)
        return str(folder)

    def make_workspace(self, run_id: str) -> str:
        """See `Link`."""
        return tempfile.mkdtemp(prefix=f"edgex-run-{run_id}-")

    def remove_workspace(self, folder: str) -> None:
        """See `Link`."""
        shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Nothing is held."""
