"""The user's own `adb` program: one process a command, on the user's own server, for one device."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from edgex.errors import DeviceError
from edgex.runtime.execute.adb.transport.server import read_server_version
from edgex.runtime.support.process.programs import run_program, start_program

_SECONDS = 60.0


@dataclass(frozen=True)
class Completed:
    """A command that ended: what it printed, and how. `returncode` is that of the command on the device for `shell`."""

    returncode: int
    stdout: bytes
    stderr: str

    @property
    def text(self) -> str:
        """What it printed, as text."""
        return self.stdout.decode(errors="replace")

    @property
    def words(self) -> str:
        """The last lines of what it said, for an error."""
        said = [line for line in (self.stderr + "\n" + self.text).splitlines() if line.strip()]
        return "\n".join(said[-6:])


@dataclass(frozen=True)
class AdbClient:
    """The program, and which device its commands are for.

    Attributes:
        binary: The program.
        environment: What it runs with: the user's own, unchanged.
        serial: The device; None for commands that are for none.
    """

    binary: str
    environment: Mapping[str, str] = field(repr=False)
    serial: str | None = None

    def run(self, *arguments: str, timeout_seconds: float | None = _SECONDS) -> Completed:
        """Run one command to its end.

        Args:
            arguments: As on adb's command line, after `-s SERIAL`.
            timeout_seconds: None for transfers, which take what they take.

        Raises:
            DeviceError: It did not end in time.
        """
        try:
            done = run_program(
                self._command(arguments), stdin=subprocess.DEVNULL, capture_output=True,
                timeout=timeout_seconds, env=dict(self.environment),
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            shown = " ".join(arguments)[:80]
            raise DeviceError(
                f"adb did not answer within {timeout_seconds:.0f} s", f"adb {shown}", "reconnect the device"
            ) from error
        return Completed(done.returncode, done.stdout, done.stderr.decode(errors="replace"))

    def shell(self, script: str, timeout_seconds: float | None = _SECONDS) -> Completed:
        """Run a line of the device's shell."""
        return self.run("shell", script, timeout_seconds=timeout_seconds)

    @contextmanager
    def follow(self, script: str) -> Iterator[subprocess.Popen[str]]:
        """A line of the device's shell whose output is read while it runs; it is ended on the way out."""
        process = start_program(
            self._command(("shell", script)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", env=dict(self.environment),
        )  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            if process.stdout is not None:
                process.stdout.close()
            process.wait()

    def _command(self, arguments: Sequence[str]) -> list[str]:
        return [self.binary, *(() if self.serial is None else ("-s", self.serial)), *arguments]


def find_client(environment: Mapping[str, str]) -> AdbClient:
    """The user's adb, with a server that it will not end.

    Args:
        environment: Environment variables. ADB names another program than the one on the PATH; ANDROID_HOME is where
            the SDK keeps one.

    Raises:
        DeviceError: There is none, no server runs, or the server is of another version.
    """
    binary = _find_binary(environment)
    client = AdbClient(binary, environment)
    server = read_server_version(environment)
    said = client.run("version").text
    found = re.search(r"version \d+\.\d+\.(\d+)", said)
    if found is None:
        raise DeviceError("this program is not adb", binary, "set ADB to the adb program", why=said.strip()[:200])
    if server is not None and server != int(found[1]):
        raise DeviceError(
            f"the adb server that runs is of version {server}, {binary} is of version {found[1]}",
            fix="set ADB to the program that the server belongs to, or adb kill-server && adb start-server",
            why="adb would end that server to start its own, and others may be using it",
        )
    return client


def _find_binary(environment: Mapping[str, str]) -> str:
    named = environment.get("ADB")
    if named:
        found = shutil.which(named, path=environment.get("PATH"))
        if found is None:
            raise DeviceError(f"ADB={named}: no such program", fix="set ADB to the adb program, or unset it")
        return found
    found = shutil.which("adb", path=environment.get("PATH"))
    if found is not None:
        return found
    homes = (environment.get(name) for name in ("ANDROID_HOME", "ANDROID_SDK_ROOT"))
    for home in (Path(text) for text in homes if text):
        if (home / "platform-tools" / "adb").is_file():
            return str(home / "platform-tools" / "adb")
    raise DeviceError(
        "adb is not installed",
        fix="install the Android platform tools (Debian: apt-get install adb), or set ADB to the program",
    )
