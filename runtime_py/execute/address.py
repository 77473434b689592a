"""`--device`: which device is meant, and the way to it."""

from __future__ import annotations

import importlib
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, cast

from edgex.errors import UsageError, nearest_name
from edgex.runtime.execute.base import Device, DeviceOptions

Kind = Literal["adb", "ssh", "local-native"]

FORMS = ("adb[:SERIAL]", "ssh:[USER@]HOST[:PORT]", "local-native")

# Function that opens a device of a kind: (address, options) -> Device. Imported when it is needed.
OPENERS = {
    "adb": "edgex.runtime.execute.adb:open_adb",
    "ssh": "edgex.runtime.execute.linux.ssh:open_ssh",
    "local-native": "edgex.runtime.execute.linux.local:open_local",
}


@dataclass(frozen=True)
class Address:
    """A device as `--device` names it.

    Attributes:
        kind: How it is reached.
        serial: adb: which of several; None where there is only one.
        user: ssh: None leaves it to the user's ssh configuration.
        host: ssh: a name, an alias of the configuration, or an IP address without brackets.
        port: ssh: None leaves it to the configuration.
    """

    kind: Kind
    serial: str | None = None
    user: str | None = None
    host: str | None = None
    port: int | None = None

    def __str__(self) -> str:
        if self.kind == "adb":
            return f"adb:{self.serial}" if self.serial else "adb"
        if self.kind == "local-native":
            return self.kind
        host = f"[{self.host}]" if ":" in str(self.host) else self.host
        user = f"{self.user}@" if self.user else ""
        return f"ssh:{user}{host}" + (f":{self.port}" if self.port else "")


def parse_address(text: str) -> Address:
    """Read what `--device` was given.

    Args:
        text: `adb`, `adb:SERIAL`, `ssh:[user@]host[:port]` (an IPv6 address in brackets) or `local-native`.

    Raises:
        UsageError: It has another form.
    """
    kind, separator, rest = text.partition(":")
    if kind not in OPENERS:
        known = f"{nearest_name(kind, OPENERS)}\nforms: {', '.join(FORMS)}"
        raise UsageError(f"--device {text}: no such kind of device: {kind!r}", why=known)
    if kind == "local-native":
        if separator:
            raise UsageError(f"--device {text}: local-native is this machine and takes no more", fix=f"--device {kind}")
        return Address("local-native")
    if kind == "adb":
        # Serials hold colons where a device is reached by network (host:port); they never begin with a dash.
        if separator and not re.fullmatch(r"[\w.\[\]][\w.:\-\[\]]*", rest):
            raise UsageError(f"--device {text}: {rest!r} is no serial number", fix="adb devices lists them")
        return Address("adb", serial=rest or None)
    return _parse_ssh(text, rest)


def _parse_ssh(text: str, rest: str) -> Address:
    # A host that begins with a dash would be an option to ssh.
    found = re.fullmatch(r"(?:([\w.][\w.\-]*)@)?(?:\[([0-9A-Fa-f:.]+(?:%\w+)?)\]|([\w.][\w.\-]*))(?::(\d+))?", rest)
    if found is None:
        raise UsageError(f"--device {text}: expected ssh:[USER@]HOST[:PORT]", fix="--device ssh:pi@raspberrypi:22")
    port = None if found[4] is None else int(found[4])
    if port is not None and not 1 <= port <= 65535:
        raise UsageError(f"--device {text}: {port} is no port", fix="ports are 1 to 65535")
    return Address("ssh", user=found[1], host=found[2] or found[3], port=port)


def check_options(address: Address, options: DeviceOptions) -> None:
    """Refuse options that mean nothing on a device of this kind.

    Raises:
        UsageError: One was given.
    """
    if address.kind == "adb":
        for flag, given in (("--executorch-wheel", options.executorch_wheel), ("--device-python", options.python)):
            if given is not None:
                raise UsageError(f"{flag} is for Linux machines, not for {address}", fix=f"leave {flag} out")
    elif options.app is not None:
        raise UsageError(f"--app is for Android devices (adb), not for {address}", fix="leave --app out")


def refuse_idle_options(options: DeviceOptions, engines: Collection[str]) -> None:
    """Refuse options that none of the artifacts has a use for.

    Args:
        options: For a Linux machine.
        engines: Of the artifacts.

    Raises:
        UsageError: One was given for nothing.
    """
    for flag, given, engine, use in (
        ("--executorch-wheel", options.executorch_wheel, "executorch", "the native runner, which runs .pte files"),
        ("--device-python", options.python, "onnxruntime", "ONNX artifacts: a .pte needs no Python"),
    ):
        if given is not None and engine not in engines:
            shown = ", ".join(sorted(set(engines)))
            raise UsageError(f"{flag} is for {use}; here the engine is {shown}", fix=f"leave {flag} out")


def open_device(address: Address | str, options: DeviceOptions | None = None) -> Device:
    """Open a device; nothing is sent to it yet.

    Args:
        address: As `--device` takes it.
        options: For devices of its kind.

    Raises:
        UsageError: The address has another form, or the options are not for its kind.
        DeviceError: The device cannot be reached.
    """
    parsed = parse_address(address) if isinstance(address, str) else address
    module, _, function = OPENERS[parsed.kind].partition(":")
    opener = getattr(importlib.import_module(module), function)
    given = options or DeviceOptions()
    check_options(parsed, given)
    return cast(Device, opener(parsed, given))
