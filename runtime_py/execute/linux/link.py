"""The way to a Linux machine: commands of its shell, files that stay there under their digest, a folder for one run.

Two ways: `LocalLink`, this machine itself, and `SshLink` (module `ssh_link`). What is done over them is the same:
see module `machine`.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from edgex.runtime.execute.base import Progress
from edgex.runtime.support.cache import user_cache
from edgex.runtime.support.disk.scratch import scratch_folder
from edgex.runtime.support.process.programs import run_program, start_program
from edgex.runtime.support.publish import replacing

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

    def stream(self, job: ShellJob) -> Lines:
        """Run a job in a folder of its own: its lines as they come, then how it ended.

        Should the way break, the lines be left early, or this process end, the programs are killed there and the folder
        removed.
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

    def workspace(self, run_id: str) -> str:
        """Where the folder of a run will be; it is made when the job starts, and removed when it ends."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


_EXIT, _FILE = "@@edgex-exit ", "@@edgex-file "


@dataclass(frozen=True)
class ShellJob:
    """Programs that run one after the other in one folder, as long as each ends well.

    Attributes:
        folder: Made for it.
        data: Written to `in.tensors` there first.
        commands: The programs.
        files: Names of files there that come back afterwards, if all ended well.
    """

    folder: str
    data: bytes
    commands: Sequence[Sequence[str]]
    files: Sequence[str]

    @property
    def script(self) -> str:
        """For the POSIX shell: all in one, as starting a shell can take half a second on the other side.

        Its stdin begins with the data and stays open after it. When this end goes away, stdin ends there: then what
        runs is killed, and the folder removed.
        """
        where = shlex.quote(self.folder)
        steps = " && ".join("go " + " ".join(map(shlex.quote, command)) for command in self.commands)
        files = "; ".join(f'echo "{_FILE}{name} $(wc -c < {name})"; cat {name}' for name in self.files)
        return (
            f"umask 077; mkdir -p {where} && cd {where} || exit 1; "
            f"head -c {len(self.data)} > in.tensors || {{ cd /; rm -rf {where}; exit 1; }}; "
            "exec 3<&0; "
            f"(cat <&3; kill -9 $$ $(cat pid); rm -rf {where}) >/dev/null 2>&1 & G=$!; exec 3<&-; "
            'go() { "$@" </dev/null & P=$!; echo $P > pid; wait $P; C=$?; '
            f'echo "{_EXIT}$C"; return $C; }}; '
            f"{steps}; C=$?; kill $G 2>/dev/null; "
            f"[ $C -eq 0 ] && {{ {files or ':'}; }}; cd /; rm -rf {where}; exit $C"
        )


@dataclass(frozen=True)
class Streamed:
    """How a job ended.

    Attributes:
        code: Of the whole.
        codes: Of each program that ran.
        files: What came back, by name.
        errors: Last lines of stderr.
    """

    code: int
    codes: tuple[int, ...]
    files: Mapping[str, bytes]
    errors: str


def run_process(command: Sequence[str], data: bytes) -> Done:
    """Run a process to its end."""
    done = run_program(command, input=data, capture_output=True)
    return Done(done.returncode, done.stdout, _last_lines(done.stderr))


# What a job says, a line each, and how it ended.
Lines = Generator[str, None, Streamed]


def follow(lines: Lines, on_line: Callable[[str], None]) -> Streamed:
    """Hand over every line; what runs is ended when one is refused by an exception."""
    with contextlib.closing(lines):
        while True:
            try:
                line = next(lines)
            except StopIteration as end:
                done: Streamed = end.value
                return done
            on_line(line)


def stream_process(command: Sequence[str], data: bytes) -> Lines:
    """Run a shell with a `ShellJob`'s script, and read what it says; killed if this is left early."""
    process = start_program(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None and process.stdin is not None
    errors: list[bytes] = []
    # Full pipes would stop the other side: stderr is read, and stdin written, beside.
    helpers = [
        threading.Thread(target=_drain, args=(process.stderr, errors), daemon=True),
        threading.Thread(target=_feed, args=(process.stdin, data), daemon=True),
    ]
    for helper in helpers:
        helper.start()
    codes: list[int] = []
    files: dict[str, bytes] = {}
    try:
        for raw in process.stdout:
            line = raw.decode("utf-8", "replace").rstrip("\n")
            if line.startswith(_EXIT):
                codes.append(int(line[len(_EXIT) :]))
            elif line.startswith(_FILE):
                name, size = line[len(_FILE) :].split()
                files[name] = process.stdout.read(int(size))
            else:
                yield line
        code = process.wait()
    finally:
        helpers[1].join(timeout=1.0)
        with contextlib.suppress(OSError):
            process.stdin.close()
        if process.poll() is None:
            process.terminate()
            process.wait()
        process.stdout.close()
    helpers[0].join(timeout=1.0)
    return Streamed(code, tuple(codes), files, _last_lines(b"".join(errors)))


def _feed(stream: IO[bytes], data: bytes) -> None:
    # The other side may be gone: its exit code says so.
    with contextlib.suppress(OSError):
        stream.write(data)
        stream.flush()


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
        self._held = ExitStack()

    def run(self, script: str, data: bytes = b"") -> Done:
        """See `Link`."""
        return run_process(["/bin/sh", "-c", script], data)

    def stream(self, job: ShellJob) -> Lines:
        """See `Link`."""
        return stream_process(["/bin/sh", "-c", job.script], job.data)

    def provide(self, name: str, digest: str, files: Mapping[str, Path], progress: Progress) -> str:
        """The files' own folder; where they lie in several, one in the user's cache that brings them together."""
        parents = {path.parent for path in files.values()}
        if len(parents) == 1 and all(path.name == there for there, path in files.items()):
            return str(parents.pop().resolve())
        folder = user_cache("device", "local", f"{name}-{digest}")
        folder.mkdir(parents=True, exist_ok=True)
        for there, path in files.items():
            place = folder / there
            place.parent.mkdir(parents=True, exist_ok=True)
            if place.exists() and (not place.is_symlink() or place.resolve() == path.resolve()):
                continue
            # A program finds its libraries beside where it really lies: so it must lie here. Large files are libraries.
            with replacing(place) as temporary:
                if path.stat().st_size < _COPIED_BYTES:
                    shutil.copy2(path, temporary)
                else:
                    temporary.symlink_to(path.resolve())
        return str(folder)

    def workspace(self, run_id: str) -> str:
        """See `Link`."""
        return str(self._held.enter_context(scratch_folder("run")) / f"run-{run_id}")

    def close(self) -> None:
        """What the runs have left goes."""
        self._held.close()
