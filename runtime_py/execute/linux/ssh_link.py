"""A Linux machine over the user's own OpenSSH client: their configuration, keys, agent and known hosts, untouched.

`EDGEX_SSH_OPTIONS` adds options to every call of ssh, for example `-F /path/to/config` or `-J jumphost`.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import IO

from edgex.errors import DeviceError, UsageError
from edgex.runtime.artifact.artifact import hash_file
from edgex.runtime.execute.base import Progress
from edgex.runtime.execute.linux.link import Done, Lines, Sent, ShellJob, run_process, stream_process
from edgex.runtime.execute.request import Address
from edgex.runtime.support.disk.scratch import scratch_folder
from edgex.runtime.support.process.programs import start_program

OPTIONS_VARIABLE = "EDGEX_SSH_OPTIONS"
_CONNECT_SECONDS = 15
# For a process that is dying to be gone.
_ENDING_SECONDS = 1.0
# ssh's own exit code, for whatever keeps it from the other side.
_SSH_FAILED = 255
# Where a device keeps what is sent; also what is told to users.
CACHE = '"${XDG_CACHE_HOME:-$HOME/.cache}"/edgex/device'
_HAVE = "@@edgex-have "
_SUMS = ".sums"
_PIECE = 1 << 20
# The exit code of a script that found what arrived to be other than what was sent.
_DAMAGED = 9
# Besides the files themselves, for inputs, outputs and the file system's own blocks.
_SPARE_BYTES = 8 << 20

_CAUSES = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key for .* has changed",
        "its host key is not the one that is known",
        "find out why (a new system, or another machine in between); then remove the old key, as ssh says above",
    ),
    (
        r"Host key verification failed|No .* host key is known",
        "its host key is not known yet",
        "connect once by hand, and check the key: ssh HOST",
    ),
    (
        r"Permission denied|Too many authentication failures",
        "it refused the login",
        "`ssh HOST true` must work without a password prompt: a key in ~/.ssh, or in an agent",
    ),
    (r"Connection refused", "nothing listens on its ssh port", "start sshd there, or give the port: ssh:HOST:PORT"),
    (
        r"Could not resolve hostname|Name or service not known|Temporary failure in name resolution",
        "there is no host of this name",
        "check the name, or give an address",
    ),
    (
        r"timed out|No route to host|Network is unreachable|not responding",
        "it does not answer",
        "check that it is on and in this network",
    ),
)


class SshLink:
    """One connection that all commands share; ends with this object, or with this process."""

    def __init__(self, address: Address) -> None:
        if shutil.which("ssh") is None:
            raise DeviceError("there is no ssh on this machine", fix="apt-get install openssh-client")
        self.address = str(address)
        self.sent = Sent()
        self._host = str(address.host)
        try:
            extra = shlex.split(os.environ.get(OPTIONS_VARIABLE, ""))
        except ValueError as error:
            raise UsageError(f"{OPTIONS_VARIABLE} cannot be read", why=str(error)) from error
        # A socket's path may have about 100 characters, whatever TMPDIR is.
        self._held = contextlib.ExitStack()
        short = Path("/tmp") if len(tempfile.gettempdir()) > 60 else None
        self._folder = self._held.enter_context(scratch_folder("ssh", short))
        self._socket = self._folder / "s"
        # Nobody is there to type a password. Keys and known hosts are the user's own affair.
        self._base = ["ssh", *extra, "-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_SECONDS}", "-T"]
        # A device that is switched off says nothing: without this, nobody would notice for hours.
        self._base += ["-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=3"]
        self._base += ["-S", str(self._socket)]
        self._target = ([] if address.port is None else ["-p", str(address.port)]) + (
            [] if address.user is None else ["-l", address.user]
        )
        self._target += ["--", self._host]
        self._master: subprocess.Popen[bytes] | None = None
        self._cache = ""
        self._have: set[str] = set()
        try:
            self._connect()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> None:
        log = self._folder / "log"
        with log.open("wb") as stream:
            self._master = start_program(
                [*self._base, "-M", "-N", "-o", "ControlPersist=no", *self._target],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
            )
        deadline = time.monotonic() + 2 * _CONNECT_SECONDS
        while not self._socket.exists():
            if self._master.poll() is not None:
                raise _explain(self._host, log.read_text(errors="replace"))
            if time.monotonic() > deadline:
                raise _explain(self._host, "Connection timed out")
            time.sleep(0.005)

    def _begin(self) -> str:
        """A script for the start of the first command: makes edgex's folder, and says what is in it."""
        # What a machine left that lost power in the middle of a run.
        stale = "find . -maxdepth 1 -mmin +1440 \\( -name 'run-*' -o -name 'part-*' \\) -exec rm -rf {} +"
        return (
            f'C={CACHE}; umask 077; mkdir -p "$C" && cd "$C" || exit 1; {stale}; '
            f"echo \"{_HAVE}$(pwd)\"; ls; echo '{_HAVE}'; "
        )

    def run(self, script: str, data: bytes = b"") -> Done:
        """See `Link`."""
        first = not self._cache
        done = run_process(self._command((self._begin() if first else "") + script), data)
        if done.code == _SSH_FAILED:
            raise self._lost(done.errors)
        return self._take_in(done) if first else done

    def _take_in(self, done: Done) -> Done:
        """Note what `_begin` said, and leave the rest."""
        # A login shell's own greetings may come before.
        _, _, said = done.output.partition(_HAVE.encode())
        listed, end, rest = said.partition(f"{_HAVE}\n".encode())
        lines = listed.decode(errors="replace").splitlines()
        if not end or not lines[0].startswith("/"):
            why = done.errors or "no home folder, or a full disk"
            raise DeviceError("the device has no folder to work in", self.address, why=why)
        self._cache, self._have = lines[0], set(lines[1:])
        return Done(done.code, rest, done.errors)

    def stream(self, job: ShellJob) -> Lines:
        """See `Link`."""
        done = yield from stream_process(self._command(job.script), job.data)
        if done.code == _SSH_FAILED:
            raise self._lost(done.errors)
        return done

    def provide(self, name: str, digest: str, files: Mapping[str, Path], progress: Progress) -> str:
        """See `Link`; each file's SHA-256 is checked there before the folder gets its name."""
        if not self._cache:
            self.run(":")
        folder = f"{self._cache}/{name}-{digest}"
        if f"{name}-{digest}" in self._have:
            return folder
        total = sum(path.stat().st_size for path in files.values())
        self._check_space(total, name)
        started = time.monotonic()
        part = f"{self._cache}/part-{name}-{digest}-{os.getpid()}"
        try:
            self._send(name, part, folder, files, progress)
        except BaseException:
            with contextlib.suppress(DeviceError):
                self.run(f"rm -rf {shlex.quote(part)}")
            raise
        self._have.add(f"{name}-{digest}")
        self.sent = Sent(self.sent.bytes + total, self.sent.seconds + time.monotonic() - started)
        return folder

    def workspace(self, run_id: str) -> str:
        """See `Link`."""
        return f"{self._cache}/run-{run_id}"

    def close(self) -> None:
        """End the connection."""
        master, self._master = self._master, None
        if master is not None:
            master.terminate()
            master.wait()
        self._held.close()

    def _command(self, script: str) -> list[str]:
        # One argument for the login shell there, whichever it is: sh runs the script.
        return [*self._base, "-o", "ControlMaster=no", *self._target, f"exec sh -c {shlex.quote(script)}"]

    def _send(self, name: str, part: str, folder: str, files: Mapping[str, Path], progress: Progress) -> None:
        """All files through one command, checked there, before the folder gets its name."""
        unfinished, there_already = shlex.quote(part), shlex.quote(folder)
        steps = [
            f"umask 077; mkdir -p {unfinished} && cd {unfinished}",
            # One program reads all of it: not every `head -c` stops reading where its part ends.
            "tar -xmf -",
            f"{{ sha256sum -c {_SUMS} >/dev/null || exit {_DAMAGED}; }}",
            f"rm {_SUMS}",
            f"cd .. && {{ test -d {there_already} || mv {unfinished} {there_already}; }}",
        ]
        # Nothing of it stays if the connection breaks: then the shell there reads its end, and goes on to this. Should
        # another session have been quicker, mv has put the folder into the other's.
        inside = shlex.quote(f"{folder}/{PurePosixPath(part).name}")
        script = f"( {' && '.join(steps)} ); C=$?; rm -rf {unfinished} {inside}; exit $C"
        with tempfile.TemporaryFile() as errors:
            command = self._command(script)
            process = start_program(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors)
            assert process.stdin is not None
            try:
                _pour(process.stdin, files, progress)
            finally:
                with contextlib.suppress(OSError):
                    process.stdin.close()
                code = process.wait()
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip()
        if code == _SSH_FAILED:
            raise self._lost(said)
        if code == _DAMAGED:
            fix = "try again; if it happens again, look at the disk there and at its sha256sum"
            raise DeviceError(f"{name} arrived damaged", self.address, fix, why=said or None)
        if code:
            raise self._refused(f"{name} cannot be kept", said)

    def _check_space(self, needed: int, name: str) -> None:
        done = self.run(f"df -Pk {shlex.quote(self._cache)}")
        found = re.search(r"\s(\d+)\s+\d+%\s", done.output.decode(errors="replace"))
        if found is not None and int(found[1]) * 1024 < needed + _SPARE_BYTES:
            free = int(found[1]) * 1024 / 1e6
            raise DeviceError(
                f"the device is out of space: {name} needs {needed / 1e6:.1f} MB, {free:.1f} MB are free",
                self.address,
                f"remove what is not needed; edgex keeps its own files in {self._cache}",
            )

    def _refused(self, what: str, errors: str) -> DeviceError:
        if "No space left" in errors or "quota exceeded" in errors:
            what = f"the device is out of space: {what}"
        return DeviceError(what, self.address, f"edgex keeps its files in {self._cache or CACHE} there", why=errors)

    def _lost(self, errors: str) -> DeviceError:
        what = "ssh failed" if self._is_up() else "the connection to the device broke"
        return DeviceError(
            what,
            self.address,
            "try again; should files of this run be left there, a visit after a day removes them",
            why=errors or None,
        )

    def _is_up(self) -> bool:
        if self._master is None:
            return False
        # A process that dies closes its sockets first: whoever waits on them may be here before its end can be seen.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._master.wait(_ENDING_SECONDS)
        return self._master.poll() is None


def _pour(pipe: IO[bytes], files: Mapping[str, Path], progress: Progress) -> None:
    """The files as a tar archive, their SHA-256 first."""
    sums = "".join(f"{hash_file(path)}  {there}\n" for there, path in files.items()).encode()
    # The other side may end early, for want of space: its exit code and its words say why.
    with contextlib.suppress(BrokenPipeError), tarfile.open(fileobj=pipe, mode="w|", bufsize=_PIECE) as archive:
        archive.addfile(_entry(_SUMS, len(sums), executable=False), io.BytesIO(sums))
        for there, path in files.items():
            size = path.stat().st_size
            progress("send", f"{there}, {size / 1e6:.1f} MB")
            with path.open("rb") as stream:
                archive.addfile(_entry(there, size, executable=os.access(path, os.X_OK)), stream)


def _entry(name: str, size: int, *, executable: bool) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o700 if executable else 0o600
    return entry


def _explain(host: str, log: str) -> DeviceError:
    """Ssh's own words for why there is no connection, and what they mean."""
    lines = [line.strip() for line in log.splitlines() if line.strip() and not set(line.strip()) <= {"@"}]
    for pattern, meaning, fix in _CAUSES:
        if re.search(pattern, log):
            return DeviceError(
                f"{host} cannot be reached: {meaning}", fix=fix.replace("HOST", host), why="\n".join(lines)
            )
    return DeviceError(f"{host} cannot be reached", fix=f"see it alone: ssh -v {host}", why="\n".join(lines) or None)
