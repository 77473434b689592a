"""A Linux machine over the user's own OpenSSH client: their configuration, keys, agent and known hosts, untouched.

`EDGEX_SSH_OPTIONS` adds options to every call of ssh, for example `-F /path/to/config` or `-J jumphost`.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from edgex.errors import DeviceError, UsageError
from edgex.runtime.artifact import hash_file
from edgex.runtime.device.address import Address
from edgex.runtime.device.base import Progress
from edgex.runtime.device.link import Done, Sent, guarded, run_process, stream_process

OPTIONS_VARIABLE = "EDGEX_SSH_OPTIONS"
_CONNECT_SECONDS = 15
# ssh's own exit code, for whatever keeps it from the other side.
_SSH_FAILED = 255
# Where a device keeps what is sent; also what is told to users.
CACHE = '"${XDG_CACHE_HOME:-$HOME/.cache}"/edgex/device'
_PIECE = 1 << 20
# Besides the files themselves, for inputs, outputs and the file system's own blocks.
_SPARE_BYTES = 8 << 20

_CAUSES = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key for .* has changed",
        "its host key is not the one that is known",
        "find out why (a new system, or another machine in between); then `ssh-keygen -R HOST`",
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
        folder = tempfile.mkdtemp(prefix="edgex-ssh-", dir="/tmp" if len(tempfile.gettempdir()) > 60 else None)
        self._folder = Path(folder)
        self._socket = self._folder / "s"
        # Nobody is there to type a password. Keys and known hosts are the user's own affair.
        self._base = ["ssh", *extra, "-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_SECONDS}", "-T"]
        self._base += ["-S", str(self._socket)]
        self._target = ([] if address.port is None else ["-p", str(address.port)]) + (
            [] if address.user is None else ["-l", address.user]
        )
        self._target += ["--", self._host]
        self._master: subprocess.Popen[bytes] | None = None
        self._cache = ""
        try:
            self._connect()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> None:
        log = self._folder / "log"
        with log.open("wb") as stream:
            self._master = subprocess.Popen(
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
        script = f'umask 077; C={CACHE}; mkdir -p "$C" && find "$C" -maxdepth 1 -mmin +60 '
        # Left by a machine that lost power in the middle of a run.
        script += "\\( -name 'run-*' -o -name 'part-*' \\) -exec rm -rf {} + ; cd \"$C\" && pwd"
        done = self.run(script)
        self._cache = done.output.decode(errors="replace").strip().splitlines()[-1] if done.output.strip() else ""
        if done.code or not self._cache.startswith("/"):
            raise DeviceError(
                "the device has no folder to work in", self.address, why=done.errors or "no home folder, or a full disk"
            )

    def run(self, script: str, data: bytes = b"") -> Done:
        """See `Link`."""
        done = run_process(self._command(script), data)
        if done.code == _SSH_FAILED:
            raise self._lost(done.errors)
        return done

    def stream(self, folder: str, command: Sequence[str], on_line: Callable[[str], None]) -> Done:
        """See `Link`."""
        done = stream_process(self._command(guarded(folder, command)), on_line)
        if done.code == _SSH_FAILED:
            raise self._lost(done.errors)
        return done

    def provide(self, name: str, digest: str, files: Mapping[str, Path], progress: Progress) -> str:
        """See `Link`; each file's SHA-256 is checked there before the folder gets its name."""
        folder = f"{self._cache}/{name}-{digest}"
        if self.run(f"test -d {shlex.quote(folder)}").code == 0:
            return folder
        total = sum(path.stat().st_size for path in files.values())
        self._check_space(total, name)
        started = time.monotonic()
        part = f"{self._cache}/part-{name}-{digest}-{os.getpid()}"
        try:
            folders = sorted({str(PurePosixPath(part, there).parent) for there in files})
            self._checked(f"mkdir -p {' '.join(map(shlex.quote, folders))}", f"{name} cannot be sent")
            for there, path in files.items():
                progress("send", f"{there}, {path.stat().st_size / 1e6:.1f} MB")
                self._send(path, f"{part}/{there}")
            sums = "".join(f"{hash_file(path)}  {there}\n" for there, path in files.items())
            self._checked(
                f"cd {shlex.quote(part)} && sha256sum -c - >/dev/null", f"{name} arrived damaged", sums.encode()
            )
            executable = " ".join(shlex.quote(there) for there, path in files.items() if os.access(path, os.X_OK))
            script = f"cd {shlex.quote(part)} && " + (f"chmod u+x {executable} && " if executable else "")
            # Another session may have been quicker.
            target = shlex.quote(folder)
            script += f"cd .. && {{ test -d {target} || mv {shlex.quote(part)} {target}; }}"
            self._checked(script, f"{name} cannot be kept")
        finally:
            with contextlib.suppress(DeviceError):
                self.run(f"rm -rf {shlex.quote(part)}")
        self.sent = Sent(self.sent.bytes + total, self.sent.seconds + time.monotonic() - started)
        return folder

    def make_workspace(self, run_id: str) -> str:
        """See `Link`."""
        folder = f"{self._cache}/run-{run_id}"
        self._checked(f"umask 077; mkdir {shlex.quote(folder)}", "no folder can be made for the run")
        return folder

    def remove_workspace(self, folder: str) -> None:
        """See `Link`."""
        self.run(f"rm -rf {shlex.quote(folder)}")

    def close(self) -> None:
        """End the connection."""
        master, self._master = self._master, None
        if master is not None:
            master.terminate()
            master.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _command(self, script: str) -> list[str]:
        # One argument for the login shell there, whichever it is: sh runs the script.
        return [*self._base, "-o", "ControlMaster=no", *self._target, f"exec sh -c {shlex.quote(script)}"]

    def _send(self, path: Path, there: str) -> None:
        with path.open("rb") as stream:
            command = self._command(f"cat > {shlex.quote(there)}")
            done = subprocess.run(command, stdin=stream, capture_output=True, check=False)
        errors = done.stderr.decode(errors="replace").strip()
        if done.returncode == _SSH_FAILED:
            raise self._lost(errors)
        if done.returncode:
            raise self._refused(f"{path.name} cannot be sent", errors)

    def _checked(self, script: str, what: str, data: bytes = b"") -> Done:
        done = self.run(script, data)
        if done.code:
            raise self._refused(what, done.errors)
        return done

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
        alive = self._master is not None and self._master.poll() is None
        what = "ssh failed" if alive else "the connection to the device broke"
        return DeviceError(what, self.address, "try again; its files are removed at the next visit", why=errors or None)


def _explain(host: str, log: str) -> DeviceError:
    """Ssh's own words for why there is no connection, and what they mean."""
    lines = [line.strip() for line in log.splitlines() if line.strip() and not set(line.strip()) <= {"@"}]
    for pattern, meaning, fix in _CAUSES:
        if re.search(pattern, log):
            return DeviceError(
                f"{host} cannot be reached: {meaning}", fix=fix.replace("HOST", host), why="\n".join(lines)
            )
    return DeviceError(f"{host} cannot be reached", fix=f"see it alone: ssh -v {host}", why="\n".join(lines) or None)
