"""`--device local-native`: this machine, by the native runner instead of Python and torch."""

from __future__ import annotations

import sys
from dataclasses import replace

from edgex.errors import DeviceError
from edgex.runtime.execute.linux.link import LocalLink
from edgex.runtime.execute.linux.machine import LinuxDevice
from edgex.runtime.execute.request import Address, DeviceInfo, DeviceOptions


class LocalNative:
    """See `edgex.runtime.execute.base.ExecutorKind`."""

    def open(self, address: Address, options: DeviceOptions) -> LinuxDevice:
        """Open this machine as a device.

        Raises:
            DeviceError: It is no Linux.
        """
        if sys.platform != "linux":
            raise DeviceError(f"{address}: the native runner is for Linux, this is {sys.platform}")
        if options.python == DeviceOptions.python:
            options = replace(options, python=sys.executable)
        return LinuxDevice("local-native", LocalLink(), options)

    def list(self) -> list[DeviceInfo]:
        """This machine, if it is a Linux."""
        if sys.platform != "linux":
            return []
        with self.open(Address("local-native"), DeviceOptions()) as machine:
            return [machine.describe()]
