"""Which devices are there: `edgex devices`."""

from __future__ import annotations

from collections.abc import Sequence

from edgex.errors import DeviceError
from edgex.runtime.execute.address import EXECUTOR_GROUP, get_kind, open_executor
from edgex.runtime.execute.request import Address, DeviceInfo
from edgex.runtime.support.entry_points import find_plugins

# This machine comes first.
_FIRST = "local-native"


def list_devices(asked: Sequence[Address] = ()) -> list[DeviceInfo]:
    """Every device that its kind can list, and those that are asked for; one that fails is listed with its problem.

    Args:
        asked: Further devices, such as ssh hosts: there is no list of those.
    """
    found: list[DeviceInfo] = []
    for kind in sorted(find_plugins(EXECUTOR_GROUP), key=lambda name: (name != _FIRST, name)):
        try:
            found += get_kind(kind).list()
        except DeviceError as error:
            found.append(_unusable(kind, kind, error))
    known = {info.address for info in found}
    if any(info.kind == "adb" for info in found):
        known.add("adb")
    return found + [_describe(address) for address in dict.fromkeys(asked) if str(address) not in known]


def _describe(address: Address) -> DeviceInfo:
    try:
        with open_executor(address) as device:
            return device.describe()
    except DeviceError as error:
        return _unusable(address.kind, str(address), error)


def _unusable(kind: str, address: str, error: DeviceError) -> DeviceInfo:
    problem = error.what if error.fix is None else f"{error.what}; {error.fix}"
    return DeviceInfo(kind, address, problems=(problem,))
