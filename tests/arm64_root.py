"""A Debian root for Arm64 with an sshd in it, under qemu's user emulation. For `make arm64-check`; only for root.

Programs of the root start each other, which needs the kernel's binfmt_misc. It is mounted and told of qemu in a user
namespace of its own, as Linux 6.7 and newer allow: outside of it nothing changes, and it goes with its last process.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TOOLS = {"debootstrap": "debootstrap", "ssh": "openssh-client", "unshare": "util-linux", "nsenter": "util-linux"}
SUITE, MIRROR = "bookworm", "http://deb.debian.org/debian"
# That of a Raspberry Pi 5. What qemu 7.2 makes of SME, which its `max` has, computes quantized convolutions wrongly.
CPU = "cortex-a76"
# An ELF file of 64 bits for machine 183, whichever system made it. F: qemu is opened now, so that roots need none.
_RULE = (
    r":qemu-aarch64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
    r":\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:"
)
_REGISTRY = "/proc/sys/fs/binfmt_misc"


@dataclass(frozen=True)
class Root:
    """A root that can be entered.

    Attributes:
        path: Its folder.
        enter: What a command begins with to run in the namespace.
    """

    path: Path
    enter: tuple[str, ...]


@contextlib.contextmanager
def arm64_root(path: Path) -> Iterator[Root]:
    """A Debian root for Arm64 with openssh-server; made in some minutes where it is not there yet."""
    if not path.exists():
        part = path.with_name(path.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        flags = ["--foreign", "--arch=arm64", "--variant=minbase", "--include=openssh-server"]
        _run("debootstrap", *flags, SUITE, str(part), MIRROR)
        part.rename(path)
    with _namespace() as enter:
        qemu = str(shutil.which("qemu-aarch64-static"))
        _run(*enter, "mount", "-t", "binfmt_misc", "binfmt_misc", _REGISTRY)
        _run(*enter, "sh", "-c", f'printf %s "$1" > {_REGISTRY}/register', "sh", f"{_RULE}{qemu}:F")
        _bind(enter, path)
        if (path / "debootstrap").exists():
            # In a container it takes devices as they are, instead of making them.
            _run(*enter, "env", "container=lxc", "chroot", str(path), "/debootstrap/debootstrap", "--second-stage")
            # It unmounts at its end what it found mounted.
            _bind(enter, path)
        yield Root(path, enter)


def _bind(enter: tuple[str, ...], path: Path) -> None:
    """The machine's own /proc and /sys in the root: without them cpuinfo finds no processor, and XNNPACK fails."""
    for name in ("proc", "sys"):
        _run(*enter, "mount", "--rbind", f"/{name}", str(path / name))


@contextlib.contextmanager
def sshd_in(root: Root, folder: Path) -> Iterator[str]:
    """An sshd of the root on loopback; gives the options with which `ssh arm64` reaches it."""
    folder.mkdir(exist_ok=True)
    key, known = folder / "key", folder / "known"
    key.unlink(missing_ok=True)
    known.unlink(missing_ok=True)
    _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))
    shutil.copy(key.with_suffix(".pub"), root.path / "edgex-key.pub")
    (root.path / "run" / "sshd").mkdir(mode=0o755, exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "config").write_text(
        f"Host arm64\n  HostName 127.0.0.1\n  Port {port}\n  User root\n  IdentityFile {key}\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {known}\n  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking accept-new\n"
    )
    flags = ["-D", "-e", "-p", str(port), "-o", "ListenAddress=127.0.0.1", "-o", "UsePAM=no", "-o", "StrictModes=no"]
    flags += ["-o", "AuthorizedKeysFile=/edgex-key.pub", "-o", "PasswordAuthentication=no"]
    flags += ["-o", f"SetEnv=QEMU_CPU={CPU}"]
    with (folder / "log").open("wb") as log:
        command = [*root.enter, "chroot", str(root.path), "/usr/sbin/sshd", *flags]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 120
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"sshd did not start in {root.path}: {(folder / 'log').read_text()}")
            time.sleep(0.2)
        yield f"-F {folder / 'config'}"
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def _namespace() -> Iterator[tuple[str, ...]]:
    """A user and a mount namespace, in which all users are those outside: sshd changes between several."""
    holder = subprocess.Popen(["unshare", "--user", "--mount", "sleep", "infinity"])
    try:
        own, its = Path("/proc/self/ns/user"), Path(f"/proc/{holder.pid}/ns/mnt")
        while its.readlink() == Path("/proc/self/ns/mnt").readlink() and holder.poll() is None:
            time.sleep(0.05)
        if holder.poll() is not None or Path(f"/proc/{holder.pid}/ns/user").readlink() == own.readlink():
            raise SystemExit("no user namespace can be made here")
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{holder.pid}/{name}").write_text("0 0 65536\n")
        yield ("nsenter", "-t", str(holder.pid), "-U", "-m", "--")
    finally:
        holder.terminate()
        holder.wait()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"failed: {' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def can_be_made() -> bool:
    """Whether this user may."""
    return os.geteuid() == 0
