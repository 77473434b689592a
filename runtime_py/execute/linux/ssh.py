"""`--device ssh:HOST`: a Linux machine over the user's own OpenSSH client."""

from __future__ import annotations

from edgex.runtime.execute.linux.machine import LinuxDevice
from edgex.runtime.execute.linux.ssh_link import SshLink
from edgex.runtime.execute.request import Address, DeviceInfo, DeviceOptions


class Ssh:
    """See `edgex.runtime.execute.base.ExecutorKind`."""

    def open(self, address: Address, options: DeviceOptions) -> LinuxDevice:
        """Connect.

        Raises:
            DeviceError: There is no connection; says why, and what to do.
        """
        return LinuxDevice("ssh", SshLink(address), options)

    def list(self) -> list[DeviceInfo]:
        """There is no list of hosts."""
        return []
