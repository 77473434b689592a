"""`--device local-native`: this machine, by the native runner instead of Python and torch."""

from __future__ import annotations

import sys
from dataclasses import replace

from edgex.errors import DeviceError
from edgex.runtime.execute.address import Address
from edgex.runtime.execute.base import DeviceOptions
from edgex.runtime.execute.linux.link import LocalLink
from edgex.runtime.execute.linux.machine import LinuxDevice


def open_local(address: Address, options: DeviceOptions) -> LinuxDevice:
    """Open this machine as a device.

    Raises:
        DeviceError: It is no Linux.
    """
    if sys.platform != "linux":
        raise DeviceError(f"{address}: the native runner is for Linux, this is {sys.platform}")
    if options.python == DeviceOptions.python:
        options = replace(options, python=sys.executable)
    return LinuxDevice("local-native", LocalLink(), options)
