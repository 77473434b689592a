"""`--device ssh:HOST`: a Linux machine over the user's own OpenSSH client."""

from __future__ import annotations

from edgex.runtime.execute.address import Address
from edgex.runtime.execute.base import DeviceOptions
from edgex.runtime.execute.linux.machine import LinuxDevice
from edgex.runtime.execute.linux.ssh_link import SshLink


def open_ssh(address: Address, options: DeviceOptions) -> LinuxDevice:
    """Connect.

    Raises:
        DeviceError: There is no connection; says why, and what to do.
    """
    return LinuxDevice("ssh", SshLink(address), options)
