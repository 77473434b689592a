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

from edgex.errors import DeviceError
from edgex.runtime.execute.request import DeviceInfo

if TYPE_CHECKING:
    from edgex.runtime.execute.adb.device import AdbDevice
    from edgex.runtime.execute.adb.transport.client import AdbClient
    from edgex.runtime.execute.adb.transport.listing import Listed
    from edgex.runtime.execute.request import Address, DeviceOptions


class Adb:
    """See `edgex.runtime.execute.base.ExecutorKind`."""

    def open(self, address: Address, options: DeviceOptions) -> AdbDevice:
        """Open the Android device that is meant.

        Args:
            address: With a serial number, or without one where a single device is connected.
            options: Names the app.

        Raises:
            DeviceError: There is no adb, no server, no such device or several, or it is not ready; or the app is none.
        """
        from edgex.runtime.execute.adb.app.app import check_app_choice
        from edgex.runtime.execute.adb.device import AdbDevice
        from edgex.runtime.execute.adb.transport.client import find_client
        from edgex.runtime.execute.adb.transport.listing import choose

        choice = None if options.app is None else check_app_choice(options.app)
        client = find_client(os.environ)
        return AdbDevice(replace(client, serial=choose(client, address.serial).serial), choice)

    def list(self) -> list[DeviceInfo]:
        """Every device that adb sees; what keeps one from being used, or adb itself, is its problem."""
        from edgex.runtime.execute.adb.transport.client import find_client
        from edgex.runtime.execute.adb.transport.listing import list_connected

        try:
            client = find_client(os.environ)
            return [_describe(client, listed) for listed in list_connected(client)]
        except DeviceError as error:
            return [_unusable("adb", None, error)]


def _describe(client: AdbClient, listed: Listed) -> DeviceInfo:
    from edgex.runtime.execute.adb.description import describe_device
    from edgex.runtime.execute.adb.transport.listing import require_ready

    try:
        require_ready(listed)
        return describe_device(replace(client, serial=listed.serial)).info
    except DeviceError as error:
        return _unusable(f"adb:{listed.serial}", listed.model, error)


def _unusable(address: str, model: str | None, error: DeviceError) -> DeviceInfo:
    problem = error.what if error.fix is None else f"{error.what}: {error.fix}"
    return DeviceInfo("adb", address, model=model, problems=(problem,))
