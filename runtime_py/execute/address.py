"""`--device`: which executor is meant, and the way to it.

A new place to run (a board, a farm, a cluster) is a module with a class that has the methods of
`edgex.runtime.execute.base.ExecutorKind`, and an entry point, by which the three that come with edgex are found too:

```toml
[project.entry-points."edgex.executors"]
farm = "mypackage.farm:Farm"            # --device farm:REST
```
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import cast

from edgex.errors import UsageError, nearest_name
from edgex.runtime.execute.base import Executor, ExecutorKind
from edgex.runtime.execute.request import Address, DeviceOptions
from edgex.runtime.support.entry_points import find_plugins, load_plugin

EXECUTOR_GROUP = "edgex.executors"

_FORMS = {"adb": "adb[:SERIAL]", "ssh": "ssh:[USER@]HOST[:PORT]", "local-native": "local-native"}


def parse_address(text: str) -> Address:
    """Read what `--device` was given.

    Args:
        text: `adb`, `adb:SERIAL`, `ssh:[user@]host[:port]` (an IPv6 address in brackets), `local-native`, or a kind of
            another package, with what that takes.

    Raises:
        UsageError: It has another form.
    """
    kind, separator, rest = text.partition(":")
    kinds = find_plugins(EXECUTOR_GROUP)
    if kind not in kinds:
        forms = ", ".join(_FORMS.get(name, f"{name}[:…]") for name in kinds)
        known = f"{nearest_name(kind, kinds)}\nforms: {forms}"
        raise UsageError(f"--device {text}: no such kind of device: {kind!r}", why=known)
    if kind == "local-native":
        if separator:
            raise UsageError(f"--device {text}: local-native is this machine and takes no more", fix=f"--device {kind}")
        return Address("local-native")
    if kind == "adb":
        # Serials hold colons where a device is reached by network (host:port); they never begin with a dash.
        if separator and not re.fullmatch(r"[\w.\[\]][\w.:\-\[\]]*", rest):
            raise UsageError(f"--device {text}: {rest!r} is no serial number", fix="adb devices lists them")
        return Address("adb", serial=rest or None)
    return _parse_ssh(text, rest) if kind == "ssh" else Address(kind, serial=rest or None)


def _parse_ssh(text: str, rest: str) -> Address:
    # A host that begins with a dash would be an option to ssh.
    found = re.fullmatch(r"(?:([\w.][\w.\-]*)@)?(?:\[([0-9A-Fa-f:.]+(?:%\w+)?)\]|([\w.][\w.\-]*))(?::(\d+))?", rest)
    if found is None:
        raise UsageError(f"--device {text}: expected ssh:[USER@]HOST[:PORT]", fix="--device ssh:pi@raspberrypi:22")
    port = None if found[4] is None else int(found[4])
    if port is not None and not 1 <= port <= 65535:
        raise UsageError(f"--device {text}: {port} is no port", fix="ports are 1 to 65535")
    return Address("ssh", user=found[1], host=found[2] or found[3], port=port)


def check_options(address: Address, options: DeviceOptions) -> None:
    """Refuse options that mean nothing on a device of this kind.

    Raises:
        UsageError: One was given.
    """
    if address.kind not in ("ssh", "local-native"):
        for flag, given in (("--executorch-wheel", options.executorch_wheel), ("--device-python", options.python)):
            if given is not None:
                raise UsageError(f"{flag} is for Linux machines, not for {address}", fix=f"leave {flag} out")
    if address.kind != "adb" and options.app is not None:
        raise UsageError(f"--app is for Android devices (adb), not for {address}", fix="leave --app out")


def refuse_idle_options(options: DeviceOptions, engines: Collection[str]) -> None:
    """Refuse options that none of the artifacts has a use for.

    Args:
        options: For a Linux machine.
        engines: Of the artifacts.

    Raises:
        UsageError: One was given for nothing.
    """
    for flag, given, engine, use in (
        ("--executorch-wheel", options.executorch_wheel, "executorch", "the native runner, which runs .pte files"),
        ("--device-python", options.python, "onnxruntime", "ONNX artifacts: a .pte needs no Python"),
    ):
        if given is not None and engine not in engines:
            shown = ", ".join(sorted(set(engines)))
            raise UsageError(f"{flag} is for {use}; here the engine is {shown}", fix=f"leave {flag} out")


def get_kind(name: str) -> ExecutorKind:
    """The executors of a kind.

    Raises:
        TargetUnavailable: The package that registers it is broken.
    """
    return cast(ExecutorKind, load_plugin(EXECUTOR_GROUP, name, find_plugins(EXECUTOR_GROUP)[name]))


def open_executor(address: Address | str, options: DeviceOptions | None = None) -> Executor:
    """Open what `--device` names; nothing is sent to it yet.

    Args:
        address: As `--device` takes it.
        options: For devices of its kind.

    Raises:
        UsageError: The address has another form, or the options are not for its kind.
        DeviceError: The device cannot be reached.
    """
    parsed = parse_address(address) if isinstance(address, str) else address
    given = options or DeviceOptions()
    check_options(parsed, given)
    return get_kind(parsed.kind).open(parsed, given)
