"""Which devices are there: `edgex devices`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence

from edgex.errors import DeviceError
from edgex.runtime.execute.address import Address, open_device
from edgex.runtime.execute.base import DeviceInfo

# Lists what adb sees: () -> DeviceInfo of each. Another kind that can list its devices gets a line here.
LISTERS = ("edgex.runtime.execute.adb:list_adb",)


def list_devices(asked: Sequence[Address] = ()) -> list[DeviceInfo]:
    """This machine, what adb sees, and the devices that are asked for; one that fails is listed with its problem.

    Args:
        asked: Further devices, such as ssh hosts: there is no list of those.
    """
    found = [_describe(Address("local-native"))] if sys.platform == "linux" else []
    for lister in LISTERS:
        module, _, function = lister.partition(":")
        if importlib.util.find_spec(module) is None:
            continue
        try:
            found += getattr(importlib.import_module(module), function)()
        except DeviceError as error:
            found.append(_unusable("adb", "adb", error))
    known = {info.address for info in found}
    if any(info.kind == "adb" for info in found):
        known.add("adb")
    return found + [_describe(address) for address in dict.fromkeys(asked) if str(address) not in known]


def _describe(address: Address) -> DeviceInfo:
    try:
        with open_device(address) as device:
            return device.describe()
    except DeviceError as error:
        return _unusable(address.kind, str(address), error)


def _unusable(kind: str, address: str, error: DeviceError) -> DeviceInfo:
    problem = error.what if error.fix is None else f"{error.what}; {error.fix}"
    return DeviceInfo(kind, address, problems=(problem,))
