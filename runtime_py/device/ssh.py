"""`--device ssh:HOST`: a Linux machine over the user's own OpenSSH client."""

from __future__ import annotations

from edgex.runtime.device.address import Address
from edgex.runtime.device.base import DeviceOptions
from edgex.runtime.device.linux import LinuxDevice
from edgex.runtime.device.ssh_link import SshLink


def open_ssh(address: Address, options: DeviceOptions) -> LinuxDevice:
    """Connect.

    Raises:
        DeviceError: There is no connection; says why, and what to do.
    """
    return LinuxDevice("ssh", SshLink(address), options)
