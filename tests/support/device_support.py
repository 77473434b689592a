"""A real sshd on loopback, with keys, configuration and cache of its own; and small things that device tests share."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SSHD = shutil.which("sshd") or next((p for p in ("/usr/sbin/sshd",) if Path(p).is_file()), None)
needs_sshd = pytest.mark.skipif(
    SSHD is None or shutil.which("ssh") is None, reason="no sshd here: apt-get install openssh-server"
)
needs_compiler = pytest.mark.skipif(
    not sys.platform.startswith("linux") or shutil.which("g++") is None, reason="the native runner needs Linux and g++"
)


@dataclass
class Sshd:
    """A running server.

    Attributes:
        folder: Its keys, configuration, and the client's.
        port: On 127.0.0.1.
        cache: What programs there take as the user's cache folder.
        programs: Programs there that come before the system's.
        process: The server.
    """

    folder: Path
    port: int
    cache: Path
    programs: Path
    process: subprocess.Popen[bytes]

    @property
    def options(self) -> str:
        """What `EDGEX_SSH_OPTIONS` must be to reach it."""
        return f"-F {self.folder}/config"

    def forget(self) -> None:
        """As if nothing had been sent there yet, and the system's own programs."""
        shutil.rmtree(self.cache / "edgex", ignore_errors=True)
        for program in self.programs.iterdir():
            program.unlink()

    def replace(self, name: str, script: str) -> None:
        """Put a program there that comes before the system's; in it `$SYSTEM` is the system's own."""
        path = self.programs / name
        path.write_text(f"#!/bin/sh\nSYSTEM={shutil.which(name)}\n{script}\n")
        path.chmod(0o755)

    def left_behind(self) -> list[str]:
        """What is in edgex's folder there besides what is kept on purpose."""
        folder = self.cache / "edgex" / "device"
        return sorted(path.name for path in folder.glob("*") if path.name.startswith(("run-", "part-")))


@contextlib.contextmanager
def running_sshd(folder: Path) -> Iterator[Sshd]:
    """Start a server for the current user; ended at the end."""
    assert SSHD is not None
    for name in ("host_key", "user_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    shutil.copy(folder / "user_key.pub", folder / "authorized")
    (folder / "authorized").chmod(0o600)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    cache = folder / "far" / "cache"
    cache.mkdir(parents=True)
    programs = folder / "far" / "bin"
    programs.mkdir()
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host_key\nPidFile {folder}/pid\nUsePAM no\n"
        f"AuthorizedKeysFile {folder}/authorized\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        f"StrictModes no\nPermitRootLogin prohibit-password\n"
        f"SetEnv XDG_CACHE_HOME={cache} PATH={programs}:{os.environ['PATH']}\n"
    )
    write_known_host(folder, port, (folder / "host_key.pub").read_text())
    (folder / "config").write_text(
        f"Host box\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {folder}/user_key\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {folder}/known\n  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n"
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where root's sshd confines itself
    log = (folder / "log").open("wb")
    process = subprocess.Popen([SSHD, "-D", "-e", "-f", folder / "sshd_config"], stderr=log)
    try:
        deadline = time.monotonic() + 20
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            assert process.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.02)
        yield Sshd(folder, port, cache, programs, process)
    finally:
        process.terminate()
        process.wait()
        log.close()


def write_known_host(folder: Path, port: int, public_key: str) -> None:
    """What the client knows about the server's key."""
    (folder / "known").write_text(f"[127.0.0.1]:{port} {' '.join(public_key.split()[:2])}\n")


def wait_until(condition: Callable[[], object], seconds: float = 120.0) -> bool:
    """With room, as this machine may be busy with other things."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return bool(condition())
