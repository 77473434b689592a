"""Which devices adb sees, in which state, and which one is meant."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass

from edgex.errors import DeviceError
from edgex.runtime.execute.adb.transport.client import AdbClient

READY = "device"

# States that pass by themselves; a device is looked at again before it is refused for one.
_PASSING = ("authorizing", "connecting")
_LOOKS = 8
_PAUSE_SECONDS = 0.25

# State in `adb devices` -> (what is the matter, what to do). States that are not here are named as adb names them.
_STATES: Mapping[str, tuple[str, str]] = {
    "unauthorized": ("the device has not allowed this computer", "unlock it and accept the question about debugging"),
    "authorizing": ("the device is deciding whether it allows this computer", "unlock it, and try again"),
    "offline": ("the device does not answer", "reconnect it; adb reconnect offline may help"),
    "connecting": ("the device is still connecting", "try again"),
    "no permissions": (
        "this user may not use the USB device",
        "install android-sdk-platform-tools-common (udev rules), join the group plugdev, log in again",
    ),
    "bootloader": ("the device is in its bootloader", "adb needs it started: fastboot reboot"),
    "recovery": ("the device is in recovery", "adb reboot"),
    "sideload": ("the device waits for a system update", "adb reboot"),
}


@dataclass(frozen=True)
class Listed:
    """A line of `adb devices -l`.

    Attributes:
        serial: What names it.
        state: `device` where it can be used.
        model: As the list gives it, with spaces; None where adb cannot ask.
    """

    serial: str
    state: str
    model: str | None = None

    @property
    def problem(self) -> tuple[str, str] | None:
        """What keeps it from being used, and what to do; None for one that is ready."""
        if self.state == READY:
            return None
        return _STATES.get(self.state, (f"adb calls its state {self.state!r}", "reconnect the device"))

    def __str__(self) -> str:
        state = "" if self.state == READY else f", {self.state}"
        return f"adb:{self.serial}" + (f"  {self.model}" if self.model else "") + state


def list_connected(client: AdbClient) -> list[Listed]:
    """Every device that adb sees, in adb's order.

    Raises:
        DeviceError: adb fails.
    """
    done = client.run("devices", "-l")
    if done.returncode != 0:
        raise DeviceError("adb cannot list its devices", fix="adb devices says why", why=done.words)
    return parse_devices(done.text)


def parse_devices(text: str) -> list[Listed]:
    """Read what `adb devices -l` prints."""
    found = []
    _, _, body = text.partition("List of devices attached")
    for line in body.splitlines():
        match = re.match(r"(\S+)\s+(no permissions|\S+)(.*)$", line)
        if match is None:
            continue
        model = re.search(r"\bmodel:(\S+)", match[3])
        found.append(Listed(match[1], match[2], model[1].replace("_", " ") if model else None))
    return found


def choose(client: AdbClient, serial: str | None) -> Listed:
    """The device that is meant: the named one, or the only one.

    Args:
        client: For any device; its environment's ANDROID_SERIAL names one as it does for adb.
        serial: As `--device` has it, or None.

    Raises:
        DeviceError: There is none, there are several, or it is not ready.
    """
    connected = _list_settled(client)
    wanted = serial or client.environment.get("ANDROID_SERIAL") or None
    known = "\n".join(map(str, connected))
    if not connected:
        missing = "no device is connected" if wanted is None else f"the device {wanted} is not connected"
        raise DeviceError(missing, fix="connect it, switch on USB debugging in its developer options; adb devices")
    if wanted is not None:
        chosen = next((one for one in connected if one.serial == wanted), None)
        if chosen is None:
            raise DeviceError(f"the device {wanted} is not connected", why=f"connected:\n{known}")
    elif len(connected) > 1:
        raise DeviceError(
            f"{len(connected)} devices are connected, and --device adb does not say which",
            fix=f"--device adb:{next((one.serial for one in connected if one.state == READY), connected[0].serial)}",
            why=known,
        )
    else:
        chosen = connected[0]
    require_ready(chosen)
    return chosen


def _list_settled(client: AdbClient) -> list[Listed]:
    for _ in range(_LOOKS):
        connected = list_connected(client)
        if not any(one.state in _PASSING for one in connected):
            break
        time.sleep(_PAUSE_SECONDS)
    return connected


def require_ready(listed: Listed) -> None:
    """Refuse a device that cannot be used now.

    Raises:
        DeviceError: It is not ready.
    """
    if listed.problem is not None:
        what, fix = listed.problem
        raise DeviceError(f"{what} ({listed.state})", f"adb:{listed.serial}", fix)
