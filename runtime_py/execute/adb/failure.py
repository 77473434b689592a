"""Why a command on the device failed: the device went away, has no room, or said something else."""

from __future__ import annotations

import time

from edgex.errors import DeviceError
from edgex.runtime.execute.adb.transport.client import AdbClient, Completed
from edgex.runtime.execute.adb.transport.listing import READY, list_connected

NO_SPACE = "No space left on device"

# The server notices a lost connection a moment after the command that it ended.
_LOOKS = 4
_PAUSE_SECONDS = 0.25


def explain(client: AdbClient, doing: str, done: Completed) -> DeviceError:
    """The error for a command that failed.

    Args:
        client: For the device.
        doing: What it was to do, for example `send the model`.
        done: The command.
    """
    where = f"adb:{client.serial}"
    if NO_SPACE in done.stderr or NO_SPACE in done.text:
        return DeviceError(
            f"the device has no room left: could not {doing}", where, "free some space on the device", why=done.words
        )
    gone = find_loss(client)
    if gone is not None:
        return DeviceError(
            f"the device went away while edgex tried to {doing}: it is {gone}",
            where,
            "reconnect it and run the command again; what was left there is removed then",
            why=done.words or None,
        )
    return DeviceError(f"could not {doing}", where, "adb logcat on the device may say more", why=done.words or None)


def find_loss(client: AdbClient) -> str | None:
    """How the device is missing, in a word; None where it is there."""
    for look in range(_LOOKS):
        if look:
            time.sleep(_PAUSE_SECONDS)
        try:
            listed = next((one for one in list_connected(client) if one.serial == client.serial), None)
        except DeviceError:
            return "no longer listed by adb"
        if listed is None:
            return "no longer connected"
        if listed.state != READY:
            return listed.state
    return None
