"""Android devices over the user's own adb: `--device adb[:SERIAL]`.

```
client, server   the adb program, and the server that it must not start or end
listing          what is connected, in which state; which one is meant
describe         what a device is
apk, axml, app   the benchmark app (samples/android): found, installed
instrument       what `am instrument` prints           tasks   ways to an answer, best first
job, answer      what is asked and answered            store   what lies on the device
device           all of it together
```
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from edgex.runtime.device.base import DeviceInfo

if TYPE_CHECKING:
    from edgex.runtime.device.adb.device import AdbDevice
    from edgex.runtime.device.address import Address
    from edgex.runtime.device.base import DeviceOptions


def open_adb(address: Address, options: DeviceOptions) -> AdbDevice:
    """Open the Android device that is meant.

    Args:
        address: With a serial number, or without one where a single device is connected.
        options: Names the app.

    Raises:
        DeviceError: There is no adb, no server, no such device or several, or it is not ready; or the app is none.
    """
    from edgex.runtime.device.adb.app import check_app_choice
    from edgex.runtime.device.adb.client import find_client
    from edgex.runtime.device.adb.device import AdbDevice
    from edgex.runtime.device.adb.listing import choose

    choice = None if options.app is None else check_app_choice(options.app)
    client = find_client(os.environ)
    return AdbDevice(replace(client, serial=choose(client, address.serial).serial), choice)


def list_adb() -> list[DeviceInfo]:
    """Every device that adb sees, with what it is; one that is not ready has its problem.

    Raises:
        DeviceError: There is no adb, or no server runs.
    """
    from edgex.runtime.device.adb.client import find_client
    from edgex.runtime.device.adb.describe import describe
    from edgex.runtime.device.adb.listing import list_connected

    client = find_client(os.environ)
    found = []
    for listed in list_connected(client):
        if listed.problem is None:
            found.append(describe(replace(client, serial=listed.serial)).info)
        else:
            what, fix = listed.problem
            problem = f"{what} ({listed.state}): {fix}"
            found.append(DeviceInfo("adb", f"adb:{listed.serial}", model=listed.model, problems=(problem,)))
    return found
