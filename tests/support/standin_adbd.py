"""A stand-in for a phone's adbd: the real ADB wire protocol over TCP, for the real adb program; no Android behind it.

Speaks CNXN, AUTH, OPEN, OKAY, WRTE, CLSE; the services `shell,v2`, `exec` and `sync` (version 1: STAT, SEND, RECV).
Shell lines run in this machine's `sh` within a folder that plays the device's storage, with a few programs of Android's
in front of the PATH; `am`, `pidof`, `logcat`, `run-as` and `cmd package` are answered by `StandInApp`.
"""

import os
import queue
import re
import socket
import struct
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

CNXN, AUTH, OPEN, OKAY, WRTE, CLSE = (
    struct.unpack("<I", name)[0] for name in (b"CNXN", b"AUTH", b"OPEN", b"OKAY", b"WRTE", b"CLSE")
)
VERSION, MAX_DATA = 0x01000001, 256 * 1024
STDOUT, STDERR, EXIT = 1, 2, 3

PROPERTIES = {
    "ro.build.version.sdk": "35",
    "ro.build.version.release": "15",
    "ro.product.manufacturer": "Stand-in",
    "ro.product.model": "Phone 1",
    "ro.product.cpu.abilist": "arm64-v8a,armeabi-v7a",
    "ro.soc.manufacturer": "Nobody",
    "ro.soc.model": "SoC 1",
}
MEMINFO = "MemTotal:        8000000 kB\nMemFree:          100000 kB\nMemAvailable:    4000000 kB\n"
CPUINFO = "processor\t: 0\nFeatures\t: fp asimd asimddp\n"


class StandInPhone:
    """A device that the real adb can connect to.

    Attributes:
        root: What plays its file system.
        serial: What adb calls it.
        app: Answers what the app and the package manager would.
        pushed_bytes: What came in by `sync`, in all.
        lines: Every shell and exec line that came.
    """

    def __init__(self, root, app, *, model="Phone_1", authorized=True, properties=None, free_kib=4_000_000):
        self.root, self.app, self.model, self.authorized = Path(root), app, model, authorized
        self.pushed_bytes = 0
        self.lines = []
        self.full = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.serial = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._connections = []
        self._prepare(properties or {}, free_kib)
        app.phone = self
        threading.Thread(target=self._accept, daemon=True).start()

    def path(self, name):
        """Where a path of the device lies."""
        return self.root / name.lstrip("/")

    def files(self):
        """Every file on the device's storage, relative to it."""
        storage = self.path("/sdcard")
        return sorted(str(p.relative_to(storage)) for p in storage.rglob("*") if p.is_file())

    def drop(self):
        """Go away: every connection ends, and no other is taken."""
        # A blocked accept keeps the socket alive: shutting it down wakes it.
        for one in [self._listener, *self._connections]:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _prepare(self, properties, free_kib):
        self.path("/sdcard").mkdir(parents=True)
        self.path("/proc").mkdir()
        self.path("/proc/meminfo").write_text(MEMINFO)
        self.path("/proc/cpuinfo").write_text(CPUINFO)
        known = "\n".join(f"[{k}]: [{v}]" for k, v in {**PROPERTIES, **properties}.items())
        table = (
            f"Filesystem 1K-blocks Used Available Use% Mounted on\n/dev/fuse 9000000 5000000 {free_kib} 56% /storage\n"
        )
        programs = {
            "getprop": f"cat <<'END'\n{known}\nEND",
            "df": f"cat <<'END'\n{table}END",
            # A stand-in must not be able to remove anything of this machine's.
            "rm": f'for a in "$@"; do case $a in -*|{self.root}/*) ;; *) echo "outside: $a" >&2; exit 9;; esac; done\n'
            'exec /bin/rm "$@"',
        }
        (self.root / "bin").mkdir()
        for name, text in programs.items():
            program = self.root / "bin" / name
            program.write_text(f"#!/bin/sh\n{text}\n")
            program.chmod(0o755)

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections.append(connection)
            threading.Thread(target=_Connection(self, connection).serve, daemon=True).start()

    def run_shell(self, line, stream):
        """Answer a shell line; gives the exit code."""
        self.lines.append(line)
        answered = self.app.answer(line, stream)
        if answered is not None:
            return answered
        script = re.sub(r"(?<!\w)/(sdcard|proc|data)\b", lambda m: f"{self.root}/{m[1]}", line)
        environment = {"PATH": f"{self.root}/bin:{os.environ['PATH']}"}
        done = subprocess.run(["sh", "-c", script], capture_output=True, env=environment, cwd=self.root, check=False)
        back = str(self.root).encode()
        stream.stdout(done.stdout.replace(back, b""))
        stream.stderr(done.stderr.replace(back, b""))
        return done.returncode


class _Connection:
    """One adb server's connection: packets in, streams out."""

    def __init__(self, phone, connection):
        self.phone, self.connection = phone, connection
        self.lock = threading.Lock()
        self.streams = {}

    def send(self, command, first=0, second=0, data=b""):
        header = struct.pack("<6I", command, first, second, len(data), sum(data) & 0xFFFFFFFF, command ^ 0xFFFFFFFF)
        with self.lock:
            self.connection.sendall(header + data)

    def serve(self):
        try:
            while True:
                command, first, second, length, _, _ = struct.unpack("<6I", self._exactly(24))
                self._handle(command, first, second, self._exactly(length))
        except (OSError, EOFError):
            for stream in self.streams.values():
                stream.arrived.put(None)
                stream.sent.release()

    def _handle(self, command, first, second, data):
        if command in (CNXN, AUTH):
            if not self.phone.authorized:
                # A signature is not good enough; the public key waits for the owner's word, which never comes.
                if (command, first) != (AUTH, 3):
                    self.send(AUTH, 1, 0, b"t" * 20)
                return
            banner = f"device::ro.product.name=standin;ro.product.model={self.phone.model};ro.product.device=standin;"
            self.send(CNXN, VERSION, MAX_DATA, (banner + "features=shell_v2,cmd").encode())
        elif command == OPEN:
            stream = _Stream(self, len(self.streams) + 1, first)
            self.streams[stream.local] = stream
            threading.Thread(target=stream.serve, args=(data.rstrip(b"\0").decode(),), daemon=True).start()
        elif command == OKAY:
            self.streams[second].sent.release()
        elif command == WRTE:
            self.streams[second].arrived.put(data)
            self.send(OKAY, second, first)
        elif command == CLSE and second in self.streams:
            self.streams[second].arrived.put(None)
            self.streams[second].closed = True
            self.streams[second].sent.release()

    def _exactly(self, count):
        data = b""
        while len(data) < count:
            piece = self.connection.recv(count - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data


class _Stream:
    """One service that was opened."""

    def __init__(self, connection, local, remote):
        self.connection, self.local, self.remote = connection, local, remote
        self.arrived, self.sent = queue.Queue(), threading.Semaphore(0)
        self.buffer, self.closed, self.raw = b"", False, False

    def serve(self, service):
        try:
            self.connection.send(OKAY, self.local, self.remote)
            if service == "sync:":
                self._sync()
            elif service.startswith("exec:"):
                self.raw = True
                self.connection.phone.run_shell(service.removeprefix("exec:"), self)
            else:
                line = service.split(":", 1)[1]
                code = self.connection.phone.run_shell(line, self)
                self.write(struct.pack("<BIB", EXIT, 1, code & 0xFF))
            self.connection.send(CLSE, self.local, self.remote)
        except (OSError, EOFError):
            pass

    def stdout(self, data):
        self._packet(STDOUT, data)

    def stderr(self, data):
        self._packet(STDERR, data)

    def read(self, count):
        while len(self.buffer) < count:
            piece = self.arrived.get()
            if piece is None:
                raise EOFError
            self.buffer += piece
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def write(self, data):
        for at in range(0, len(data), MAX_DATA):
            self.connection.send(WRTE, self.local, self.remote, data[at : at + MAX_DATA])
            self.sent.acquire()
            if self.closed:
                raise EOFError

    def _packet(self, kind, data):
        step = MAX_DATA - 5
        for at in range(0, len(data), step):
            piece = data[at : at + step]
            self.write(piece if self.raw else struct.pack("<BI", kind, len(piece)) + piece)

    def _sync(self):
        phone = self.connection.phone
        while True:
            name, length = struct.unpack("<4sI", self.read(8))
            if name == b"QUIT":
                return
            argument = self.read(length).decode()
            if name == b"STAT":
                path = phone.path(argument)
                status = path.lstat() if path.exists() else None
                figures = (status.st_mode, status.st_size, int(status.st_mtime)) if status else (0, 0, 0)
                self.write(struct.pack("<4s3I", b"STAT", *figures))
            elif name == b"SEND":
                self._receive(phone, phone.path(argument.rpartition(",")[0]))
            elif name == b"RECV":
                self._give(phone, argument)
            else:
                self._fail(f"unknown {name!r}")

    def _receive(self, phone, path):
        content = bytearray()
        while True:
            name, length = struct.unpack("<4sI", self.read(8))
            if name == b"DONE":
                break
            content += self.read(length)
            phone.pushed_bytes += length
            phone.app.on_push(phone)
        if phone.full:
            path.write_bytes(content[: len(content) // 2])
            self._fail("couldn't write: No space left on device")
        elif not path.parent.is_dir():
            self._fail("couldn't create file: No such file or directory")
        else:
            path.write_bytes(content)
            self.write(struct.pack("<4sI", b"OKAY", 0))

    def _give(self, phone, name):
        path = phone.path(name)
        if phone.app.forbids_pull or not path.is_file():
            self._fail("Permission denied")
            return
        content = path.read_bytes()
        for at in range(0, len(content), 65536):
            piece = content[at : at + 65536]
            self.write(struct.pack("<4sI", b"DATA", len(piece)) + piece)
        self.write(struct.pack("<4sI", b"DONE", 0))

    def _fail(self, words):
        self.write(struct.pack("<4sI", b"FAIL", len(words)) + words.encode())
