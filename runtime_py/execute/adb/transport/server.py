"""The user's adb server: found where the user's own settings say, asked for its version, never started or ended.

The adb client starts a server where none runs, and ends one of another version. Both are the user's to decide, so edgex
asks before it calls the client at all.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping

from edgex.errors import DeviceError

_DEFAULT_PORT = 5037
_SECONDS = 5.0


def read_server_version(environment: Mapping[str, str]) -> int | None:
    """The version of the running server, for example 41.

    Args:
        environment: Environment variables; ADB_SERVER_SOCKET and ANDROID_ADB_SERVER_PORT are adb's own settings.

    Returns:
        None where the server is reached in a way that only adb itself knows.

    Raises:
        DeviceError: No server runs, or what answers there is none.
    """
    place = find_server(environment)
    if place is None:
        return None
    family, address, shown = place
    try:
        with socket.socket(family, socket.SOCK_STREAM) as connection:
            connection.settimeout(_SECONDS)
            connection.connect(address)
            connection.sendall(b"000chost:version")
            status = _read(connection, 4)
            if status != b"OKAY":
                raise ValueError(f"it answers {status!r}")
            return int(_read(connection, int(_read(connection, 4), 16)), 16)
    except (ConnectionRefusedError, FileNotFoundError) as error:
        raise DeviceError(
            "no adb server is running",
            shown,
            "adb start-server",
            why="edgex uses the server that is there and starts none, so that your settings stay yours",
        ) from error
    except (OSError, ValueError) as error:
        raise DeviceError("what answers is not an adb server", shown, "adb kill-server", why=str(error)) from error


def find_server(environment: Mapping[str, str]) -> tuple[int, tuple[str, int] | str, str] | None:
    """Family, address and words for the server's socket; None for kinds of sockets that are not known here.

    Raises:
        DeviceError: A port is no number.
    """
    spec = environment.get("ADB_SERVER_SOCKET")
    if spec:
        kind, _, rest = spec.partition(":")
        if kind == "tcp":
            host, _, port = rest.rpartition(":")
            return socket.AF_INET, (host or "127.0.0.1", _port(port, "ADB_SERVER_SOCKET")), spec
        if kind == "localfilesystem":
            return socket.AF_UNIX, rest, spec
        if kind == "localabstract":
            return socket.AF_UNIX, "\0" + rest, spec
        return None
    host = environment.get("ANDROID_ADB_SERVER_ADDRESS") or "127.0.0.1"
    text = environment.get("ANDROID_ADB_SERVER_PORT")
    port_number = _port(text, "ANDROID_ADB_SERVER_PORT") if text else _DEFAULT_PORT
    return socket.AF_INET, (host, port_number), f"tcp:{host}:{port_number}"


def _port(text: str, name: str) -> int:
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise DeviceError(f"{name} names no port: {text!r}", fix=f"set {name} as adb needs it, or unset it")
    return int(text)


def _read(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise ValueError("it ends the connection")
        data += piece
    return data
